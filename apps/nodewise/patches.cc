#include "apps/nodewise/patches.h"

#include <utility>

#include "apps/nodewise/input_options.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

struct EntryPatch {
  std::string name;  // The entry's name, as given.
  std::string file;
  EntryId entry{};
};

absl::StatusOr<EntryPatch> ParsePatch(const GraphIndex& index,
                                      const std::string& text) {
  // A node's name may hold "=", a file's rarely does.
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "--patch: found \"{}\", expected ENTRY=FILE, as in conv1:0=x.npy",
        text));
  }
  EntryPatch patch{text.substr(0, equals), text.substr(equals + 1)};
  const auto entry = index.FindEntry(patch.name);
  if (!entry.ok()) return At("--patch", entry.status());
  patch.entry = *entry;
  if (!patch.file.empty()) return patch;
  return absl::InvalidArgumentError(
      fmt::format("--patch: found \"{}\", expected a file behind the =", text));
}

// Returns the names that an entry may have in a file: its node's, the one that
// `run --until` writes, and the one in a dump.
std::vector<std::string> NamesOf(const GraphIndex& index, EntryId entry) {
  const NodeId node = index.NodeOf(entry);
  const uint32_t output = index.OutputOf(entry);
  std::vector<std::string> names = {
      index.KeyOf(entry),
      DumpKeyOf(index.graph().node(node).name, node, output)};
  if (output == 0) names.insert(names.begin(), index.KeyOf(node));
  return names;
}

absl::Status RefuseBoth(const EntryPatch& patch, const EntryPatch& other) {
  if (patch.entry == other.entry) {
    return absl::InvalidArgumentError(fmt::format(
        "--patch: {}: entry {}: is given twice, expected once ({} has it too)",
        patch.file, patch.name, other.file));
  }
  return absl::InvalidArgumentError(fmt::format(
      "--patch: {}: entry {}: shares its memory with {}, which {} is for, "
      "expected one of the two",
      patch.file, patch.name, other.name, other.file));
}

// A __nop's output is its input's memory, which changes with it.
void NoteSharing(const EntryPatch& patch, const DebugExecutor& executor,
                 Outcome* outcome) {
  const GraphIndex& index = executor.index();
  if (index.IsBase(patch.entry)) return;
  std::vector<std::string> names;
  for (uint32_t e = 0; e < index.graph().entries.size(); ++e) {
    const EntryId entry{e};
    if (entry == patch.entry) continue;
    if (index.BaseOf(entry) != index.BaseOf(patch.entry)) continue;
    names.push_back(NamesOf(index, entry)[0]);
  }
  outcome->notes.push_back(fmt::format(
      "--patch: entry {} shares its memory with {} (patched with it)",
      patch.name, ListOf(names, 8)));
}

absl::Status ApplyPatch(const EntryPatch& patch, DebugExecutor* executor) {
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray tensor,
      ReadOneTensor(patch.file, NamesOf(executor->index(), patch.entry)));
  return executor->Patch(patch.entry, *tensor);
}

}  // namespace

absl::Status ApplyPatches(const std::vector<std::string>& patches,
                          DebugExecutor* executor, Outcome* outcome) {
  const GraphIndex& index = executor->index();
  std::vector<EntryPatch> applied;
  for (const std::string& text : patches) {
    NODEWISE_ASSIGN_OR_RETURN(EntryPatch patch, ParsePatch(index, text));
    for (const EntryPatch& other : applied) {
      if (index.BaseOf(other.entry) == index.BaseOf(patch.entry)) {
        return RefuseBoth(patch, other);
      }
    }
    NODEWISE_RETURN_IF_ERROR(At("--patch", ApplyPatch(patch, executor)));
    NoteSharing(patch, *executor, outcome);
    applied.push_back(std::move(patch));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
