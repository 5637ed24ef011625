#include "nodewise/runner/patch_file.h"

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns the names that an entry may have in a file: its node's, the one that
// `run --until` writes, and the one in a dump.
std::vector<std::string> NamesOf(const Graph& graph, EntryId entry) {
  const NodeId node = graph.NodeOf(entry);
  const uint32_t output = Index(entry) - Index(graph.EntryOf(node, 0));
  const std::string key = NodeKeys(graph)[Index(node)];
  std::vector<std::string> names = {
      fmt::format("{}:{}", key, output),
      DumpKeyOf(graph.node(node).name, node, output)};
  if (output == 0) names.insert(names.begin(), key);
  return names;
}

}  // namespace

absl::StatusOr<TensorPatch> ReadPatch(const Graph& graph,
                                      const std::string& entry,
                                      const std::string& file,
                                      const std::string& where) {
  const auto found = FindEntry(graph, entry);
  if (!found.ok()) return At(where, found.status());
  auto tensor = ReadOneTensor(file, NamesOf(graph, *found));
  if (!tensor.ok()) return At(where, tensor.status());
  return TensorPatch{entry, *std::move(tensor), file, where};
}

}  // namespace nodewise
