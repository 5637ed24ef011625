#include <algorithm>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/status.h"
#include "runtime/debug/entry_values.h"

namespace nodewise {

// The state is worked out now, while it is known how far the pass came.
void DebugExecutor::LeavePass(NodeId node) {
  in_pass_ = false;
  position_ = node;
  is_liveness_due_ = true;
  (void)Live();
  if (AtEnd()) return;  // A graph without nodes ends where it begins.
  if (graph().IsFunction(node)) liveness_->MarkLost(node);
}

// Nothing is worked out yet: most runs are never looked into.
void DebugExecutor::EndPass() {
  position_ = NodeId{static_cast<uint32_t>(graph().nodes.size())};
  in_pass_ = is_liveness_due_ = true;
}

void DebugExecutor::GiveUpPass() {
  in_pass_ = false;
  if (!is_pass_told_) return;
  NotifyPassEnded(Cancelled("the pass was given up for another one"));
}

absl::Status DebugExecutor::Restart() {
  GiveUpPass();
  NODEWISE_RETURN_IF_ERROR(PrepareRun());
  std::fill(times_.nodes.begin(), times_.nodes.end(), NodeTime());
  times_.whole = NodeTime();
  position_ = NodeId{0};
  is_liveness_due_ = false;
  BeginLiveness();
  is_pass_told_ = true;
  const absl::Status status = VisitObservers(
      [this](NodeObserver& observer) { return observer.BeforePass(View()); });
  in_pass_ = status.ok();
  // A graph without nodes is at its end at once.
  if (!in_pass_ || AtEnd()) NotifyPassEnded(status);
  return status;
}

// `in_pass_` is false meanwhile, so that an observer which asks for another run
// cannot go on with this pass.
absl::Status DebugExecutor::InPass(absl::FunctionRef<absl::Status()> part) {
  in_pass_ = false;
  absl::Status status = part();
  in_pass_ = status.ok();
  if (!in_pass_) NotifyPassEnded(status);
  return status;
}

// Nodes that are not functions cost a step of the position and nothing else.
// Outputs are copied to the caller's tensors at the end of the pass.
absl::Status DebugExecutor::Advance() {
  const NodeId node = position_;
  if (graph().IsFunction(node)) {
    NODEWISE_RETURN_IF_ERROR(InPass(
        [&] { return IsCancelled() ? CancelledAt(node) : RunNode(node); }));
  }
  position_ = NodeId{Index(node) + 1};
  if (!AtEnd()) return absl::OkStatus();
  absl::Status status = FinishRun();
  NotifyPassEnded(status);
  return status;
}

absl::Status DebugExecutor::Step() {
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  if (AtEnd()) {
    return OutOfRange("the pass is at its end (restart to begin another)");
  }
  while (!AtEnd()) {
    const bool runs = graph().IsFunction(position_);
    NODEWISE_RETURN_IF_ERROR(Advance());
    if (runs) break;
  }
  return absl::OkStatus();
}

// A node that has run already means a new pass, since it cannot be run again in
// this one without those before it.
absl::Status DebugExecutor::RunUntil(NodeId node) {
  NODEWISE_RETURN_IF_ERROR(index().NodeAt(Index(node)).status());
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  if (Index(node) < Index(position_)) NODEWISE_RETURN_IF_ERROR(Restart());
  while (Index(position_) <= Index(node)) NODEWISE_RETURN_IF_ERROR(Advance());
  return absl::OkStatus();
}

absl::Status DebugExecutor::Continue() {
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  while (!AtEnd()) NODEWISE_RETURN_IF_ERROR(Advance());
  return absl::OkStatus();
}

// The rule is asked after each function node. An error of the rule ends the
// call, and the pass stays where it is.
absl::StatusOr<std::optional<NodeId>> DebugExecutor::ContinueUntil(
    const StopRule& stop) {
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  while (!AtEnd()) {
    const NodeId node = position_;
    NODEWISE_RETURN_IF_ERROR(Advance());
    if (!graph().IsFunction(node)) continue;
    NODEWISE_ASSIGN_OR_RETURN(const bool wanted, stop(node));
    if (wanted) return std::optional<NodeId>(node);
  }
  return std::optional<NodeId>();
}

// Tensors on other devices are copied to the host to be looked at.
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
