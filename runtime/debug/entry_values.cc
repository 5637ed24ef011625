// Finds what is alive in a pass, gives entries other contents, and runs again
// what depends on them.

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/status_macros.h"
#include "runtime/debug/liveness.h"
#include "runtime/debug/patches.h"

namespace nodewise {
Liveness& DebugExecutor::Live() const {
  if (!is_liveness_due_) return *liveness_;
  is_liveness_due_ = false;
  BeginLiveness();
  for (uint32_t n = 0; n < Index(position_); ++n) {
    if (graph().IsFunction(NodeId{n})) liveness_->MarkComputed(NodeId{n});
  }
  return *liveness_;
}

void DebugExecutor::BeginLiveness() const {
  liveness_->Clear();
  for (const Port& input : inputs()) {
    if (input.is_set) liveness_->MarkComputed(NodeId{input.node});
  }
}

void DebugExecutor::MarkAllLost() {
  LeavePass(NodeId{0});
  for (uint32_t n = 0; n < graph().nodes.size(); ++n) {
    if (graph().IsFunction(NodeId{n})) liveness_->MarkLost(NodeId{n});
  }
}

bool DebugExecutor::IsComputed(EntryId entry) const {
  return Live().IsLive(entry);
}

void DebugExecutor::ValueWasSet(EntryId base) {
  if (liveness_ != nullptr) Live().SetValue(base);
}

void DebugExecutor::ValueWasDropped(EntryId base) {
  if (liveness_ != nullptr) Live().DropValue(base);
}

absl::Status DebugExecutor::CheckLive(EntryId entry) const {
  NODEWISE_RETURN_IF_ERROR(index().EntryAt(Index(entry)).status());
  return Live().Check(entry);
}

absl::StatusOr<NDArray> DebugExecutor::ReadEntry(EntryId entry) const {
  NODEWISE_RETURN_IF_ERROR(CheckLive(entry));
  return EntryArray(Index(entry));
}

absl::Status DebugExecutor::Patch(EntryId entry, const DLTensor& given) {
  NODEWISE_RETURN_IF_ERROR(index().EntryAt(Index(entry)).status());
  const DLTensor& own = tensor(entry);
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray copy, NDArray::Empty(ShapeOf(own), own.dtype, own.device));
  NODEWISE_RETURN_IF_ERROR(
      At(index().TitleOf(entry), CopyTensor(given, *copy)));
  const EntryId base = index().BaseOf(entry);
  const NodeId maker = index().NodeOf(base);
  if (!graph().IsFunction(maker)) {
    NODEWISE_RETURN_IF_ERROR(PatchInput(maker, *copy));
  }
  patches_->Set(base, std::move(copy));
  if (!Live().IsLive(base)) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(patches_->WriteEntry(base));
  // The caller's tensors that outputs are copied to have been filled already.
  return in_pass_ && AtEnd() ? FinishRun() : absl::OkStatus();
}

void DebugExecutor::ClearPatches() { patches_->Clear(); }

bool DebugExecutor::IsPatched(EntryId entry) const {
  return patches_->Has(entry);
}

absl::Status DebugExecutor::PatchInput(NodeId node, DLTensor value) {
  const auto& inputs = graph().arg_nodes;
  const auto place = std::find(inputs.begin(), inputs.end(), Index(node));
  if (place == inputs.end()) return absl::OkStatus();
  // An alias may have another shape than the input it is.
  const DLTensor& own = tensor(graph().EntryOf(node, 0));
  value.ndim = own.ndim;
  value.shape = own.shape;
  value.strides = nullptr;
  return SetInput(static_cast<size_t>(place - inputs.begin()), value);
}

// Adds the nodes that make what the wanted ones read and is not alive, and
// those that make again a live entry that a wanted one writes over, since it
// may be read next. Looks at each node once.
absl::Status DebugExecutor::AddMissing(ByNode<bool>* wanted) const {
  const Liveness& live = Live();
  std::vector<NodeId> unseen;
  for (uint32_t n = 0; n < Index(position_); ++n) {
    if ((*wanted)[NodeId{n}]) unseen.push_back(NodeId{n});
  }
  const auto add = [&](EntryId base) {
    const NodeId maker = index().NodeOf(base);
    if (!graph().IsFunction(maker)) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is needed and a node has written over it (set it and run anew)",
          index().TitleOf(base)));
    }
    if (!(*wanted)[maker]) unseen.push_back(maker);
    (*wanted)[maker] = true;
    return absl::OkStatus();
  };
  while (!unseen.empty()) {
    const NodeId node = unseen.back();
    unseen.pop_back();
    for (const EntryRef& ref : graph().node(node).inputs) {
      const EntryId entry = graph().EntryOf(ref);
      if (patches_->Replace(node) || live.IsLive(entry)) continue;
      NODEWISE_RETURN_IF_ERROR(add(index().BaseOf(entry)));
    }
    for (uint32_t o = 0; o < graph().OutputsOf(node); ++o) {
      const EntryId entry = graph().EntryOf(node, o);
      if (!index().IsBase(entry) || !IsInSlot(entry)) continue;
      const std::optional<EntryId> owner = live.OwnerOfSlot(entry);
      if (owner.has_value()) NODEWISE_RETURN_IF_ERROR(add(*owner));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeId>> DebugExecutor::Recompute() {
  if (!in_pass_) {
    return absl::FailedPreconditionError(
        "nothing to compute again: no pass has begun");
  }
  ByNode<bool> wanted = patches_->Dependents(position_);
  NODEWISE_RETURN_IF_ERROR(AddMissing(&wanted));
  std::vector<NodeId> ran;
  for (uint32_t n = 0; n < Index(position_); ++n) {
    const NodeId node{n};
    if (!wanted[node]) continue;
    NODEWISE_RETURN_IF_ERROR(InPass([&] { return RunNode(node); }));
    if (!patches_->Replace(node)) ran.push_back(node);
  }
  if (AtEnd()) NODEWISE_RETURN_IF_ERROR(FinishRun());
  return ran;
}

}  // namespace nodewise
