#include "runtime/debug/entry_values.h"

#include <algorithm>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {

void Liveness::MarkComputed(NodeId node) {
  for (const EntryId entry : EntriesMadeBy(graph_, node)) {
    computed_[entry] = true;
    // A free __nop writes nothing, and a tensor in the caller's memory shares
    // no slot.
    if (index_.IsBase(entry) && is_in_slot_(entry)) {
      owner_[SlotOf(entry)] = Index(entry);
    }
  }
}

// A value that a failed node may have written over is as uncertain as one that
// was overwritten.
void Liveness::MarkLost(NodeId node) {
  for (const EntryId entry : EntriesMadeBy(graph_, node)) {
    if (is_in_slot_(entry)) {
      owner_[SlotOf(entry)] = kNoOwner;
    } else {
      DropValue(entry);
    }
  }
}

// A tensor outside of the slots has no owner that would tell, so it is dead
// when it counts as not computed.
void Liveness::DropValue(EntryId base) {
  for (uint32_t e = Index(base); e < computed_.size(); ++e) {
    if (index_.BaseOf(EntryId{e}) == base) computed_[EntryId{e}] = false;
  }
}

// The message says which node is in the way and what to do, since plans that
// share storage surprise those who look at values.
absl::Status Liveness::Check(EntryId entry) const {
  if (IsLive(entry)) return absl::OkStatus();
  if (!computed_[entry]) {
    return FailedPrecondition(
        "{}: {}", index_.TitleOf(entry),
        graph_.IsFunction(index_.NodeOf(entry))
            ? "has not been computed yet (run until its node first)"
            : "was never set (set it first)");
  }
  const int storage = plan_.slots[SlotOf(entry)].storage_id;
  const std::optional<EntryId> owner = OwnerOfSlot(entry);
  if (!owner.has_value()) {
    return FailedPrecondition(
        "{}: may be gone, a node that failed writes to its storage {}",
        index_.TitleOf(entry), storage);
  }
  return FailedPrecondition(
      "{}: is gone, {} has written over it in storage {} (stop before that "
      "node, or run with storage of its own for every entry)",
      index_.TitleOf(entry), index_.TitleOf(index_.NodeOf(*owner)), storage);
}

// Where patches share a memory, the one that was set last is written last and
// counts.
void Patches::Set(EntryId base, NDArray contents) {
  std::erase_if(patches_,
                [&](const Patch& patch) { return patch.base == base; });
  patches_.push_back({base, std::move(contents)});
}

// There are few patches, so a list that is searched is enough.
const Patches::Patch* Patches::Find(EntryId entry) const {
  const EntryId base = index_.BaseOf(entry);
  const auto patch = std::ranges::find(patches_, base, &Patch::base);
  return patch == patches_.end() ? nullptr : &*patch;
}

// A __nop that shares its input's memory is never replaced: what it gives out
// is its input, patched or not.
bool Patches::Replace(NodeId node) const {
  if (patches_.empty() || graph_.OutputsOf(node) == 0) return false;
  for (const EntryId entry : EntriesMadeBy(graph_, node)) {
    if (!index_.IsBase(entry) || !Has(entry)) return false;
  }
  return true;
}

absl::Status Patches::Write(const Patch& patch) const {
  // The entry that was patched may have another shape than its base.
  DLTensor to = run_.TensorOf(patch.base);
  to.ndim = patch.contents->ndim;
  to.shape = patch.contents->shape;
  to.dtype = patch.contents->dtype;
  return CopyTensor(*patch.contents, to);
}

absl::Status Patches::WriteEntry(EntryId base) const {
  const Patch* const patch = Find(base);
  NODEWISE_CHECK(patch != nullptr);
  return Write(*patch);
}

absl::Status Patches::WriteOutputs(NodeId node) const {
  for (const Patch& patch : patches_) {
    if (index_.NodeOf(patch.base) != node) continue;
    NODEWISE_RETURN_IF_ERROR(Write(patch));
  }
  return absl::OkStatus();
}

// One pass in the order of the nodes: each reads only what earlier ones have
// made.
ByNode<bool> Patches::Dependents(NodeId end) const {
  ByEntry<bool> changed(graph_);
  for (const Patch& patch : patches_) changed[patch.base] = true;
  ByNode<bool> depends(graph_);
  for (const NodeId node : IdRange<NodeId>{0, Index(end)}) {
    for (const EntryRef& ref : graph_.node(node).inputs) {
      if (changed[index_.BaseOf(graph_.EntryOf(ref))]) depends[node] = true;
    }
    if (!depends[node]) continue;
    for (const EntryId made : EntriesMadeBy(graph_, node)) changed[made] = true;
  }
  return depends;
}

// A fast run does not keep track, since the values of most runs are never
// looked at. Which of them are alive follows from where the run stopped.
Liveness& DebugExecutor::Live() const {
  if (!is_liveness_due_) return *liveness_;
  is_liveness_due_ = false;
  BeginLiveness();
  for (const NodeId node : IdRange<NodeId>{0, Index(position_)}) {
    if (graph().IsFunction(node)) liveness_->MarkComputed(node);
  }
  return *liveness_;
}

// Inputs count as computed once they are set, in any pass.
void DebugExecutor::BeginLiveness() const {
  liveness_->Clear();
  for (const Port& input : inputs()) {
    if (input.is_set) liveness_->MarkComputed(NodeId{input.node});
  }
}

bool DebugExecutor::IsComputed(EntryId entry) const {
  return Live().IsLive(entry);
}

// The plain executor tells of inputs and outputs that are set or bound, and may
// do so before there is anything to tell.
void DebugExecutor::ValueWasSet(EntryId base) {
  if (liveness_ != nullptr) Live().SetValue(base);
}

void DebugExecutor::ValueWasDropped(EntryId base) {
  if (liveness_ != nullptr) Live().DropValue(base);
}

// The number may come from a host.
absl::Status DebugExecutor::CheckLive(EntryId entry) const {
  NODEWISE_RETURN_IF_ERROR(index().EntryAt(Index(entry)).status());
  return Live().Check(entry);
}

absl::StatusOr<NDArray> DebugExecutor::ReadEntry(EntryId entry) const {
  NODEWISE_RETURN_IF_ERROR(CheckLive(entry));
  return EntryArray(Index(entry));
}

// The contents are copied and checked against the entry's own type first. An
// input is set for good; any other entry gets them now if it is alive, and
// again whenever its node runs.
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

// An input that is not among the graph's arguments cannot be set, and has its
// patch alone.
absl::Status DebugExecutor::PatchInput(NodeId node, DLTensor value) {
  const auto& inputs = graph().arg_nodes;
  const auto place = std::find(inputs.begin(), inputs.end(), Index(node));
  if (place == inputs.end()) return absl::OkStatus();
  // An alias may have another shape than the input that it stands for.
  const DLTensor& own = tensor(graph().EntryOf(node, 0));
  value.ndim = own.ndim;
  value.shape = own.shape;
  value.strides = nullptr;
  return SetInput(static_cast<size_t>(place - inputs.begin()), value);
}

// Adds the nodes that make what wanted nodes read and is not alive. Where a
// wanted node writes over a live entry, the node that makes the entry is added
// too, since the entry may be read next. Looks at each node once.
absl::Status DebugExecutor::AddMissing(ByNode<bool>* wanted) const {
  const Liveness& live = Live();
  std::vector<NodeId> unseen;
  for (const NodeId node : IdRange<NodeId>{0, Index(position_)}) {
    if ((*wanted)[node]) unseen.push_back(node);
  }
  const auto add = [&](EntryId base) {
    const NodeId maker = index().NodeOf(base);
    if (!graph().IsFunction(maker)) {
      return FailedPrecondition(
          "{} is needed and a node has written over it (set it and run anew)",
          index().TitleOf(base));
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
    for (const EntryId entry : EntriesMadeBy(graph(), node)) {
      if (!index().IsBase(entry) || !IsInSlot(entry)) continue;
      const std::optional<EntryId> owner = live.OwnerOfSlot(entry);
      if (owner.has_value()) NODEWISE_RETURN_IF_ERROR(add(*owner));
    }
  }
  return absl::OkStatus();
}

// Nodes run again in the order of the graph, each with its observers, as in a
// pass. Nodes that a patch replaces are written, not called, and so are not
// among those returned.
absl::StatusOr<std::vector<NodeId>> DebugExecutor::Recompute() {
  if (!in_pass_) {
    return FailedPrecondition("nothing to compute again: no pass has begun");
  }
  ByNode<bool> wanted = patches_->Dependents(position_);
  NODEWISE_RETURN_IF_ERROR(AddMissing(&wanted));
  std::vector<NodeId> ran;
  for (const NodeId node : IdRange<NodeId>{0, Index(position_)}) {
    if (!wanted[node]) continue;
    NODEWISE_RETURN_IF_ERROR(InPass([&] { return RunNode(node); }));
    if (!patches_->Replace(node)) ran.push_back(node);
  }
  if (AtEnd()) NODEWISE_RETURN_IF_ERROR(FinishRun());
  return ran;
}

}  // namespace nodewise
