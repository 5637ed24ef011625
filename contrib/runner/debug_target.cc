#include "nodewise/runner/debug_target.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/process/isolation.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The time limit of one whole plain run.
constexpr int64_t kPlainRunLimitMs = 3'600'000;

OutputCheck CheckOf(const absl::StatusOr<OutputCheck>& compared) {
  if (compared.ok()) return *compared;
  constexpr std::string_view kRun = "plain run: ";
  const std::string_view why = MessageOf(compared.status());
  return {false, fmt::format("outputs: not compared, {}{}",
                             why.starts_with(kRun) ? "" : kRun, why)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebugExecutor(
    const GraphTarget& target, absl::Span<const RunInput> inputs,
    DebugExecutor::DebugOptions options) {
  options.devices = target.devices();
  NODEWISE_ASSIGN_OR_RETURN(
      auto executor,
      DebugExecutor::Create(target.graph(), target.artefact().library,
                            std::move(options)));
  NODEWISE_RETURN_IF_ERROR(target.SetAll(inputs, executor.get()));
  return executor;
}

ExecutorMaker MakerOfDebugExecutors(const GraphTarget& target,
                                    absl::Span<const RunInput> inputs,
                                    absl::Status* status) {
  return [&target, inputs, status](DebugExecutor::DebugOptions options) {
    options.records = false;
    auto executor = MakeDebugExecutor(target, inputs, std::move(options));
    if (status != nullptr) status->Update(executor.status());
    return executor;
  };
}

OutputCheck CheckAgainstPlain(const GraphTarget& target,
                              absl::Span<const RunInput> inputs,
                              const GraphExecutor& debugged) {
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, target.MakeExecutor(inputs));
    const NotedRun run("");
    NODEWISE_RETURN_IF_ERROR(plain->Run());
    return CompareOutputs(debugged, *plain);
  };
  return CheckOf(compare());
}

OutputCheck CheckAgainstPlainChild(const GraphTarget& target,
                                   absl::Span<const RunInput> inputs,
                                   absl::Span<const NamedTensor> outputs) {
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, target.MakeExecutor(inputs));
    NODEWISE_RETURN_IF_ERROR(RunInChild(plain.get(), {kPlainRunLimitMs}));
    std::vector<NDArray> kept;
    kept.reserve(outputs.size());
    for (const NamedTensor& output : outputs) kept.push_back(output.tensor);
    return CompareOutputs(kept, *plain);
  };
  return CheckOf(compare());
}

}  // namespace nodewise
