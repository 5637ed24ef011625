#include <memory>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr uint64_t kMostRunsAgain = 10'000;
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
                     "as TARGET, or interpreter, the definitions of the "
                     "operators (interpreter)",
                     &reference_);
    options->AddText("--method", "NAME",
                     "auto, or intermediate: nodes are run once, on what they "
                     "read and from end to end, and no more (auto)",
                     &method_);
    options->AddNumber("--repeats", "N",
                       "how often auto runs TARGET again, to find nodes that "
                       "are not deterministic (12; 2 for another program)",
                       {&repeats_, 0, kMostRunsAgain});
    AddBackendOption(options, &load_.lowering);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    AddForeignOptions(options, &foreign_);
    AddObservationOption(options, &foreign_);
    options->AddText("--referee", "RUNNER",
                     "what else computes a node that the reference accuses: "
                     "ort or exec:COMMAND",
                     &referee_);
  }

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_ASSIGN_OR_RETURN(LocateOptions options, ChosenOptions());
    const std::string& target = load_.target.target;
    if (IsForeign(target)) return LocateInOtherProgram(std::move(options));
    if (referee_.empty()) {
      NODEWISE_RETURN_IF_ERROR(CheckNoForeignOptions(foreign_, target));
    }
    NODEWISE_ASSIGN_OR_RETURN(const RefereeMaker referee, ChosenReferee());
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(const LoadedTarget loaded,
                              LoadTarget(load_, inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    ShowTarget(loaded, inputs_, &outcome);
    if (!reference_.empty() && reference_ != "interpreter") {
      NODEWISE_RETURN_IF_ERROR(CompareBefore(*loaded.target, &outcome));
      if (outcome.status != Outcome::Status::kOk) return outcome;
    }
    std::vector<RefereeOpinion> opinions;
    auto located = LocateIn(loaded, std::move(options), referee, &opinions);
    if (!located.ok()) return At(loaded.target->name(), located.status());
    outcome.text += "\n";
    ShowLocated(*located, &outcome);
    ShowReferee(referee_, *located, opinions, &outcome);
    return outcome;
  }

 private:
  // Null if there is none.
  absl::StatusOr<RefereeMaker> ChosenReferee() const {
    if (referee_.empty()) return RefereeMaker();
    NODEWISE_ASSIGN_OR_RETURN(const ForeignTarget target,
                              RefereeTarget(referee_, foreign_));
    return RefereeMaker([target](std::shared_ptr<const Network> network) {
      ForeignTarget asked = target;
      asked.network = std::move(network);
      return MakeForeignRunner(std::move(asked));
    });
  }

  absl::StatusOr<Outcome> LocateInOtherProgram(LocateOptions options) const {
    if (!reference_.empty() && reference_ != "interpreter") {
      return absl::InvalidArgumentError(fmt::format(
          "--reference: found \"{}\", expected interpreter for {}, which "
          "another program runs",
          Printable(reference_), load_.target.target));
    }
    if (options.repeats > 0 && !repeats_.has_value()) {
      options.repeats = kForeignRunsAgain;
    }
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(const LoadedForeign loaded,
                              LoadForeign(load_, foreign_, inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    ShowForeign(loaded, inputs_, &outcome);
    NODEWISE_ASSIGN_OR_RETURN(const RefereeMaker referee, ChosenReferee());
    const Network& network = *loaded.target.network;
    const auto candidate = [&](const std::vector<std::string>& observed) {
      ForeignTarget target = loaded.target;
      target.observed = observed;
      return MakeForeignRunner(std::move(target));
    };
    Progress progress("locate");
    options.progress = progress.Updater();
    NetworkLocateRequest request{network, AllOperators(), candidate,
                                 ObservableValues(network),
                                 loaded.NamedInputs()};
    request.referee = referee;
    const auto located = LocateInNetwork(request, options);
    if (!located.ok()) return At(loaded.target.name, located.status());
    outcome.text += "\n";
    ShowLocatedInNetwork(*located, &outcome);
    ShowReferee(referee_, located->result, located->opinions, &outcome);
    return outcome;
  }

  // Compares what both sides are. As long as they say that they compute the
  // same, what they say is the reference.
  absl::Status CompareBefore(const GraphTarget& target,
                             Outcome* outcome) const {
    LoadOptions load = load_;
    load.target = TargetOptions();
    load.target.target = reference_;
    Outcome loading;
    const auto reference = LoadTarget(load, inputs_, &loading);
    if (!reference.ok()) return At("--reference", reference.status());
    outcome->errors = std::move(loading.errors);
    outcome->status = loading.status;
    if (loading.status != Outcome::Status::kOk) return absl::OkStatus();
    const Artefact& expected = reference->target->artefact();
    const Artefact& found = target.artefact();
    ShowSideDifferences(CompareSides({expected.graph, expected.params},
                                     {found.graph, found.params}),
                        outcome);
    return absl::OkStatus();
  }

  absl::StatusOr<LocateOptions> ChosenOptions() const {
    LocateOptions options;
    if (method_ == "intermediate") {
      if (repeats_.has_value()) {
        return absl::InvalidArgumentError(
            "--repeats: means nothing with --method intermediate");
      }
      options.repeats = 0;
      options.checks_storage = false;
    } else if (!method_.empty() && method_ != "auto") {
      return absl::InvalidArgumentError(fmt::format(
          "--method: found \"{}\", expected auto or intermediate{}",
          Printable(method_), DidYouMean(method_, {"auto", "intermediate"})));
    }
    if (repeats_.has_value()) options.repeats = static_cast<int>(*repeats_);
    return options;
  }

  static absl::StatusOr<LocateResult> LocateIn(
      const LoadedTarget& loaded, LocateOptions options,
      const RefereeMaker& referee, std::vector<RefereeOpinion>* opinions) {
    const GraphTarget& target = *loaded.target;
    const Artefact& artefact = target.artefact();
    NODEWISE_ASSIGN_OR_RETURN(
        const StoragePlan plan,
        PlanStorage(target.graph(), target.devices()[0].device_type));
    const GraphIndex index(target.graph(), plan);
    const auto private_target = [&] {
      return GraphTarget::FromArtefact(
          target.name() + " with memory of its own for each tensor",
          {WithPrivateStorage(artefact.graph), artefact.library,
           artefact.params},
          target.devices());
    };
    LocateRequest request{index, AllOperators(), nullptr, nullptr,
                          NameInputs(target.inputs(), loaded.inputs)};
    NODEWISE_ASSIGN_OR_RETURN(request.candidate,
                              MakerOf("debug", {target.name(), loaded.target}));
    request.with_private_storage =
        [&]() -> absl::StatusOr<std::unique_ptr<Runner>> {
      NODEWISE_ASSIGN_OR_RETURN(auto apart, private_target());
      NODEWISE_ASSIGN_OR_RETURN(
          const RunnerMaker maker,
          MakerOf("debug", {target.name(), std::move(apart)}));
      return maker();
    };
    Progress progress("locate");
    options.progress = progress.Updater();
    NODEWISE_ASSIGN_OR_RETURN(LocateResult result, Locate(request, options));
    if (referee != nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(*opinions,
                                AskReferee(request, result, referee));
    }
    return result;
  }

  LoadOptions load_;
  InputOptions inputs_;
  std::string reference_, method_, referee_;
  std::optional<uint64_t> repeats_;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kLocateCommand = {
    "locate", "names the node that makes a network's results wrong",
    "examples:\n"
    "  nodewise locate model.onnx --random-inputs 1\n"
    "  nodewise locate build/net --inputs all.npz --json\n"
    "  nodewise locate model.onnx --input x=x.npy --method intermediate\n"
    "  nodewise locate new --reference old --random-inputs 1\n"
    "  nodewise locate ort:model.onnx --random-inputs 1\n"
    "  nodewise locate model.onnx --random-inputs 1 --referee ort\n"
    "\nExit status: 0 if nobody is to blame and the outputs are right, 1 if a "
    "culprit\nis named, 2 if nothing could be judged, or the outputs are wrong "
    "and nobody is\nto blame.\n",
    [] { return std::unique_ptr<Command>(new LocateCulprit); }};

}  // namespace nodewise
