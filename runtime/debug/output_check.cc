// Whether watching changed the outcome, and rules that end a run.

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// In words; empty if they are the same.
std::string DifferenceOf(const NDArray& a, const NDArray& b) {
  const std::string type = TypeToString(a.shape(), a.dtype());
  const std::string wanted = TypeToString(b.shape(), b.dtype());
  if (type != wanted) {
    return fmt::format("is {}, there it is {}", type, wanted);
  }
  const uint8_t* const left = a.As<uint8_t>();
  const uint8_t* const right = b.As<uint8_t>();
  const uint8_t* const end = left + a.bytes();
  const uint8_t* const place = std::mismatch(left, end, right).first;
  if (place == end) return "";
  return fmt::format("differs first at byte {} of {}", place - left, a.bytes());
}

}  // namespace

absl::StatusOr<OutputCheck> CompareOutputs(const GraphExecutor& debugged,
                                           const GraphExecutor& plain) {
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < debugged.NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray output, debugged.GetOutput(i));
    outputs.push_back(std::move(output));
  }
  return CompareOutputs(outputs, plain);
}

absl::StatusOr<OutputCheck> CompareOutputs(absl::Span<const NDArray> outputs,
                                           const GraphExecutor& plain) {
  if (outputs.size() != plain.NumOutputs()) {
    return absl::InvalidArgumentError(fmt::format(
        "got {} outputs to compare with {}, expected those of one graph",
        outputs.size(), plain.NumOutputs()));
  }
  size_t bytes = 0;
  for (size_t i = 0; i < plain.NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray right, plain.GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray ours, outputs[i].CopyToHost());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray theirs, right.CopyToHost());
    const std::string difference = DifferenceOf(ours, theirs);
    if (!difference.empty()) {
      return OutputCheck{
          false,
          fmt::format("outputs: NOT those of a plain run: output {} ({}) {}", i,
                      plain.OutputInfo(i).name, difference)};
    }
    bytes += ours.bytes();
  }
  return OutputCheck{
      true, fmt::format("outputs: bit for bit those of a plain run ({} "
                        "tensor{}, {} bytes)",
                        plain.NumOutputs(), plain.NumOutputs() == 1 ? "" : "s",
                        bytes)};
}

DebugExecutor::StopRule StopAtValues(const DebugExecutor& executor,
                                     StopValues values) {
  return [&executor, values](NodeId node) -> absl::StatusOr<bool> {
    for (const DLTensor* output : executor.OutputsOf(node)) {
      const NDArray array = NDArray::Borrow(*output, nullptr);
      NODEWISE_ASSIGN_OR_RETURN(const NDArray host,
                                output->device == kCpu
                                    ? absl::StatusOr<NDArray>(array)
                                    : array.CopyToHost());
      if (HoldsValue(StatsOf(*host), values)) return true;
    }
    return false;
  };
}

}  // namespace nodewise
