#include "apps/nodewise/debug_network.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/process/isolation.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The time limit of one whole plain run.
constexpr int64_t kPlainRunLimitMs = 3'600'000;

OutputCheck NotCompared(const absl::Status& status) {
  constexpr std::string_view kRun = "plain run: ";
  const std::string_view why = MessageOf(status);
  return {false, fmt::format("outputs: not compared, {}{}",
                             why.starts_with(kRun) ? "" : kRun, why)};
}

// Findings stay valid even if this check fails.
void ShowCheck(const absl::StatusOr<OutputCheck>& compared, Outcome* outcome) {
  const OutputCheck check =
      compared.ok() ? *compared : NotCompared(compared.status());
  outcome->text += Printable(check.text) + "\n";
  outcome->json.BeginObject("plain_run");
  outcome->json.Add("same_bits", check.same);
  outcome->json.Add("text", check.text);
  outcome->json.EndObject();
  if (!check.same && outcome->status == Outcome::Status::kOk) {
    outcome->status = Outcome::Status::kDiffers;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebug(
    const LoadedTarget& network, DebugExecutor::DebugOptions options) {
  options.devices = network.devices();
  NODEWISE_ASSIGN_OR_RETURN(
      auto executor,
      DebugExecutor::Create(network.artefact().graph,
                            network.artefact().library, std::move(options)));
  NODEWISE_RETURN_IF_ERROR(network.SetAll(executor.get()));
  return executor;
}

ExecutorMaker MakerOf(const LoadedTarget& network) {
  return [&network](DebugExecutor::DebugOptions options) {
    options.records = false;
    return MakeDebug(network, std::move(options));
  };
}

void CheckAgainstPlain(const LoadedTarget& network,
                       const GraphExecutor& debugged, Outcome* outcome) {
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, network.MakePlain());
    NODEWISE_RETURN_IF_ERROR(plain->Run());
    return CompareOutputs(debugged, *plain);
  };
  ShowCheck(compare(), outcome);
}

void CheckAgainstPlainChild(const LoadedTarget& network,
                            const std::vector<NamedTensor>& outputs,
                            Outcome* outcome) {
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, network.MakePlain());
    NODEWISE_RETURN_IF_ERROR(RunInChild(plain.get(), {kPlainRunLimitMs}));
    std::vector<NDArray> kept;
    kept.reserve(outputs.size());
    for (const NamedTensor& output : outputs) kept.push_back(output.tensor);
    return CompareOutputs(kept, *plain);
  };
  ShowCheck(compare(), outcome);
}

}  // namespace nodewise
