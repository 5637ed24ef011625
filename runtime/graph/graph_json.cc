#include "nodewise/graph/graph_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "runtime/graph/graph_reader.h"

namespace nodewise {
namespace {

void AddCountDiagnostic(const Graph& graph, const char* path, size_t found,
                        size_t wanted, DiagnosticList* diagnostics) {
  diagnostics->Add({Severity::kError, graph.text.name, path, 0, 0,
                    fmt::format("{} items", found),
                    fmt::format("{} (one per node output)", wanted), ""});
}

// Joins the lists of the attributes into entries, if they agree on how many
// entries there are.
bool AssembleEntries(GraphLists lists, Graph* graph,
                     DiagnosticList* diagnostics) {
  if (!lists.has_shapes || !lists.has_dtypes || !lists.has_storage_ids) {
    return false;  // They are reported as missing keys.
  }
  // Lists that agree with the nodes or with node_row_ptr are not to blame:
  // CheckGraph holds those two against each other.
  uint64_t count = 0;
  for (const GraphNode& node : graph->nodes) count += node.num_outputs;
  if (!graph->node_row_ptr.empty() &&
      graph->node_row_ptr.back() == lists.shapes.size()) {
    count = lists.shapes.size();
  }
  bool agree = true;
  const auto check = [&](const char* path, bool present, size_t found) {
    if (!present || found == count) return;
    AddCountDiagnostic(*graph, path, found, count, diagnostics);
    agree = false;
  };
  check("/attrs/shape/1", true, lists.shapes.size());
  check("/attrs/dltype/1", true, lists.dtypes.size());
  check("/attrs/storage_id/1", true, lists.storage_ids.size());
  check("/attrs/device_index/1", lists.has_device_types,
        lists.device_types.size());
  check("/attrs/storage_scope/1", lists.has_scopes, lists.scopes.size());
  if (!agree) return false;
  graph->entries.resize(count);
  graph->has_device_index = lists.has_device_types;
  graph->storage_scopes = std::move(lists.scopes);
  for (size_t i = 0; i < count; ++i) {
    GraphEntry& entry = graph->entries[i];
    entry.shape = std::move(lists.shapes[i]);
    entry.dtype = lists.dtypes[i];
    // Out of range becomes -1, which CheckGraph reports with its place.
    const auto narrow = [](int64_t value) {
      return value >= 0 && value <= INT32_MAX ? static_cast<int32_t>(value)
                                              : -1;
    };
    entry.storage_id = narrow(lists.storage_ids[i]);
    if (lists.has_device_types) {
      entry.device_type = narrow(lists.device_types[i]);
    }
  }
  return true;
}

// Checks the graph. A count that the reader could not take has been reported
// already, so the 0 in its place is not reported again.
void AddGraphFaults(const Graph& graph, DiagnosticList* found) {
  std::unordered_set<std::string> unread;
  for (const Diagnostic& diagnostic : found->items()) {
    std::string path = diagnostic.path;
    const size_t attr = path.find("/attr/");
    if (attr != std::string::npos) path.replace(attr, 6, "/attrs/");
    if (path.ends_with("/num_inputs") || path.ends_with("/num_outputs")) {
      unread.insert(std::move(path));
    }
  }
  DiagnosticList faults;
  CheckGraph(graph, &faults);
  for (Diagnostic& fault : faults.items()) {
    if (!unread.contains(fault.path)) found->Add(std::move(fault));
  }
}

}  // namespace

GraphText GraphText::FromString(std::string name, std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {std::move(name), *owner, owner};
}

absl::StatusOr<GraphText> GraphText::FromFile(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto owner = std::make_shared<const MappedFile>(std::move(file));
  return GraphText{path, owner->text(), owner};
}

NodeId Graph::NodeOf(EntryId id) const {
  // The last row that begins at or before the entry; rows of nodes without
  // outputs are empty.
  const auto row =
      std::upper_bound(node_row_ptr.begin(), node_row_ptr.end(), Index(id));
  return NodeId{static_cast<uint32_t>(row - node_row_ptr.begin() - 1)};
}

std::string NodeTitle(const Graph& graph, NodeId node) {
  return fmt::format("node {} ({})", Index(node), graph.node(node).name);
}

bool ParseGraph(GraphText text, Graph* graph, DiagnosticList* diagnostics) {
  *graph = Graph();
  graph->text = std::move(text);
  const WorkingOn on(graph->text.name);
  GraphLists lists;
  DiagnosticList found;  // Earlier findings do not make this graph unsound.
  if (ReadGraphJson(graph->text, graph, &lists, &found) &&
      AssembleEntries(std::move(lists), graph, &found)) {
    AddGraphFaults(*graph, &found);
  }
  LocateDiagnostics(graph->text, &found);
  const bool sound = !found.HasErrors();
  for (Diagnostic& diagnostic : found.items()) {
    diagnostics->Add(std::move(diagnostic));
  }
  return sound;
}

absl::StatusOr<Graph> ParseGraph(GraphText text) {
  Graph graph;
  DiagnosticList diagnostics;
  if (ParseGraph(std::move(text), &graph, &diagnostics)) return graph;
  return diagnostics.ToStatus();
}

absl::Status GraphError(const Graph& graph, std::string path, std::string found,
                        std::string expected, std::string hint) {
  DiagnosticList diagnostics;
  diagnostics.Add({Severity::kError, graph.text.name, std::move(path), 0, 0,
                   std::move(found), std::move(expected), std::move(hint)});
  LocateDiagnostics(graph.text, &diagnostics);
  return diagnostics.ToStatus();
}

}  // namespace nodewise
