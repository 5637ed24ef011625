// Passes that stop between nodes, what is alive in one, and running again what
// depends on a changed entry.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::string EntryName(const Graph& graph, EntryId entry) {
  const NodeId node = graph.NodeOf(entry);
  return absl::StrFormat("output %d of %s",
                         Index(entry) - graph.node_row_ptr[Index(node)],
                         NodeTitle(graph, node));
}

bool IsFunction(const Graph& graph, NodeId node) {
  return graph.node(node).kind == GraphNode::Kind::kFunction;
}

}  // namespace

const DebugExecutor::Liveness& DebugExecutor::Live() const {
  if (!is_liveness_due_) return liveness_;
  is_liveness_due_ = false;
  BeginLiveness();
  for (uint32_t n = 0; n < Index(position_); ++n) {
    if (IsFunction(graph(), NodeId{n})) MarkComputed(NodeId{n}, &liveness_);
  }
  return liveness_;
}

void DebugExecutor::BeginLiveness() const {
  std::fill(liveness_.owner.begin(), liveness_.owner.end(), kNobody);
  std::fill(liveness_.computed.begin(), liveness_.computed.end(), false);
  for (const Port& input : inputs()) {
    if (input.is_set) MarkComputed(NodeId{input.node}, &liveness_);
  }
}

void DebugExecutor::MarkLost(NodeId node) {
  for (uint32_t o = 0; o < graph().OutputsOf(node); ++o) {
    const EntryId entry = graph().EntryOf(node, o);
    if (IsInSlot(entry)) {
      liveness_.owner[plan().slot_of[Index(entry)]] = kNobody;
    } else {
      HasNoValue(entry);
    }
  }
}

void DebugExecutor::MarkAllLost() {
  LeavePass(NodeId{0});
  for (uint32_t n = 0; n < graph().nodes.size(); ++n) {
    if (IsFunction(graph(), NodeId{n})) MarkLost(NodeId{n});
  }
}

void DebugExecutor::MarkComputed(NodeId node, Liveness* state) const {
  for (uint32_t o = 0; o < graph().OutputsOf(node); ++o) {
    const EntryId entry = graph().EntryOf(node, o);
    state->computed[Index(entry)] = true;
    const uint32_t base = plan().base_of[Index(entry)];
    // A free __nop writes nothing; a tensor in the caller's memory shares none.
    if (base == Index(entry) && IsInSlot(entry)) {
      state->owner[plan().slot_of[base]] = base;
    }
  }
}

bool DebugExecutor::IsLive(const Liveness& state, uint32_t entry) const {
  if (!state.computed[entry]) return false;
  const uint32_t base = plan().base_of[entry];
  return !IsInSlot(EntryId{base}) || state.owner[plan().slot_of[base]] == base;
}

bool DebugExecutor::IsComputed(EntryId entry) const {
  return IsLive(Live(), Index(entry));
}

void DebugExecutor::GotValue(EntryId base) {
  (void)Live();
  if (liveness_.computed.empty()) return;  // While it is being made.
  liveness_.computed[Index(base)] = true;
  if (!IsInSlot(base)) return;
  liveness_.owner[plan().slot_of[Index(base)]] = Index(base);
}

// Where no slot says whose value it has, an entry is dead if it counts as not
// computed.
void DebugExecutor::HasNoValue(EntryId base) {
  (void)Live();
  for (uint32_t e = Index(base); e < liveness_.computed.size(); ++e) {
    if (plan().base_of[e] == Index(base)) liveness_.computed[e] = false;
  }
}

absl::Status DebugExecutor::CheckLive(EntryId entry) const {
  if (Index(entry) >= graph().entries.size()) {
    return absl::OutOfRangeError(
        absl::StrFormat("entry %d: the graph has %d entries", Index(entry),
                        graph().entries.size()));
  }
  const Liveness& live = Live();
  if (IsLive(live, Index(entry))) return absl::OkStatus();
  if (!live.computed[Index(entry)]) {
    const bool is_function = IsFunction(graph(), graph().NodeOf(entry));
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: %s", EntryName(graph(), entry),
        is_function ? "has not been computed yet (run until its node first)"
                    : "was never set (set it first)"));
  }
  const uint32_t slot = plan().slot_of[Index(entry)];
  const uint32_t owner = live.owner[slot];
  if (owner == kNobody) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: may be gone, a node that failed writes to its storage %d",
        EntryName(graph(), entry), plan().slots[slot].storage_id));
  }
  const NodeId later = graph().NodeOf(EntryId{owner});
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: is gone, %s has written over it in storage %d (stop before that "
      "node, or run with storage of its own for every entry)",
      EntryName(graph(), entry), NodeTitle(graph(), later),
      plan().slots[slot].storage_id));
}

absl::StatusOr<NDArray> DebugExecutor::ReadEntry(EntryId entry) const {
  NODEWISE_RETURN_IF_ERROR(CheckLive(entry));
  return EntryArray(Index(entry));
}

void DebugExecutor::LeavePass(NodeId node) {
  in_pass_ = false;
  position_ = node;
  is_liveness_due_ = true;
  (void)Live();
  if (AtEnd()) return;  // Of a graph without nodes, whose end is its start.
  if (IsFunction(graph(), node)) MarkLost(node);
}

void DebugExecutor::EndPass() {
  position_ = NodeId{static_cast<uint32_t>(graph().nodes.size())};
  in_pass_ = is_liveness_due_ = true;
}

absl::Status DebugExecutor::Restart() {
  in_pass_ = false;
  NODEWISE_RETURN_IF_ERROR(PrepareRun());
  std::fill(times_.nodes.begin(), times_.nodes.end(), NodeTime());
  times_.whole = NodeTime();
  position_ = NodeId{0};
  is_liveness_due_ = false;
  BeginLiveness();
  NODEWISE_RETURN_IF_ERROR(VisitObservers(
      [](NodeObserver& observer) { return observer.BeforePass(); }));
  in_pass_ = true;
  return absl::OkStatus();
}

absl::Status DebugExecutor::Advance() {
  const NodeId node = position_;
  if (IsFunction(graph(), node)) {
    // A node that failed has to run again, from the start: what it left is
    // anybody's guess.
    in_pass_ = false;
    NODEWISE_RETURN_IF_ERROR(RunNode(node));
    in_pass_ = true;
  }
  position_ = NodeId{Index(node) + 1};
  return AtEnd() ? FinishRun() : absl::OkStatus();
}

absl::Status DebugExecutor::EnsurePassStarted() {
  return in_pass_ ? absl::OkStatus() : Restart();
}

absl::Status DebugExecutor::Step() {
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  if (AtEnd()) {
    return absl::OutOfRangeError(
        "the pass is at its end (restart to begin another)");
  }
  while (!AtEnd()) {
    const bool runs = IsFunction(graph(), position_);
    NODEWISE_RETURN_IF_ERROR(Advance());
    if (runs) break;
  }
  return absl::OkStatus();
}

absl::Status DebugExecutor::RunUntil(NodeId node) {
  if (Index(node) >= graph().nodes.size()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "node %d: the graph has %d nodes", Index(node), graph().nodes.size()));
  }
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

absl::StatusOr<std::optional<NodeId>> DebugExecutor::ContinueUntil(
    const StopRule& stop) {
  NODEWISE_RETURN_IF_ERROR(EnsurePassStarted());
  while (!AtEnd()) {
    const NodeId node = position_;
    NODEWISE_RETURN_IF_ERROR(Advance());
    if (!IsFunction(graph(), node)) continue;
    NODEWISE_ASSIGN_OR_RETURN(const bool wanted, stop(node));
    if (wanted) return std::optional<NodeId>(node);
  }
  return std::optional<NodeId>();
}

absl::Status DebugExecutor::Patch(EntryId entry, const DLTensor& given) {
  if (Index(entry) >= graph().entries.size()) {
    return absl::OutOfRangeError(
        absl::StrFormat("entry %d: the graph has %d entries", Index(entry),
                        graph().entries.size()));
  }
  const DLTensor& own = tensor(entry);
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray copy, NDArray::Empty(ShapeOf(own), own.dtype, own.device));
  NODEWISE_RETURN_IF_ERROR(
      At(EntryName(graph(), entry), CopyTensor(given, *copy)));
  const uint32_t base = plan().base_of[Index(entry)];
  const NodeId maker = graph().NodeOf(EntryId{base});
  if (!IsFunction(graph(), maker)) {
    NODEWISE_RETURN_IF_ERROR(PatchInput(maker, *copy));
  }
  patches_.erase(
      std::remove_if(patches_.begin(), patches_.end(),
                     [&](const PatchedEntry& p) { return p.base == base; }),
      patches_.end());
  patches_.push_back({base, std::move(copy)});
  if (!IsLive(Live(), base)) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(Overlay(patches_.back()));
  // The caller's tensors that outputs are copied to have been filled already.
  return in_pass_ && AtEnd() ? FinishRun() : absl::OkStatus();
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

absl::Status DebugExecutor::Overlay(const PatchedEntry& patch) {
  // The alias that was patched may have another shape than its base.
  DLTensor to = tensor(EntryId{patch.base});
  to.ndim = patch.bytes->ndim;
  to.shape = patch.bytes->shape;
  to.dtype = patch.bytes->dtype;
  return CopyTensor(*patch.bytes, to);
}

absl::Status DebugExecutor::OverlayPatches(NodeId node) {
  for (const PatchedEntry& patch : patches_) {
    if (graph().NodeOf(EntryId{patch.base}) != node) continue;
    NODEWISE_RETURN_IF_ERROR(Overlay(patch));
  }
  return absl::OkStatus();
}

bool DebugExecutor::IsPatched(EntryId entry) const {
  const uint32_t base = plan().base_of[Index(entry)];
  return std::any_of(
      patches_.begin(), patches_.end(),
      [&](const PatchedEntry& patch) { return patch.base == base; });
}

bool DebugExecutor::IsReplaced(NodeId node) const {
  if (patches_.empty() || graph().OutputsOf(node) == 0) return false;
  for (uint32_t o = 0; o < graph().OutputsOf(node); ++o) {
    const EntryId entry = graph().EntryOf(node, o);
    const bool is_base = plan().base_of[Index(entry)] == Index(entry);
    if (!is_base || !IsPatched(entry)) return false;
  }
  return true;
}

// By node: whether it reads, near or far, what a patch changed.
std::vector<bool> DebugExecutor::DependOnPatches() const {
  std::vector<bool> changed(graph().entries.size(), false);
  for (const PatchedEntry& patch : patches_) changed[patch.base] = true;
  std::vector<bool> depends(graph().nodes.size(), false);
  for (uint32_t n = 0; n < Index(position_); ++n) {
    for (const EntryRef& ref : graph().nodes[n].inputs) {
      const uint32_t entry = Index(graph().EntryOf(ref));
      if (changed[plan().base_of[entry]]) depends[n] = true;
    }
    for (uint32_t o = 0; depends[n] && o < graph().OutputsOf(NodeId{n}); ++o) {
      changed[Index(graph().EntryOf(NodeId{n}, o))] = true;
    }
  }
  return depends;
}

// Adds the nodes that make what the wanted ones read and is not alive, and
// those that make anew what is alive and a wanted one writes over: somebody may
// read it next. Looks at each node once.
absl::Status DebugExecutor::AddMissing(std::vector<bool>* wanted) const {
  const Liveness& live = Live();
  std::vector<uint32_t> unseen;
  for (uint32_t n = 0; n < Index(position_); ++n) {
    if ((*wanted)[n]) unseen.push_back(n);
  }
  const auto add = [&](uint32_t base) {
    const NodeId maker = graph().NodeOf(EntryId{base});
    if (!IsFunction(graph(), maker)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s is needed and a node has written over it (set it and run anew)",
          EntryName(graph(), EntryId{base})));
    }
    if (!(*wanted)[Index(maker)]) unseen.push_back(Index(maker));
    (*wanted)[Index(maker)] = true;
    return absl::OkStatus();
  };
  while (!unseen.empty()) {
    const NodeId node{unseen.back()};
    unseen.pop_back();
    for (const EntryRef& ref : graph().node(node).inputs) {
      const uint32_t entry = Index(graph().EntryOf(ref));
      if (IsReplaced(node) || IsLive(live, entry)) continue;
      NODEWISE_RETURN_IF_ERROR(add(plan().base_of[entry]));
    }
    for (uint32_t o = 0; o < graph().OutputsOf(node); ++o) {
      const EntryId entry = graph().EntryOf(node, o);
      const uint32_t base = plan().base_of[Index(entry)];
      if (base != Index(entry) || !IsInSlot(entry)) continue;
      const uint32_t owner = live.owner[plan().slot_of[base]];
      if (owner == kNobody) continue;
      NODEWISE_RETURN_IF_ERROR(add(owner));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeId>> DebugExecutor::Recompute() {
  if (!in_pass_) {
    return absl::FailedPreconditionError(
        "nothing to compute again: no pass has begun");
  }
  std::vector<bool> wanted = DependOnPatches();
  NODEWISE_RETURN_IF_ERROR(AddMissing(&wanted));
  std::vector<NodeId> ran;
  for (uint32_t n = 0; n < Index(position_); ++n) {
    if (!wanted[n]) continue;
    in_pass_ = false;  // Unless the node succeeds, as in Advance().
    NODEWISE_RETURN_IF_ERROR(RunNode(NodeId{n}));
    in_pass_ = true;
    if (!IsReplaced(NodeId{n})) ran.push_back(NodeId{n});
  }
  if (AtEnd()) NODEWISE_RETURN_IF_ERROR(FinishRun());
  return ran;
}

}  // namespace nodewise
