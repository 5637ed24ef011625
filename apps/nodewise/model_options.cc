#include "apps/nodewise/model_options.h"

#include <charconv>
#include <utility>

#include "apps/nodewise/foreign_target.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<std::pair<std::string, int64_t>> ParseDim(
    const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--dim", text, "NAME=N"));
  int64_t size = 0;
  const char* const end = parts.value.data() + parts.value.size();
  const auto [stop, error] = std::from_chars(parts.value.data(), end, size);
  if (error != std::errc() || stop != end || size < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--dim: found \"{}\", expected NAME=N, as in batch=1", text));
  }
  return std::pair(std::move(parts.name), size);
}

absl::StatusOr<NamedTensor> ReadFrozen(const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--freeze", text, "NAME=FILE"));
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            ReadOneTensor(parts.value, {parts.name}));
  return NamedTensor{std::move(parts.name), std::move(tensor)};
}

// None if nothing was said.
absl::StatusOr<std::optional<Backend>> BackendOf(
    const LoweringOptions& options) {
  if (options.backend.empty()) {
    return options.reference ? std::optional(Backend::kReference)
                             : std::nullopt;
  }
  if (options.backend == "reference") return Backend::kReference;
  if (options.backend != "onednn") {
    return absl::InvalidArgumentError(
        fmt::format("--backend: found \"{}\", expected onednn or reference",
                    options.backend));
  }
  if (!options.reference) return Backend::kFastest;
  return absl::InvalidArgumentError(
      "--backend onednn: contradicts --reference");
}

}  // namespace

void AddModelOptions(OptionList* options, ModelOptions* model) {
  options->AddTexts("--dim", "NAME=N",
                    "of an ONNX model: the size of a dimension by its name, "
                    "or by INPUT:SIDE, as in x:0=1, where it has none; may be "
                    "given again",
                    &model->dims);
  options->AddTexts("--freeze", "NAME=FILE",
                    "of an ONNX model: an input that is always this tensor; "
                    "may be given again",
                    &model->freeze);
  options->AddNumber("--seed", "N",
                     "of an ONNX model: what random operators draw from that "
                     "have no seed of their own (1)",
                     {&model->seed});
}

void AddOpaqueOption(OptionList* options, ModelOptions* model) {
#ifdef NODEWISE_USE_ONNX
  options->AddText("--opaque", "PROGRAM",
                   "of an ONNX model: what runs the operations that are not "
                   "known here, each as a model of its own: ort or "
                   "exec:COMMAND",
                   &model->opaque);
#else
  (void)options, (void)model;
#endif
}

void AddReferenceOption(OptionList* options, LoweringOptions* lowering) {
  options->AddFlag("--reference",
                   "computes an ONNX model slowly but surely, by the "
                   "definitions of its operators, one node for each",
                   &lowering->reference);
  AddBackendOption(options, lowering);
}

void AddBackendOption(OptionList* options, LoweringOptions* lowering) {
  options->AddText("--backend", "NAME",
                   "what computes the nodes of a model, or of a folder that "
                   "convert made: onednn, with the reference for what that "
                   "has not, or reference",
                   &lowering->backend);
}

void AddLoweringOptions(OptionList* options, LoweringOptions* lowering) {
  options->AddFlag("--no-fuse", "of an ONNX model: one node for each operation",
                   &lowering->no_fuse);
  options->AddFlag("--no-reuse",
                   "of an ONNX model: memory of its own for each tensor",
                   &lowering->no_reuse);
  options->AddFlag("--no-layouts",
                   "of an ONNX model: every tensor in the order of the model, "
                   "never with its channels last",
                   &lowering->no_layouts);
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

absl::StatusOr<LoweringSpec> SpecOf(const LoweringOptions& options) {
  LoweringSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(spec.backend, BackendOf(options));
  spec.fuses = !options.no_fuse && !options.reference;
  spec.reuses_storage = !options.no_reuse;
  spec.chooses_layouts = !options.no_layouts;
  return spec;
}

absl::Status CheckNoneGiven(
    std::initializer_list<std::pair<bool, const char*>> given,
    const std::string& target) {
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: is not an .onnx file, expected one with {}", target, name));
  }
  return absl::OkStatus();
}

absl::Status CheckNoModelOptions(const ModelOptions& options,
                                 const std::string& target) {
  return CheckNoneGiven({{!options.dims.empty(), "--dim"},
                         {!options.freeze.empty(), "--freeze"},
                         {options.seed.has_value(), "--seed"},
                         {!options.opaque.empty(), "--opaque"}},
                        target);
}

absl::Status CheckNoLoweringOptions(const LoweringOptions& options,
                                    const std::string& target) {
  return CheckNoneGiven({{options.reference, "--reference"},
                         {options.no_fuse, "--no-fuse"},
                         {options.no_reuse, "--no-reuse"},
                         {options.no_layouts, "--no-layouts"}},
                        target);
}

absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected) {
  const size_t equals = text.find('=');
  if (equals != 0 && equals != std::string::npos && equals + 1 != text.size()) {
    return NameAndValue{text.substr(0, equals), text.substr(equals + 1)};
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: found \"{}\", expected {}", option, text, expected));
}

}  // namespace nodewise
