#include <filesystem>
#include <optional>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/diagnose_options.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/terminal.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/process/isolation.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Each repetition is a whole run of TARGET.
constexpr uint64_t kMostRunsAgain = 10'000;
// The bound of --worst and of --top; real lists are far shorter.
constexpr uint64_t kMostSamples = 1'000'000;
constexpr uint64_t kMostSeconds = kMostTimeLimitMs / 1000;
// This word stands in the place of a file of inputs. A file of that name can
// still be given as ./exact.
constexpr std::string_view kExact = "exact";

// What is asked is a Question: what is right, what is judged, and how it is
// searched. This class only fills one in; Diagnose() decides what to do.
class LocateCulprit : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &load_.target);
    options->Add({DeviceOption(&load_.target)});
    AddInputOptions(options, &load_.inputs);
    options->Add({
        {"--reference", "REF",
         "what is right: the model that TARGET was made of, also before a "
         "quantiser or simplifier; another build; ort:MODEL.onnx, or "
         "exec:COMMAND with --model; or interpreter, the operators' "
         "definitions (interpreter)",
         &reference_},
        {"--method", "NAME",
         "auto; intermediate: nodes are run once, on what they read and from "
         "end to end, and no more; bisect: halves the network, or with "
         "--reference the functions of both builds; recursive: for each node "
         "what leads to it is run, in little memory; or replay: TARGET is a "
         "dump, and nothing of it runs (auto)",
         &method_},
        {"--series", "BUILD...",
         "builds in their order, the first one good and the last one bad: "
         "finds the first bad one and its functions. A library goes with the "
         "graph and parameters of TARGET",
         &series_, true},
        {"--samples", "DIR",
         "many inputs: runs every file and folder of inputs in DIR, and "
         "examines those with the largest errors",
         &samples_},
        {"--worst", "K",
         "how many of the samples with the largest errors are examined (3)",
         NumberOption{&worst_, 1, kMostSamples}},
        {"--repeats", "N",
         "how often auto runs TARGET again, to find nodes that are not "
         "deterministic (12; 1 for another program)",
         NumberOption{&repeats_, 0, kMostRunsAgain}},
        {"--node-timeout", "SECONDS",
         "how long a node may take before it hangs (60)",
         NumberOption{&node_timeout_, 1, kMostSeconds}},
        StandInOption(&load_.stand_ins),
        {"--strict", "",
         "accuses every node that is beyond its bound, also where that is too "
         "little to matter for anything",
         &question_.is_strict},
        {"--known", "FILE",
         "for ort: and exec: what nodewise adapter learn has measured of the "
         "runtime",
         &question_.known_file},
        {"--top", "N", "how many culprits are shown (10)",
         NumberOption{&top_, 1, kMostSamples}},
        {"--repro", "DIR",
         "writes each culprit as a folder of its own in DIR, which shows the "
         "failure wherever it is moved to",
         &question_.repro_folder},
        {"--anonymous", "",
         "with --repro: the folders may be given to strangers, since names are "
         "replaced, and weights and inputs where the failure survives it; what "
         "stays is listed",
         &question_.is_anonymous},
        BackendOption(&load_.lowering),
    });
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddOpaqueOption(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    AddForeignOptions(options, &foreign_);
    options->Add({
        ObservationOption(&foreign_),
        {"--referee", "RUNNER",
         "what else computes a node that the reference accuses: ort or "
         "exec:COMMAND",
         &referee_},
        {"--trust", "SIDE",
         "target or reference: which of two builds is right whose nodes do not "
         "say what they compute (neither: only where they differ is said)",
         &trust_},
        {"--third", "BUILD",
         "a third build of that network, which decides which of the two is "
         "right",
         &third_},
        {"--special-inputs", "",
         "beside a model by its values: one more set of inputs, with NaN and "
         "infinities in some places",
         &question_.has_special_inputs},
        SetsOption(&question_.input_sets),
    });
  }

  absl::StatusOr<Report> Run() override {
    ShareWithOpaque(foreign_, &load_.model);
    NODEWISE_RETURN_IF_ERROR(SetSettings());
    NODEWISE_RETURN_IF_ERROR(SetReference());
    NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOfTarget());
    // A long search would be lost for want of a folder.
    if (!question_.repro_folder.empty()) {
      NODEWISE_RETURN_IF_ERROR(CheckReproFolder(question_.repro_folder));
    }
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(question_.target, OpenReported(spec, &report));
    if (report.status != Report::Status::kOk) return report;
    // The recursive method is there to need little memory.
    if (question_.method != Method::kRecursive) KeepFreedMemory();
    NODEWISE_ASSIGN_OR_RETURN(const Answer answer, Ask());
    report = ReportOf(answer, top_.value_or(kShownCulprits));
    if (keeps_archive()) AddDigestsOf(answer.target, &report);
    return report;
  }

 private:
  // Each part of the search has a bar of its own.
  absl::StatusOr<Answer> Ask() {
    std::optional<Progress> progress;
    std::string shown;
    question_.progress = [&](std::string_view what, size_t done, size_t total) {
      if (what != shown) progress.emplace(shown = what);
      progress->Update(done, total);
    };
    return Diagnose(question_);
  }

  // What was not said keeps the question's own value: the search knows what is
  // usual for it.
  absl::Status SetSettings() {
    if (!method_.empty()) {
      auto method = ParseMethod(method_);
      if (!method.ok()) return At("--method", method.status());
      question_.method = *method;
    }
    if (repeats_.has_value()) question_.repeats = static_cast<int>(*repeats_);
    if (node_timeout_.has_value()) {
      question_.node_limit_ms = static_cast<int64_t>(*node_timeout_) * 1000;
    }
    // Each sample is a whole set of inputs.
    const std::vector<std::string>& files = load_.inputs.inputs_files;
    if (!samples_.empty() && !files.empty()) {
      return InvalidArgument("--inputs: means nothing with --samples");
    }
    // The network's own inputs do not matter to nodes that get inputs of their
    // own.
    if (files.size() == 1 && files[0] == kExact) {
      question_.uses_exact_inputs = true;
      load_.inputs.inputs_files.clear();
      if (!load_.inputs.seed.has_value()) load_.inputs.seed = 1;
    }
    if (worst_.has_value()) question_.most_samples = *worst_;
    if (!referee_.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                                ProgramNamed("--referee", referee_, foreign_));
      question_.referee = ProgramOf(std::move(program));
    }
    return SetTrust();
  }

  // Two builds whose nodes do not say what they compute only differ: which of
  // them is right has to come from the user.
  absl::Status SetTrust() {
    if (trust_ == "target") {
      question_.trust = Trust::kTarget;
    } else if (trust_ == "reference") {
      question_.trust = Trust::kReference;
    } else if (!trust_.empty()) {
      return BadValue("--trust", Printable(trust_), "target or reference");
    }
    return absl::OkStatus();
  }

  // SpecOfTarget() looks at what this has set: all builds of a series have the
  // inputs of the first. Nothing is opened yet.
  absl::Status SetReference() {
    if (!series_.empty()) {
      if (!reference_.empty()) {
        return InvalidArgument(
            "--series: is given with --reference, expected one of the two");
      }
      NODEWISE_ASSIGN_OR_RETURN(question_.reference,
                                ParseBuildSeries(series_, load_));
      return absl::OkStatus();
    }
    auto reference = ReferenceNamed(reference_, WithOpaqueProgram(), foreign_);
    if (!reference.ok()) return At("--reference", reference.status());
    question_.reference = *std::move(reference);
    // No program comes with the third build that could run opaque operations.
    if (third_.empty()) return absl::OkStatus();
    auto third = ReferenceNamed(third_, load_, foreign_);
    if (!third.ok()) return At("--third", third.status());
    question_.third = std::move(third->spec);
    return absl::OkStatus();
  }

  // The order matters: a dump runs nothing, a program knows no graph, and only
  // then is TARGET something that is loaded here.
  absl::StatusOr<TargetSpec> SpecOfTarget() const {
    const std::string& target = load_.target.target;
    if (question_.method == Method::kReplay || LooksLikeDump()) {
      NODEWISE_RETURN_IF_ERROR(CheckNothingRuns());
      TargetSpec spec;
      spec.path = target;
      spec.is_dump = true;
      return spec;
    }
    LoadOptions load = WithOpaqueProgram();
    // Sizes and frozen inputs are the reference's where it alone is a model.
    if (IsModel(reference_) && !IsModel(target)) load.model = ModelOptions();
    if (NamesProgram(target)) return ForeignSpec(load, foreign_);
    // A referee or a reference that is a program takes these options.
    if (referee_.empty() && !NamesProgram(reference_)) {
      NODEWISE_RETURN_IF_ERROR(CheckNoForeignOptions(foreign_, load_));
    }
    // All builds of a series are run with the inputs of the first.
    if (!series_.empty()) return question_.reference.builds[0];
    NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(load));
    spec.samples = samples_;
    return spec;
  }

  // A program that runs the whole model knows the operations in it that are
  // opaque here, so it runs each of them alone, too, unless another one is
  // named.
  LoadOptions WithOpaqueProgram() const {
    LoadOptions load = load_;
    const std::string& target = load.target.target;
    // TARGET comes first where both are programs.
    const std::string& program = NamesProgram(target) ? target : reference_;
    if (NamesProgram(program) && load.model.opaque.empty() &&
        (NamesProgram(target) || IsModel(target))) {
      load.model.opaque = PartsProgramOf(program);
    }
    return load;
  }

  // Without --method a dump is replayed, since there is nothing in it to run.
  bool LooksLikeDump() const {
    const std::string& target = load_.target.target;
    if (!method_.empty() || !IsDump(target)) return false;
    // A dump has its graph beside it, which is not one to run.
    const auto files = FindArtefact(target);
    return !files.ok() ||
           std::filesystem::path(files->graph).filename() == kSourceGraphFile;
  }

  absl::Status CheckNothingRuns() const {
    const TargetOptions& target = load_.target;
    const InputOptions& inputs = load_.inputs;
    const LoweringOptions& lowering = load_.lowering;
    // The model beside a dump is read, and has options of its own.
    const bool has_model = IsModel(reference_);
    const GivenOptions given = {
        {!target.library.empty(), "--lib"},
        {!target.params.empty(), "--params"},
        {!target.function.empty(), "--function"},
        {!target.devices.empty(), "--device"},
        {!inputs.inputs.empty(), "--input"},
        {!inputs.inputs_files.empty(), "--inputs"},
        {inputs.seed.has_value(), "--random-inputs"},
        {!lowering.backend.empty(), "--backend"},
        {lowering.no_fuse, "--no-fuse"},
        {lowering.no_reuse, "--no-reuse"},
        {lowering.no_layouts, "--no-layouts"},
        {!load_.model.dims.empty() && !has_model, "--dim"},
        {!load_.model.freeze.empty() && !has_model, "--freeze"},
        {!load_.precision.precision.empty(), "--precision"},
        {!load_.precision.calibrate.empty(), "--calibrate"},
        {!load_.precision.calibration.empty(), "--calibration"},
        {!load_.precision.keep.empty(), "--keep"},
        {!samples_.empty(), "--samples"},
    };
    return RefuseGiven(given, "",
                       ": means nothing for a dump, of which nothing runs");
  }

  LoadOptions load_;
  std::string reference_, method_, referee_, samples_, trust_, third_;
  std::vector<std::string> series_;
  std::optional<uint64_t> repeats_, node_timeout_, worst_, top_;
  ForeignOptions foreign_;
  Question question_;
};

}  // namespace

const CommandRow kLocateCommand = {
    "locate",
    "names the node that makes a network's results wrong",
    R"(examples:
  nodewise locate model.onnx --random-inputs 1
  nodewise locate build/net --inputs all.npz --json
  nodewise locate model.onnx --input x=x.npy --method intermediate
  nodewise locate new --reference old --random-inputs 1
  nodewise locate new.so --reference old.so --third older.so --random-inputs 1
  nodewise locate build/net --random-inputs 1 --stand-in '^vendor'
  nodewise locate build/net --inputs exact
  nodewise locate new --reference old --method bisect --random-inputs 1
  nodewise locate net --series v1.so v2.so v3.so --random-inputs 1
  nodewise locate build/net --inputs all.npz --repro culprits
  nodewise locate ort:model.onnx --random-inputs 1
  nodewise locate model.onnx --random-inputs 1 --referee ort
  nodewise locate net --random-inputs 1 --reference ort:model.onnx
  nodewise locate model.onnx --random-inputs 1 --method recursive
  nodewise locate build/net --samples data --worst 5
  nodewise locate dumps --method replay

--inputs exact gives every node that only moves, chooses, adds and multiplies
numbers zeros and small whole numbers, weights too, with which it must be right
bit for bit; the others are judged as always, on drawn inputs.

Exit status: 0 if no node is at fault and the outputs are right, 1 if a culprit
is named, 2 if nothing could be judged, or the outputs are wrong and no culprit
was found.
)",
    &MakeCommand<LocateCulprit>,
    /*runs_code=*/true,
    /*more_help=*/&SearchTableText};

}  // namespace nodewise
