#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "runtime/debug/entry_values.h"

namespace nodewise {

// A plain run calls compiled code alone, so it would pass over patches and the
// invoker.
absl::Status DebugExecutor::CheckPlain() const {
  if (!patches_->empty()) {
    return FailedPrecondition(
        "profile: {} {} patched, expected none (ClearPatches() first)",
        patches_->size(), patches_->size() == 1 ? "entry is" : "entries are");
  }
  if (!invoker_) return absl::OkStatus();
  return FailedPrecondition(
      "profile: an invoker is set, expected none (SetInvoker(nullptr) first)");
}

// Leaves the executor as if it had stepped through the pass, so that values can
// be read afterwards.
absl::Status DebugExecutor::RunPlain() {
  GiveUpPass();
  const absl::Status status = GraphExecutor::Run();
  if (status.ok()) {
    EndPass();
    return status;
  }
  // A plain run does not say where it failed, so any output may be half
  // written.
  LeavePass(NodeId{0});
  for (const NodeId node : AllNodes(graph())) {
    if (graph().IsFunction(node)) liveness_->MarkLost(node);
  }
  return status;
}

// A node that fails while it is timed ends the pass, since its outputs are
// undefined then.
absl::StatusOr<std::vector<double>> DebugExecutor::TimeNext(
    const RepeatOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(options));
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  if (AtEnd()) {
    return OutOfRange("the pass is at its end (restart to begin another)");
  }
  std::vector<double> seconds;
  const uint32_t place = call_of_[position_];
  if (place < calls().size()) {
    NODEWISE_RETURN_IF_ERROR(InPass([&] {
      auto measured = MeasureApart(calls()[place], options);
      if (!measured.ok()) {
        LeavePass(position_);
        return measured.status();
      }
      seconds = *std::move(measured);
      return absl::OkStatus();
    }));
  }
  seconds.resize(static_cast<size_t>(options.repeat));
  return seconds;
}

// A node that works in place would read its own result the second time: while
// it is measured it writes elsewhere.
absl::StatusOr<std::vector<double>> DebugExecutor::MeasureApart(
    const Call& call, const RepeatOptions& options) {
  const auto time_calls = [&](int64_t number) -> absl::StatusOr<int64_t> {
    const CandidateFloatEnvironment floats;
    const int64_t start = ClockNanoseconds();
    for (int64_t i = 0; i < number; ++i) {
      NODEWISE_RETURN_IF_ERROR(CallNode(call));
    }
    return ClockNanoseconds() - start;
  };
  bool works_in_place = false;
  for (const DLTensor* const input : InputsOf(call.node)) {
    for (const DLTensor* const output : OutputsOf(call.node)) {
      works_in_place = works_in_place || input->data == output->data;
    }
  }
  std::vector<std::pair<uint32_t, void*>> places;
  std::vector<NDArray> elsewhere;
  for (const EntryId entry : EntriesMadeBy(graph(), call.node)) {
    if (!works_in_place) break;
    const DLTensor& own = tensor(entry);
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray memory, NDArray::Empty(ShapeOf(own), own.dtype, own.device));
    places.emplace_back(Index(index().BaseOf(entry)), own.data);
    elsewhere.push_back(std::move(memory));
  }
  for (size_t o = 0; o < places.size(); ++o) {
    Repoint(places[o].first, elsewhere[o].data());
  }
  const absl::Cleanup repoint = [&] {
    for (const auto& [base, data] : places) Repoint(base, data);
  };
  return TimeRepeats(options, time_calls, [] { return absl::OkStatus(); });
}

namespace {

// Says how two arrays differ; "" if they are the same. Bytes are compared, not
// numbers: NaN equals itself then, and a zero of the other sign does not.
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

// Stops at the first output that differs, which is enough to say that watching
// changed the run.
absl::StatusOr<OutputCheck> CompareOutputs(absl::Span<const NDArray> outputs,
                                           const GraphExecutor& plain) {
  if (outputs.size() != plain.NumOutputs()) {
    return InvalidArgument(
        "got {} outputs to compare with {}, expected those of one graph",
        outputs.size(), plain.NumOutputs());
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

}  // namespace nodewise
