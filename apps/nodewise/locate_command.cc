#include <algorithm>
#include <memory>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/locate_layers.h"
#include "apps/nodewise/locate_replay.h"
#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr uint64_t kMostRunsAgain = 10'000;

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
                     "auto; intermediate: nodes are run once, on what they "
                     "read and from end to end, and no more; recursive: for "
                     "each node what leads to it is run, in little memory; or "
                     "replay: TARGET is a dump, and nothing of it runs (auto)",
                     &method_);
    options->AddNumber("--repeats", "N",
                       "how often auto runs TARGET again, to find nodes that "
                       "are not deterministic (12)",
                       {&repeats_, 0, kMostRunsAgain});
    AddBackendOption(options, &load_.lowering);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
  }

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_ASSIGN_OR_RETURN(LocateOptions options, ChosenOptions());
    if (method_ == "replay") return ReplayTarget();
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(const LoadedTarget loaded,
                              LoadTarget(load_, inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    ShowTarget(loaded, inputs_, &outcome);
    if (!reference_.empty() && reference_ != "interpreter") {
      NODEWISE_RETURN_IF_ERROR(CompareBefore(*loaded.target, &outcome));
      if (outcome.status != Outcome::Status::kOk) return outcome;
    }
    auto located = method_ == "recursive"
                       ? LocateRecursively(loaded, &outcome)
                       : LocateIn(loaded, std::move(options));
    if (!located.ok()) return At(loaded.target->name(), located.status());
    outcome.text += "\n";
    ShowLocated(*located, &outcome);
    return outcome;
  }

 private:
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
    const std::vector<std::string> methods = {"auto", "intermediate",
                                              "recursive", "replay"};
    LocateOptions options;
    if (!method_.empty() &&
        std::find(methods.begin(), methods.end(), method_) == methods.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--method: found \"{}\", expected one of {}{}", Printable(method_),
          ListOf(methods), DidYouMean(method_, methods)));
    }
    if (!method_.empty() && method_ != "auto") {
      if (repeats_.has_value()) {
        return absl::InvalidArgumentError(
            fmt::format("--repeats: means nothing with --method {}", method_));
      }
      options.repeats = 0;
      options.checks_storage = false;
    }
    if (repeats_.has_value()) options.repeats = static_cast<int>(*repeats_);
    return options;
  }

  absl::StatusOr<Outcome> ReplayTarget() const {
    if (reference_.empty() || reference_ == "interpreter") {
      return LocateReplay(load_, inputs_);
    }
    return absl::InvalidArgumentError(fmt::format(
        "--reference: found \"{}\", expected interpreter with --method replay",
        Printable(reference_)));
  }

  static absl::StatusOr<LocateResult> LocateIn(const LoadedTarget& loaded,
                                               LocateOptions options) {
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
    return Locate(request, options);
  }

  LoadOptions load_;
  InputOptions inputs_;
  std::string reference_, method_;
  std::optional<uint64_t> repeats_;
};

}  // namespace

const CommandRow kLocateCommand = {
    "locate", "names the node that makes a network's results wrong",
    "examples:\n"
    "  nodewise locate model.onnx --random-inputs 1\n"
    "  nodewise locate build/net --inputs all.npz --json\n"
    "  nodewise locate model.onnx --input x=x.npy --method intermediate\n"
    "  nodewise locate new --reference old --random-inputs 1\n"
    "  nodewise locate model.onnx --random-inputs 1 --method recursive\n"
    "  nodewise locate dumps --method replay\n"
    "\nExit status: 0 if nobody is to blame and the outputs are right, 1 if a "
    "culprit\nis named, 2 if nothing could be judged, or the outputs are wrong "
    "and nobody is\nto blame.\n",
    [] { return std::unique_ptr<Command>(new LocateCulprit); }};

}  // namespace nodewise
