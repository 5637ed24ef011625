#include "contrib/runner/graph_patches.h"

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

struct FoundPatch {
  const TensorPatch* patch;
  EntryId entry;
};

absl::Status RefuseBoth(const FoundPatch& patch, const FoundPatch& other) {
  if (patch.entry == other.entry) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: entry {}: is given twice, expected once ({} has it too)",
        patch.patch->from, patch.patch->entry, other.patch->from));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: entry {}: shares its memory with {}, which {} is for, expected one "
      "of the two",
      patch.patch->from, patch.patch->entry, other.patch->entry,
      other.patch->from));
}

// A __nop's output is its input's memory, which changes with it.
void NoteSharing(const FoundPatch& patch, const DebugExecutor& executor,
                 std::vector<std::string>* notes) {
  const std::vector<uint32_t>& bases = executor.plan().base_of;
  const uint32_t base = bases[Index(patch.entry)];
  if (base == Index(patch.entry)) return;
  const GraphIndex& index = executor.index();
  std::vector<std::string> names;
  for (uint32_t entry = 0; entry < bases.size(); ++entry) {
    if (bases[entry] != base || entry == Index(patch.entry)) continue;
    const EntryId other{entry};
    names.push_back(index.OutputOf(other) == 0
                        ? index.KeyOf(index.NodeOf(other))
                        : index.KeyOf(other));
  }
  notes->push_back(
      fmt::format("{}: entry {} shares its memory with {} (patched with it)",
                  patch.patch->where, patch.patch->entry, ListOf(names, 8)));
}

}  // namespace

absl::Status ApplyPatches(absl::Span<const TensorPatch> patches,
                          DebugExecutor* executor,
                          std::vector<std::string>* notes) {
  const std::vector<uint32_t>& bases = executor->plan().base_of;
  std::vector<FoundPatch> applied;
  for (const TensorPatch& patch : patches) {
    const auto entry = executor->index().FindEntry(patch.entry);
    if (!entry.ok()) return At(patch.where, entry.status());
    const FoundPatch found{&patch, *entry};
    for (const FoundPatch& other : applied) {
      if (bases[Index(other.entry)] == bases[Index(found.entry)]) {
        return At(patch.where, RefuseBoth(found, other));
      }
    }
    NODEWISE_RETURN_IF_ERROR(
        At(patch.where, executor->Patch(found.entry, *patch.tensor)));
    NoteSharing(found, *executor, notes);
    applied.push_back(found);
  }
  return absl::OkStatus();
}

}  // namespace nodewise
