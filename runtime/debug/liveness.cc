#include "runtime/debug/liveness.h"

#include <algorithm>

#include "fmt/format.h"

namespace nodewise {

Liveness::Liveness(const GraphIndex& index,
                   std::function<bool(EntryId)> is_in_slot)
    : index_(index),
      graph_(index.graph()),
      plan_(index.plan()),
      is_in_slot_(std::move(is_in_slot)),
      owner_(plan_.slots.size(), kNoOwner),
      computed_(graph_) {}

void Liveness::Clear() {
  std::fill(owner_.begin(), owner_.end(), kNoOwner);
  std::fill(computed_.begin(), computed_.end(), false);
}

void Liveness::MarkComputed(NodeId node) {
  for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
    const EntryId entry = graph_.EntryOf(node, o);
    computed_[entry] = true;
    // A free __nop writes nothing; a tensor in the caller's memory shares none.
    if (index_.IsBase(entry) && is_in_slot_(entry)) {
      owner_[SlotOf(entry)] = Index(entry);
    }
  }
}

void Liveness::MarkLost(NodeId node) {
  for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
    const EntryId entry = graph_.EntryOf(node, o);
    if (is_in_slot_(entry)) {
      owner_[SlotOf(entry)] = kNoOwner;
    } else {
      DropValue(entry);
    }
  }
}

void Liveness::SetValue(EntryId base) {
  computed_[base] = true;
  if (is_in_slot_(base)) owner_[SlotOf(base)] = Index(base);
}

// Where no slot says whose value it has, an entry is dead if it counts as not
// computed.
void Liveness::DropValue(EntryId base) {
  for (uint32_t e = Index(base); e < computed_.size(); ++e) {
    if (index_.BaseOf(EntryId{e}) == base) computed_[EntryId{e}] = false;
  }
}

bool Liveness::IsLive(EntryId entry) const {
  if (!computed_[entry]) return false;
  const EntryId base = index_.BaseOf(entry);
  return !is_in_slot_(base) || owner_[SlotOf(base)] == Index(base);
}

std::optional<EntryId> Liveness::OwnerOfSlot(EntryId entry) const {
  const uint32_t owner = owner_[SlotOf(entry)];
  if (owner == kNoOwner) return std::nullopt;
  return EntryId{owner};
}

absl::Status Liveness::Check(EntryId entry) const {
  if (IsLive(entry)) return absl::OkStatus();
  if (!computed_[entry]) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", index_.TitleOf(entry),
                    graph_.IsFunction(index_.NodeOf(entry))
                        ? "has not been computed yet (run until its node first)"
                        : "was never set (set it first)"));
  }
  const int storage = plan_.slots[SlotOf(entry)].storage_id;
  const std::optional<EntryId> owner = OwnerOfSlot(entry);
  if (!owner.has_value()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: may be gone, a node that failed writes to its storage {}",
        index_.TitleOf(entry), storage));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{}: is gone, {} has written over it in storage {} (stop before that "
      "node, or run with storage of its own for every entry)",
      index_.TitleOf(entry), index_.TitleOf(index_.NodeOf(*owner)), storage));
}

}  // namespace nodewise
