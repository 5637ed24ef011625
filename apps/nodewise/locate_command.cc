#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/differing_builds.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/locate_builds.h"
#include "apps/nodewise/locate_by_value.h"
#include "apps/nodewise/locate_foreign.h"
#include "apps/nodewise/locate_layers.h"
#include "apps/nodewise/locate_replay.h"
#include "apps/nodewise/locate_samples.h"
#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/progress.h"
#include "apps/nodewise/repro_folders.h"
#include "apps/nodewise/stand_in_option.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/process/isolation.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr uint64_t kMostRunsAgain = 10'000;
constexpr uint64_t kMostSamples = 1'000'000;
constexpr uint64_t kMostSeconds = kMostTimeLimitMs / 1000;
// Instead of a file of inputs.
constexpr std::string_view kExact = "exact";
constexpr std::string_view kBisect = "bisect";
constexpr std::string_view kRecursive = "recursive";
constexpr std::string_view kReplay = "replay";
constexpr std::array<std::string_view, 5> kMethods = {
    "auto", "intermediate", kBisect, kRecursive, kReplay};
// Another program is started for each run, which takes longer.
constexpr uint64_t kForeignRunsAgain = 2;

class LocateCulprit : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &load_.target);
    AddDeviceOption(options, &load_.target);
    AddInputOptions(options, &inputs_);
    options->AddText("--reference", "REF",
                     "what is right: a model or an artefact of the same nodes "
                     "as TARGET; ort:MODEL.onnx, or exec:COMMAND with --model; "
                     "or interpreter, the definitions of the operators "
                     "(interpreter)",
                     &reference_);
    options->AddText("--method", "NAME",
                     "auto; intermediate: nodes are run once, on what they "
                     "read and from end to end, and no more; bisect: halves "
                     "the network, or with --reference the functions of both "
                     "builds; recursive: for each node what leads to it is "
                     "run, in little memory; or replay: TARGET is a dump, and "
                     "nothing of it runs (auto)",
                     &method_);
    options->AddList("--series", "BUILD...",
                     "builds in their order, the first one good and the last "
                     "one bad: finds the first bad one and its functions. A "
                     "library goes with the graph and parameters of TARGET",
                     &series_);
    options->AddText("--samples", "DIR",
                     "many inputs: runs every file and folder of inputs in "
                     "DIR, and examines those with the largest errors",
                     &samples_);
    options->AddNumber("--worst", "K",
                       "how many of the samples with the largest errors are "
                       "examined (3)",
                       {&worst_, 1, kMostSamples});
    options->AddNumber("--repeats", "N",
                       "how often auto runs TARGET again, to find nodes that "
                       "are not deterministic (12; 2 for another program)",
                       {&repeats_, 0, kMostRunsAgain});
    options->AddNumber("--node-timeout", "SECONDS",
                       "how long a node may take before it hangs (60)",
                       {&node_timeout_, 1, kMostSeconds});
    AddStandInOption(options, &load_.stand_ins);
    options->AddText("--repro", "DIR",
                     "writes each culprit as a folder of its own in DIR, which "
                     "shows the failure wherever it is moved to",
                     &repro_);
    AddBackendOption(options, &load_.lowering);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddOpaqueOption(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    AddForeignOptions(options, &foreign_);
    AddObservationOption(options, &foreign_);
    options->AddText("--referee", "RUNNER",
                     "what else computes a node that the reference accuses: "
                     "ort or exec:COMMAND",
                     &referee_);
    AddBuildChoice(options, &choice_);
    AddSpecialInputs(options, &has_special_);
    AddSetsOption(options, &sets_);
  }

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_ASSIGN_OR_RETURN(LocateOptions options, ChosenOptions());
    NODEWISE_RETURN_IF_ERROR(CheckMeant());
    ShareWithOpaque(foreign_, &load_.model);
    if (method_ == kReplay) return LocateReplay(load_, inputs_, reference_);
    // What the network itself is given does not matter to nodes that get inputs
    // of their own.
    if (options.exact_inputs == ExactInputs::kForAll) {
      inputs_.inputs_files.clear();
      if (!inputs_.seed.has_value()) inputs_.seed = 1;
    }
    if (!repro_.empty()) {
      NODEWISE_RETURN_IF_ERROR(CheckReproFolder(repro_));
    }
    const std::string& target = load_.target.target;
    if (IsForeign(target) || IsForeign(reference_)) {
      return LocateWithOtherProgram(std::move(options));
    }
    if (referee_.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          CheckNoForeignOptions(foreign_, target, load_.model));
    }
    NODEWISE_ASSIGN_OR_RETURN(const ChosenReferee referee,
                              ChooseReferee(referee_, foreign_));
    NODEWISE_ASSIGN_OR_RETURN(std::optional<Outcome> other,
                              LocateOtherwise(options));
    if (other.has_value()) return *std::move(other);
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadTarget(LoadOfTarget(), inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    ShowTarget(loaded, inputs_, &outcome);
    NODEWISE_ASSIGN_OR_RETURN(const bool is_answered,
                              AnswerBefore(loaded, options, &outcome));
    if (is_answered) return outcome;
    if (method_ != kRecursive) KeepFreedMemory();
    std::vector<RefereeOpinion> opinions;
    auto located =
        method_ == kRecursive
            ? LocateRecursively(loaded, options.node_limit_ms, &outcome)
            : LocateIn(loaded, std::move(options), referee.make, &opinions);
    if (!located.ok()) return WhyNotJudged(loaded, located.status());
    outcome.text += "\n";
    ShowLocated(*located, &outcome);
    if (method_ == kRecursive) {
      ShowGivenNan(NameInputs(loaded.target->inputs(), loaded.inputs),
                   &outcome);
    }
    ShowReferee(referee_, *located, opinions, &outcome);
    if (!repro_.empty()) {
      const absl::Status status = WriteCulprits(loaded, *located, &outcome);
      if (!status.ok()) outcome.AddError(status);
    }
    return outcome;
  }

 private:
  // Sizes and frozen inputs are the reference's where it alone is a model.
  LoadOptions LoadOfTarget() const {
    LoadOptions load = load_;
    if (IsModel(reference_) && !IsModel(load.target.target)) {
      load.model = ModelOptions();
    }
    return load;
  }

  // Nodes of other compilers do not say what they compute, so that something
  // must be there to compare with, unless they crash or hang.
  static absl::Status WhyNotJudged(const Session& loaded,
                                   const absl::Status& status) {
    const std::string& name = loaded.target->name();
    if (!absl::IsFailedPrecondition(status) || !SaysNothing(loaded)) {
      return At(name, status);
    }
    return absl::FailedPreconditionError(fmt::format(
        "{}: its nodes do not say what they compute, as those of any compiler "
        "but nodewise's own, expected what to compare them with (--reference "
        "MODEL.onnx, the model that it was compiled from, or --reference "
        "BUILD, another build of that)",
        name));
  }

  // Does what needs no search node by node, and returns whether that was all.
  absl::StatusOr<bool> AnswerBefore(const Session& loaded,
                                    const LocateOptions& options,
                                    Outcome* outcome) const {
    if (IsModel(reference_) && SaysNothing(loaded)) {
      NODEWISE_RETURN_IF_ERROR(CheckByValue(true));
      NODEWISE_RETURN_IF_ERROR(LocateByValueIn(
          loaded, reference_, load_.model,
          {sets_.value_or(kInputSets), inputs_.seed.value_or(1), has_special_},
          repro_, outcome));
      return true;
    }
    if (has_special_) return SpecialInputsMeanNothing();
    if (!reference_.empty() && reference_ != "interpreter") {
      NODEWISE_ASSIGN_OR_RETURN(
          const Session reference,
          LoadBuild("--reference", reference_, load_, inputs_, outcome));
      if (outcome->status != Outcome::Status::kOk) return true;
      if (method_ != kBisect && SaysNothing(loaded) && SaysNothing(reference)) {
        NODEWISE_RETURN_IF_ERROR(CheckByValue(false));
        BuildChoice choice = choice_;
        choice.sets = sets_.value_or(kInputSets);
        NODEWISE_RETURN_IF_ERROR(LocateBetweenBuilds(loaded, reference, choice,
                                                     load_, inputs_, outcome));
        return true;
      }
      if (choice_.any()) return choice_.WhereItMeansNothing();
      if (sets_.has_value()) return SetsMeanNothing();
      ShowDifferences(*loaded.target, *reference.target, outcome);
      if (outcome->status != Outcome::Status::kOk) return true;
      if (method_ == kBisect) {
        NODEWISE_RETURN_IF_ERROR(
            MixTargets(loaded, reference, options.node_limit_ms, outcome));
        return true;
      }
    }
    if (sets_.has_value()) return SetsMeanNothing();
    if (method_ != kBisect) return false;
    NODEWISE_RETURN_IF_ERROR(
        BisectTarget(loaded, options.node_limit_ms, outcome));
    return true;
  }

  absl::StatusOr<Outcome> LocateWithOtherProgram(LocateOptions options) const {
    const std::string& target = load_.target.target;
    if (!IsForeign(target)) {
      return LocateByOtherProgram(load_, reference_, foreign_, inputs_,
                                  std::move(options));
    }
    if (!reference_.empty() && reference_ != "interpreter") {
      return absl::InvalidArgumentError(fmt::format(
          "--reference: found \"{}\", expected interpreter for {}, which "
          "another program runs",
          Printable(reference_), target));
    }
    if (options.repeats > 0 && !repeats_.has_value()) {
      options.repeats = kForeignRunsAgain;
    }
    NODEWISE_ASSIGN_OR_RETURN(const ChosenReferee referee,
                              ChooseReferee(referee_, foreign_));
    return LocateInOtherProgram(load_, foreign_, inputs_, referee,
                                std::move(options));
  }

  // Bisects, halves a series or runs samples: what takes the place of one
  // search in TARGET. None if it is that.
  absl::StatusOr<std::optional<Outcome>> LocateOtherwise(
      const LocateOptions& options) const {
    if (!samples_.empty()) {
      SampleChoice choice{samples_};
      if (worst_.has_value()) choice.most_located = *worst_;
      return LocateOnSamples(load_, inputs_, choice, options);
    }
    if (series_.empty()) return std::nullopt;
    NODEWISE_RETURN_IF_ERROR(CheckForSeries());
    Outcome outcome;
    NODEWISE_RETURN_IF_ERROR(LocateInSeries(load_, inputs_, series_, &outcome));
    return outcome;
  }

  // Compares what both sides are. As long as they say that they compute the
  // same, what they say is the reference.
  static void ShowDifferences(const GraphTarget& target,
                              const GraphTarget& reference, Outcome* outcome) {
    const Artefact& expected = reference.artefact();
    const Artefact& found = target.artefact();
    ShowSideDifferences(CompareSides({expected.graph, expected.params},
                                     {found.graph, found.params}),
                        outcome);
  }

  absl::Status CheckForSeries() const {
    if (reference_.empty() && (method_.empty() || method_ == kBisect)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format(
        "--series: is given with --{}, expected neither --reference nor "
        "another --method than bisect",
        reference_.empty() ? "method" : "reference"));
  }

  // Samples are run and judged as one set of inputs is, and nothing else.
  absl::Status CheckForSamples() const {
    const std::pair<bool, const char*> given[] = {
        {!inputs_.inputs_files.empty(), "--inputs"},
        {!series_.empty(), "--series"},
        {!repro_.empty(), "--repro"},
        {!referee_.empty(), "--referee"},
        {!reference_.empty() && reference_ != "interpreter", "--reference"},
        {!IsAuto() && method_ != "intermediate", "--method"},
        {IsForeign(load_.target.target), "another program as TARGET"},
    };
    if (samples_.empty()) {
      if (!worst_.has_value()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "--worst: means nothing without --samples");
    }
    for (const auto& [is_given, option] : given) {
      if (!is_given) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: means nothing with --samples", option));
    }
    return absl::OkStatus();
  }

  // What a model, or another build, can judge by its values.
  absl::Status CheckByValue(bool is_model) const {
    const bool can_cut_out = is_model || repro_.empty();
    if (IsAuto() && can_cut_out && referee_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "--reference {}: the nodes of {} do not say what they compute, "
        "expected no --method but auto, {}and no --referee",
        Printable(reference_), Printable(load_.target.target),
        is_model ? "" : "no --repro "));
  }

  // Whether the inputs are such that every order of sums gives the same bits.
  bool IsExact() const {
    const std::vector<std::string>& files = inputs_.inputs_files;
    return files.size() == 1 && files[0] == kExact;
  }
  bool IsAuto() const { return method_.empty() || method_ == "auto"; }

  // Refuses options that mean nothing together.
  absl::Status CheckMeant() const {
    const bool judges_all = IsAuto() || method_ == "intermediate";
    const struct {
      bool is_given;
      const char* option;
      bool means_something;
    } table[] = {
        {repeats_.has_value(), "--repeats", IsAuto()},
        {IsExact(), "--inputs exact", IsAuto()},
        {node_timeout_.has_value(), "--node-timeout",
         judges_all || method_ == kRecursive || method_ == kBisect},
        {!referee_.empty(), "--referee", judges_all},
        {!repro_.empty(), "--repro", judges_all || method_ == kRecursive},
    };
    for (const auto& row : table) {
      if (!row.is_given) continue;
      const bool in_series = !series_.empty();
      if (row.means_something && !in_series) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: means nothing with {}", row.option,
          in_series ? "--series" : "--method " + Printable(method_)));
    }
    const bool names_build = !reference_.empty() &&
                             reference_ != "interpreter" &&
                             !IsForeign(reference_) && !IsModel(reference_);
    NODEWISE_RETURN_IF_ERROR(choice_.Check(names_build && IsAuto()));
    NODEWISE_RETURN_IF_ERROR(CheckForSamples());
    if (IsForeign(load_.target.target)) return CheckForForeign(judges_all);
    if (IsForeign(reference_)) return CheckForForeignReference(judges_all);
    return absl::OkStatus();
  }

  absl::Status CheckForForeign(bool judges_all) const {
    if (judges_all && series_.empty() && repro_.empty() &&
        load_.stand_ins.empty() && !IsExact() && !node_timeout_.has_value()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}: another program runs it, expected no --series, --repro, "
        "--stand-in, --node-timeout or --inputs exact, and no --method but "
        "auto and intermediate",
        Printable(load_.target.target)));
  }

  // Each node runs once in the network and once alone, and that is all.
  absl::Status CheckForForeignReference(bool judges_all) const {
    if (judges_all && series_.empty() && repro_.empty() && referee_.empty() &&
        load_.stand_ins.empty() && !IsExact() && !repeats_.has_value()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format(
        "--reference: {} is another program, expected no --series, --repro, "
        "--stand-in, --repeats, --referee or --inputs exact, and no --method "
        "but auto and intermediate",
        Printable(reference_)));
  }

  absl::StatusOr<LocateOptions> ChosenOptions() const {
    LocateOptions options;
    if (!method_.empty() && std::find(kMethods.begin(), kMethods.end(),
                                      method_) == kMethods.end()) {
      const std::vector<std::string> methods(kMethods.begin(), kMethods.end());
      return absl::InvalidArgumentError(fmt::format(
          "--method: found \"{}\", expected one of {}{}", Printable(method_),
          ListOf(methods), DidYouMean(method_, methods)));
    }
    if (!IsAuto()) {
      options.repeats = 0;
      options.checks_storage = false;
      options.exact_inputs = ExactInputs::kNever;
    }
    if (IsExact()) {
      options.exact_inputs = ExactInputs::kForAll;
    }
    if (repeats_.has_value()) options.repeats = static_cast<int>(*repeats_);
    if (node_timeout_.has_value()) {
      options.node_limit_ms = static_cast<int64_t>(*node_timeout_) * 1000;
    }
    return options;
  }

  static absl::StatusOr<LocateResult> LocateIn(
      const Session& loaded, LocateOptions options, const RefereeMaker& referee,
      std::vector<RefereeOpinion>* opinions) {
    Progress progress("locate");
    options.progress = progress.Updater();
    return LocateInTarget(
        {loaded.target, NameInputs(loaded.target->inputs(), loaded.inputs),
         loaded.stand_ins, referee, opinions},
        AllOperators(), options);
  }

  // Whatever comes behind a node that ends runs can only be run, and what it
  // should make only be known, where the reference stands in for it.
  static bool WasReplaced(const LocateResult& located,
                          const NodeReport& report) {
    return !report.failure.has_value() ||
           std::find(located.stand_ins.begin(), located.stand_ins.end(),
                     report.key) != located.stand_ins.end();
  }

  absl::Status WriteCulprits(const Session& loaded, const LocateResult& located,
                             Outcome* outcome) const {
    std::vector<ReproFolder> folders;
    for (const Culprit& culprit : located.culprits) {
      const NodeReport& report = located.nodes[culprit.report];
      const std::string verdict(NameOf(report.verdict));
      std::optional<PlanFault> plan_fault;
      if (report.verdict == NodeVerdict::kPlanFault) {
        if (culprit.written_over.empty()) {
          outcome->notes.push_back(fmt::format(
              "--repro: {}: is not written, since no run shows which tensor "
              "it writes over",
              report.key));
          continue;
        }
        const WrittenOver& first = culprit.written_over[0];
        plan_fault = {report.node, first.victim, first.reader};
      }
      if (!WasReplaced(located, report)) {
        outcome->notes.push_back(fmt::format(
            "--repro: {}: is not written, since it does not say what it "
            "computes, so nothing could run in its place",
            report.key));
        continue;
      }
      ReproFolder folder{report.node,
                         ReproPath(repro_, folders.size() + 1, report.key),
                         verdict, report.reason, report.failure};
      folder.plan_fault = plan_fault;
      if (report.failure.has_value() && !report.failure->victim.empty()) {
        NODEWISE_ASSIGN_OR_RETURN(
            folder.victim,
            loaded.target->index().FindNode(report.failure->victim));
        folder.reason = fmt::format("{} {}", report.key, report.failure->what);
      }
      folders.push_back(std::move(folder));
    }
    if (folders.empty()) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(MakeReproRoot(repro_));
    outcome->text += "\n";
    const auto limit_ms = static_cast<int64_t>(node_timeout_.value_or(60));
    return At("--repro",
              WriteReproFolders(loaded, folders, {}, outcome, limit_ms * 1000));
  }

  LoadOptions load_;
  InputOptions inputs_;
  std::string reference_, method_, repro_, referee_, samples_;
  std::vector<std::string> series_;
  std::optional<uint64_t> repeats_, node_timeout_, worst_;
  ForeignOptions foreign_;
  BuildChoice choice_;
  bool has_special_ = false;
  std::optional<uint64_t> sets_;
};

}  // namespace

const CommandRow kLocateCommand = {
    "locate",
    "names the node that makes a network's results wrong",
    "examples:\n"
    "  nodewise locate model.onnx --random-inputs 1\n"
    "  nodewise locate build/net --inputs all.npz --json\n"
    "  nodewise locate model.onnx --input x=x.npy --method intermediate\n"
    "  nodewise locate new --reference old --random-inputs 1\n"
    "  nodewise locate new.so --reference old.so --third older.so "
    "--random-inputs 1\n"
    "  nodewise locate build/net --random-inputs 1 --stand-in '^vendor'\n"
    "  nodewise locate build/net --inputs exact\n"
    "  nodewise locate new --reference old --method bisect --random-inputs 1\n"
    "  nodewise locate net --series v1.so v2.so v3.so --random-inputs 1\n"
    "  nodewise locate build/net --inputs all.npz --repro culprits\n"
    "  nodewise locate ort:model.onnx --random-inputs 1\n"
    "  nodewise locate model.onnx --random-inputs 1 --referee ort\n"
    "  nodewise locate net --random-inputs 1 --reference ort:model.onnx\n"
    "  nodewise locate model.onnx --random-inputs 1 --method recursive\n"
    "  nodewise locate build/net --samples data --worst 5\n"
    "  nodewise locate dumps --method replay\n"
    "\n--inputs exact gives every node that only moves, chooses, adds and "
    "multiplies\nnumbers zeros and small whole numbers, weights too, with "
    "which "
    "it must be right\nbit for bit; the others are judged as always, on drawn "
    "inputs.\n"
    "\nExit status: 0 if nobody is to blame and the outputs are right, 1 if a "
    "culprit\nis named, 2 if nothing could be judged, or the outputs are wrong "
    "and nobody is\nto blame.\n",
    [] { return std::unique_ptr<Command>(new LocateCulprit); },
    /*missing=*/nullptr,
    /*runs_code=*/true};

}  // namespace nodewise
