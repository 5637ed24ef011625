#include "apps/nodewise/locate_builds.h"

#include <filesystem>
#include <utility>

#include "apps/nodewise/bisect_text.h"
#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/progress.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A folder or a graph is a build of its own, and so is a library if the target
// is one, too: it holds everything.
bool IsBuildOfItsOwn(const std::string& build, const std::string& target) {
  std::error_code error;
  const auto is_library = [&error](const std::string& path) {
    const std::string end = fs::path(path).extension().string();
    return !fs::is_directory(path, error) && end != ".json" && end != ".onnx";
  };
  return !is_library(build) || is_library(target);
}

LoadOptions OptionsOfBuild(const LoadOptions& load, const std::string& build) {
  LoadOptions options = load;
  if (!IsBuildOfItsOwn(build, load.target.target)) {
    options.target.library = build;
    return options;
  }
  options.target = TargetOptions();
  options.target.target = build;
  options.target.devices = load.target.devices;
  options.target.function = load.target.function;
  return options;
}

absl::StatusOr<Session> LoadBuild(const LoadOptions& load,
                                  const InputOptions& inputs,
                                  const std::string& build) {
  Outcome loading;
  NODEWISE_ASSIGN_OR_RETURN(
      Session loaded,
      LoadTarget(OptionsOfBuild(load, build), inputs, &loading));
  if (loading.status == Outcome::Status::kOk) return loaded;
  return absl::InvalidArgumentError(loading.errors.empty()
                                        ? "cannot be loaded"
                                        : loading.errors[0].ToString());
}

}  // namespace

absl::StatusOr<Session> LoadBuild(const char* option, const std::string& build,
                                  const LoadOptions& options,
                                  const InputOptions& inputs,
                                  Outcome* outcome) {
  LoadOptions load = options;
  load.target = TargetOptions();
  load.stand_ins.clear();
  load.target.target = build;
  Outcome loading;
  auto loaded = LoadTarget(load, inputs, &loading);
  if (!loaded.ok()) return At(option, loaded.status());
  outcome->errors = std::move(loading.errors);
  outcome->status = loading.status;
  return loaded;
}

absl::Status BisectTarget(const Session& loaded, int64_t node_limit_ms,
                          Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  NODEWISE_ASSIGN_OR_RETURN(
      const StoragePlan plan,
      PlanStorage(target.graph(), target.devices()[0].device_type));
  const GraphIndex index(target.graph(), plan);
  BisectRequest request{index, AllOperators(), nullptr,
                        NameInputs(target.inputs(), loaded.inputs)};
  // A node that crashes ends a run and not the command.
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(loaded.target));
  request.candidate = std::move(makers.candidate);
  request.stand_ins = loaded.stand_ins;
  request.with_stand_ins = [&](const std::vector<std::string>& nodes) {
    return MakersWithStandIns(target, AllOperators(), nodes);
  };
  BisectOptions options;
  options.node_limit_ms = node_limit_ms;
  Progress progress("locate");
  options.progress = progress.Updater();
  const auto result = Bisect(request, options);
  if (!result.ok()) return At(target.name(), result.status());
  outcome->text += "\n";
  ShowBisected(*result, outcome);
  ShowGivenNan(request.inputs, outcome);
  return absl::OkStatus();
}

absl::Status MixTargets(const Session& candidate, const Session& reference,
                        int64_t node_limit_ms, Outcome* outcome) {
  MixOptions options;
  options.node_limit_ms = node_limit_ms;
  Progress progress("locate");
  options.progress = progress.Updater();
  const std::vector<NamedTensor> inputs =
      NameInputs(candidate.target->inputs(), candidate.inputs);
  const auto result =
      MixBuilds(candidate.target, reference.target, inputs, options);
  if (!result.ok()) return At(candidate.target->name(), result.status());
  outcome->text += "\n";
  ShowMixed(*result, outcome);
  ShowGivenNan(inputs, outcome);
  return absl::OkStatus();
}

absl::Status LocateInSeries(const LoadOptions& load, const InputOptions& inputs,
                            const std::vector<std::string>& series,
                            Outcome* outcome) {
  auto first = LoadBuild(load, inputs, series[0]);
  if (!first.ok()) return At("--series", first.status());
  if (first->target == nullptr || first->network != nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "--series: {} is a model, expected builds of one", series[0]));
  }
  ShowTarget(*first, inputs, outcome);
  std::vector<SeriesBuild> builds;
  for (const std::string& build : series) {
    builds.push_back(
        {build,
         [&load, &inputs,
          &build]() -> absl::StatusOr<std::shared_ptr<const GraphTarget>> {
           NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                                     LoadBuild(load, inputs, build));
           return loaded.target;
         }});
  }
  SeriesOptions options;
  Progress progress("builds");
  options.progress = progress.Updater();
  const std::vector<NamedTensor> given =
      NameInputs(first->target->inputs(), first->inputs);
  NODEWISE_ASSIGN_OR_RETURN(const SeriesResult found,
                            FindFirstBad(builds, given, options));
  outcome->text += "\n";
  ShowSeries(found, series, outcome);
  ShowGivenNan(given, outcome);
  if (!found.first_bad.has_value()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const Session good,
                            LoadBuild(load, inputs, series[found.last_good]));
  NODEWISE_ASSIGN_OR_RETURN(const Session bad,
                            LoadBuild(load, inputs, series[*found.first_bad]));
  const auto differences =
      CompareSides({good.target->graph(), good.target->artefact().params},
                   {bad.target->graph(), bad.target->artefact().params});
  ShowSideDifferences(differences, outcome);
  if (!differences.empty()) return absl::OkStatus();
  return MixTargets(bad, good, MixOptions().node_limit_ms, outcome);
}

}  // namespace nodewise
