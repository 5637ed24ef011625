#include "apps/nodewise/locate_foreign.h"

#include <memory>
#include <utility>
#include <vector>

#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/progress.h"
#include "apps/nodewise/target_text.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/ops/ops.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Reads the model of a program that is taken for right.
absl::StatusOr<LoadedForeign> LoadReference(const LoadOptions& load,
                                            const std::string& reference,
                                            const ForeignOptions& foreign,
                                            const InputOptions& inputs,
                                            Outcome* outcome) {
  LoadOptions options;
  options.target.target = reference;
  options.model = load.model;
  return LoadForeign(options, foreign, inputs, outcome);
}

// What runs the whole model knows the operations in it that are opaque here, so
// it runs each of them alone, too, unless the options name something else.
LoadOptions WithOpaqueBy(const std::string& program, LoadOptions load) {
  if (load.model.opaque.empty()) {
    load.model.opaque = program.starts_with("ort:") ? "ort" : program;
  }
  return load;
}

}  // namespace

absl::StatusOr<ChosenReferee> ChooseReferee(const std::string& referee,
                                            const ForeignOptions& foreign) {
  if (referee.empty()) return ChosenReferee();
  NODEWISE_ASSIGN_OR_RETURN(const ForeignTarget target,
                            ProgramNamed("--referee", referee, foreign));
  return ChosenReferee{referee,
                       [target](std::shared_ptr<const Network> network) {
                         ForeignTarget asked = target;
                         asked.network = std::move(network);
                         return MakeForeignRunner(std::move(asked));
                       }};
}

absl::StatusOr<Outcome> LocateInOtherProgram(const LoadOptions& load,
                                             const ForeignOptions& foreign,
                                             const InputOptions& inputs,
                                             const ChosenReferee& referee,
                                             LocateOptions options) {
  Outcome outcome;
  NODEWISE_ASSIGN_OR_RETURN(const LoadedForeign loaded,
                            LoadForeign(WithOpaqueBy(load.target.target, load),
                                        foreign, inputs, &outcome));
  if (outcome.status != Outcome::Status::kOk) return outcome;
  ShowForeign(loaded, inputs, &outcome);
  const Network& network = *loaded.target.network;
  const auto candidate = [&](const std::vector<std::string>& observed) {
    ForeignTarget target = loaded.target;
    target.observed = observed;
    return MakeForeignRunner(std::move(target));
  };
  Progress progress("locate");
  options.progress = progress.Updater();
  NetworkLocateRequest request{network, AllOperators(), candidate,
                               ObservableValues(network), loaded.NamedInputs()};
  request.referee = referee.make;
  const auto located = LocateInNetwork(request, options);
  if (!located.ok()) return At(loaded.target.name, located.status());
  outcome.text += "\n";
  ShowLocatedInNetwork(*located, &outcome);
  ShowReferee(referee.name, located->result, located->opinions, &outcome);
  return outcome;
}

absl::StatusOr<Outcome> LocateByOtherProgram(LoadOptions load,
                                             const std::string& reference,
                                             const ForeignOptions& foreign,
                                             const InputOptions& inputs,
                                             LocateOptions options) {
  // The other program's tensors lie in the model's order.
  if (IsModel(load.target.target)) {
    load.lowering.no_layouts = true;
    load = WithOpaqueBy(reference, std::move(load));
  }
  Outcome outcome;
  NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                            LoadTarget(load, inputs, &outcome));
  if (outcome.status != Outcome::Status::kOk) return outcome;
  ShowTarget(loaded, inputs, &outcome);
  Outcome loading;
  auto right = LoadReference(load, reference, foreign, inputs, &loading);
  if (!right.ok()) return At("--reference", right.status());
  if (loading.status != Outcome::Status::kOk) return loading;
  const GraphTarget& target = *loaded.target;
  NODEWISE_ASSIGN_OR_RETURN(
      const StoragePlan plan,
      PlanStorage(target.graph(), target.devices()[0].device_type));
  const GraphIndex index(target.graph(), plan);
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(loaded.target));
  KeepFreedMemory();
  Progress progress("locate");
  options.progress = progress.Updater();
  const auto located = LocateByOutsideReference(
      {index, AllOperators(), std::move(makers),
       [&right] { return MakeForeignRunner(right->target); },
       right->target.name, NameInputs(target.inputs(), loaded.inputs)},
      options);
  if (!located.ok()) return At(target.name(), located.status());
  outcome.text += "\n";
  outcome.json.Add("reference", right->target.name);
  ShowOutsideLocated(*located, &outcome);
  return outcome;
}

}  // namespace nodewise
