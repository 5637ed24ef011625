#include "nodewise/runner/patch_file.h"

#include <utility>
#include <vector>

#include "nodewise/dump/dump.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

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

}  // namespace

absl::StatusOr<TensorPatch> ReadPatch(const GraphIndex& index,
                                      const std::string& entry,
                                      const std::string& file,
                                      const std::string& where) {
  const auto found = index.FindEntry(entry);
  if (!found.ok()) return At(where, found.status());
  auto tensor = ReadOneTensor(file, NamesOf(index, *found));
  if (!tensor.ok()) return At(where, tensor.status());
  auto stored = InStoredOrder(index, *found, *tensor);
  if (!stored.ok()) return At(where, At(file, stored.status()));
  return TensorPatch{entry, *std::move(stored), file, where};
}

}  // namespace nodewise
