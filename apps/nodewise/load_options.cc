#include "apps/nodewise/load_options.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/nodewise/foreign_target.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/foreign/known_programs.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/report/model_report.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

// Takes "cuda:1", or "cuda" for the first one. A device that this machine lacks
// is an error here, before anything large is read.
absl::StatusOr<DLDevice> ParseDevice(const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto type = ParseDeviceType(text.substr(0, colon));
  if (!type.ok()) return At("--device", type.status());
  DLDevice device = MakeDevice(*type, 0);
  if (colon < text.size() &&
      (!ReadNumber(std::string_view(text).substr(colon + 1),
                   &device.device_id) ||
       device.device_id < 0)) {
    return BadValue("--device", text, "NAME or NAME:ID, as in cpu:0");
  }
  const auto found = FindDevice(device);
  if (!found.ok()) return At("--device " + text, found.status());
  return device;
}

// A side of length 0 is allowed: models have empty tensors.
absl::StatusOr<std::pair<std::string, int64_t>> ParseDim(
    const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--dim", text, "NAME=N"));
  int64_t size = 0;
  if (ReadNumber(parts.value, &size) && size >= 0) {
    return std::pair(std::move(parts.name), size);
  }
  return BadValue("--dim", text, "NAME=N, as in batch=1");
}

// The file may hold several tensors, or one of another name; which one is meant
// is the business of ReadOneTensor().
absl::StatusOr<NamedTensor> ReadFrozen(const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--freeze", text, "NAME=FILE"));
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            ReadOneTensor(parts.value, {parts.name}));
  return NamedTensor{std::move(parts.name), std::move(tensor)};
}

absl::StatusOr<std::optional<Backend>> BackendOf(
    const LoweringOptions& options) {
  if (options.backend.empty()) {
    return options.reference ? std::optional(Backend::kReference)
                             : std::nullopt;
  }
  // --reference contradicts nothing if --backend asks for the reference, too.
  if (options.backend == "reference") return Backend::kReference;
  if (options.backend != "onednn") {
    return BadValue("--backend", options.backend, "onednn or reference");
  }
  if (!options.reference) return Backend::kFastest;
  return InvalidArgument("--backend onednn: contradicts --reference");
}

// A network that lacks the length of a side cannot draw its input or plan its
// memory. Names the options that give the unknown sides of an input their
// sizes.
std::string InputSizeHint(const std::string& name, const TensorType& type) {
  // Without a rank there is no telling how many sides need a length.
  if (!type.has_rank()) return "";
  std::string options;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& side = (*type.shape)[i];
    if (side.is_known()) continue;
    options += fmt::format(" --dim {}=N", NameOfSide(name, i, side));
  }
  return ":" + options;
}

// Verbs that can have another program run TARGET look for that before they come
// here, so a name of one means nothing for this verb.
absl::Status CheckRunsHere(const std::string& target) {
  if (!NamesProgram(target)) return absl::OkStatus();
  return InvalidArgument(
      "{}: is run by another program, expected an artefact or a model here "
      "(run, dump and locate take such a TARGET)",
      target);
}

// An option that is read and then ignored would leave the user believing that
// it had done something.
absl::Status CheckOptionsFit(const LoadOptions& options) {
  const std::string& target = options.target.target;
  if (IsModelOrText(target)) return CheckModelTarget(options.target);
  NODEWISE_RETURN_IF_ERROR(
      CheckNoModelOptions(GivenOptionsOf(options.model), target));
  const LoweringOptions& lowering = options.lowering;
  const PrecisionChoice& precision = options.precision;
  return CheckNoModelOptions({{lowering.reference, "--reference"},
                              {lowering.no_fuse, "--no-fuse"},
                              {lowering.no_reuse, "--no-reuse"},
                              {lowering.no_layouts, "--no-layouts"},
                              {!precision.precision.empty(), "--precision"},
                              {!precision.calibrate.empty(), "--calibrate"},
                              {!precision.calibration.empty(), "--calibration"},
                              {!precision.keep.empty(), "--keep"}},
                             target);
}

}  // namespace

// What TARGET may be differs a little from verb to verb; the help says all of
// it.
void AddTargetOptions(OptionList* options, TargetOptions* target) {
  options->Add({
      {"TARGET", "",
       "an artefact folder, a factory or VM library, a graph JSON with --lib "
       "and --params, or an ONNX model; run, dump, profile and locate take "
       "ort:MODEL.onnx and its like (docs/adapters.md), and exec:COMMAND",
       &target->target},
      {"--lib", "FILE", "the compiled library to use", &target->library},
      {"--params", "FILE", "the parameters to use", &target->params},
      {"--function", "NAME",
       "in a VM library, the function to use: main, if it has one",
       &target->function},
  });
}

CommandOption DeviceOption(TargetOptions* target) {
  return {"--device", "NAME[:ID]",
          "where to run: cpu (the default); may be given again for graphs on "
          "several devices",
          &target->devices};
}

absl::StatusOr<TargetSpec> SpecOf(const TargetOptions& target) {
  TargetSpec spec;
  spec.path = target.target;
  spec.library = target.library;
  spec.params = target.params;
  spec.function = target.function;
  for (const std::string& text : target.devices) {
    NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, ParseDevice(text));
    spec.devices.push_back(device);
  }
  // Graphs for another device still have functions that a compiler left on the
  // host, and these need the CPU; it is last, so that the others come first.
  if (std::ranges::none_of(spec.devices,
                           [](DLDevice device) { return device == kCpu; })) {
    spec.devices.push_back(kCpu);
  }
  return spec;
}

// TARGET itself is always given, and is not among them.
GivenOptions GivenOptionsOf(const TargetOptions& target) {
  return {{!target.library.empty(), "--lib"},
          {!target.params.empty(), "--params"},
          {!target.devices.empty(), "--device"},
          {!target.function.empty(), "--function"}};
}

absl::Status CheckModelTarget(const TargetOptions& target) {
  return RefuseGiven(GivenOptionsOf(target),
                     target.target + ": is an ONNX model, expected no ", "");
}

// A factory library has its graph and parameters in it, and no other files.
std::vector<std::string> PathsIn(const ArtefactFiles& files) {
  std::vector<std::string> paths = {files.graph, files.library, files.params};
  std::erase(paths, "");
  return paths;
}

bool MayBeVmLibrary(const std::string& path) {
  const auto library = OpenVmLibrary(path);
  return !library.ok() || *library != nullptr;
}

void AddModelOptions(OptionList* options, ModelOptions* model) {
  options->Add({
      {"--dim", "NAME=N",
       "for ONNX models: the size of a dimension by its name, or by "
       "INPUT:SIDE, as in x:0=1, where it has none; may be given again",
       &model->dims},
      {"--freeze", "NAME=FILE",
       "for ONNX models: an input that is always this tensor; may be given "
       "again",
       &model->freeze},
      {"--seed", "N",
       "for ONNX models: what random operators draw from that have no seed of "
       "their own (1)",
       NumberOption{&model->seed}},
  });
}

// Builds without ONNX have no operations that could be opaque.
void AddOpaqueOption(OptionList* options, ModelOptions* model) {
#ifdef NODEWISE_USE_ONNX
  options->Add({{"--opaque", "PROGRAM",
                 "for ONNX models: what runs the operations that are not "
                 "known here, each as a model of its own: ort or exec:COMMAND",
                 &model->opaque}});
#else
  (void)options, (void)model;
#endif
}

absl::StatusOr<ModelSpec> SpecOf(const ModelOptions& options) {
  ModelSpec spec;
  spec.seed = options.seed;
  for (const std::string& text : options.dims) {
    NODEWISE_ASSIGN_OR_RETURN(auto dim, ParseDim(text));
    spec.dims.push_back(std::move(dim));
  }
  for (const std::string& text : options.freeze) {
    NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ReadFrozen(text));
    spec.freeze.push_back(std::move(tensor));
  }
  // The program is found here, so that its absence is an error of the option,
  // and not of the first operation that needs it.
  if (options.opaque.empty()) return spec;
  ForeignOptions foreign;
  foreign.python = options.opaque_python;
  foreign.limit_s = options.opaque_limit_s;
  NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                            ProgramNamed("--opaque", options.opaque, foreign));
  spec.opaque_program =
      std::make_shared<const ForeignTarget>(std::move(program));
  return spec;
}

GivenOptions GivenOptionsOf(const ModelOptions& options) {
  return {{!options.dims.empty(), "--dim"},
          {!options.freeze.empty(), "--freeze"},
          {options.seed.has_value(), "--seed"},
          {!options.opaque.empty(), "--opaque"}};
}

// Verbs that have a --reference of their own take this one alone.
CommandOption BackendOption(LoweringOptions* lowering) {
  return {"--backend", "NAME",
          "what computes the nodes of a model, or of a folder that convert "
          "made: onednn, with the reference for what that has not, or "
          "reference",
          &lowering->backend};
}

void AddLoweringOptions(OptionList* options, LoweringOptions* lowering) {
  options->Add({
      {"--no-fuse", "", "for ONNX models: one node for each operation",
       &lowering->no_fuse},
      {"--no-reuse", "", "for ONNX models: memory of its own for each tensor",
       &lowering->no_reuse},
      {"--no-layouts", "",
       "for ONNX models: every tensor in the order of the model, never with "
       "its channels last",
       &lowering->no_layouts},
  });
}

absl::StatusOr<LoweringSpec> SpecOf(const LoweringOptions& options) {
  LoweringSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(spec.backend, BackendOf(options));
  // The reference is asked for to see each operation by itself.
  spec.fuses = !options.no_fuse && !options.reference;
  spec.reuses_storage = !options.no_reuse;
  spec.chooses_layouts = !options.no_layouts;
  return spec;
}

absl::Status CheckNoModelOptions(const GivenOptions& options,
                                 const std::string& target) {
  return RefuseGiven(options,
                     target + ": is not an .onnx file, expected one with ", "");
}

void AddInputOptions(OptionList* options, InputOptions* inputs) {
  options->Add({
      {"--input", "NAME=FILE",
       "an input from a .npy, .npz, .params or .pb file; once for each input",
       &inputs->inputs},
      {"--inputs", "FILE",
       "inputs by their names from a .npz or .params file; may be given again",
       &inputs->inputs_files},
      {"--random-inputs", "SEED",
       "draws the inputs that are not given; one seed gives the same values "
       "everywhere",
       NumberOption{&inputs->seed}},
  });
}

absl::StatusOr<InputSpec> SpecOf(const InputOptions& options) {
  InputSpec spec;
  spec.seed = options.seed;
  for (const std::string& argument : options.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                              SplitAtEquals("--input", argument, "NAME=FILE"));
    spec.files.push_back({std::move(parts.name), std::move(parts.value)});
  }
  // A file without a name gives all inputs that have their names in it.
  for (const std::string& file : options.inputs_files) {
    spec.files.push_back({"", file});
  }
  // The library knows of inputs that are missing, but not what options are
  // called.
  spec.hints.how_to_give = [](const std::string& name) {
    return fmt::format("--input {}=FILE, --inputs FILE or --random-inputs SEED",
                       name);
  };
  spec.hints.how_to_size = &InputSizeHint;
  return spec;
}

void AddPrecisionOptions(OptionList* options, PrecisionChoice* choice) {
  options->Add({
      {"--precision", "NAME",
       "for ONNX models: fp16, bf16 or int8, as far as its operators take it",
       &choice->precision},
      {"--calibrate", "FILE",
       "sample inputs for --precision: a .npz or .params file with all of "
       "them, an ONNX test set, or random:SEED; may be given again",
       &choice->calibrate},
      {"--calibration", "METHOD",
       "how int8 takes ranges from them: minmax, percentile (99.9) or "
       "percentile=N (minmax)",
       &choice->calibration},
      {"--keep", "REGEX", "operations in whose name this is found stay float32",
       &choice->keep},
  });
}

// Locate has this option as well, where a function is suspected or missing.
CommandOption StandInOption(std::vector<std::string>* expressions) {
  return {"--stand-in", "REGEX",
          "has the reference compute the nodes in whose name, key or function "
          "it is found; may be repeated",
          expressions};
}

// The order is that of the help: first what is run, then on what, then how.
void AddLoadOptions(OptionList* options, LoadOptions* load) {
  AddTargetOptions(options, &load->target);
  options->Add({DeviceOption(&load->target)});
  AddInputOptions(options, &load->inputs);
  options->Add({
      {"--reference", "",
       "computes an ONNX model slowly but surely, by the definitions of its "
       "operators, one node for each",
       &load->lowering.reference},
      BackendOption(&load->lowering),
  });
  AddLoweringOptions(options, &load->lowering);
  AddModelOptions(options, &load->model);
  AddOpaqueOption(options, &load->model);
  AddPrecisionOptions(options, &load->precision);
  options->Add({StandInOption(&load->stand_ins)});
}

absl::StatusOr<TargetSpec> SpecOf(const LoadOptions& options) {
  // What is said wrongly is found before any file is opened, as far as that can
  // be known from the options alone.
  NODEWISE_RETURN_IF_ERROR(CheckRunsHere(options.target.target));
  NODEWISE_RETURN_IF_ERROR(CheckOptionsFit(options));
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(options.target));
  NODEWISE_ASSIGN_OR_RETURN(spec.lowering, SpecOf(options.lowering));
  NODEWISE_ASSIGN_OR_RETURN(spec.model, SpecOf(options.model));
  NODEWISE_ASSIGN_OR_RETURN(spec.precision, SpecOf(options.precision));
  NODEWISE_ASSIGN_OR_RETURN(spec.inputs, SpecOf(options.inputs));
  spec.stand_ins = options.stand_ins;
  spec.passes = options.passes;
  spec.keeps_opaque = options.keeps_opaque;
  return spec;
}

absl::StatusOr<Session> LoadTarget(const LoadOptions& options, Report* report,
                                   OpenSizes open) {
  // Where sizes are kept open, the session has a network and no graph.
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(options));
  spec.keeps_open_sizes = open == OpenSizes::kKept;
  NODEWISE_ASSIGN_OR_RETURN(Session session, OpenReported(spec, report));
  // One line is enough here: convert shows each change of precision.
  if (session.precision != nullptr) {
    report->notes.push_back(PrecisionLine(*session.precision));
  }
  return session;
}

// Messages about the files go through a list, since there may be many of them.
absl::StatusOr<Session> OpenReported(const TargetSpec& spec, Report* report) {
  DiagnosticList faults;
  auto opened = OpenTarget(spec, &faults);
  return Opened(std::move(opened), faults, report);
}

absl::StatusOr<Session> Opened(absl::StatusOr<Session> session,
                               const DiagnosticList& faults, Report* report) {
  // The status is then only the first of the faults.
  if (faults.HasErrors()) {
    report->AddErrors(faults);
    return Session();
  }
  NODEWISE_RETURN_IF_ERROR(session.status());
  for (const std::string& note : session->notes) report->notes.push_back(note);
  return session;
}

absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected) {
  // The first '=' counts: a file's name may hold another.
  const size_t equals = text.find('=');
  if (equals != 0 && equals != std::string::npos && equals + 1 != text.size()) {
    return NameAndValue{text.substr(0, equals), text.substr(equals + 1)};
  }
  return BadValue(option, text, expected);
}

}  // namespace nodewise
