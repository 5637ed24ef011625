#include "runtime/artefact/count_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace nodewise {
namespace {

bool IsCountFault(const Diagnostic& diagnostic) {
  return diagnostic.path.starts_with("/nodes/") &&
         (diagnostic.path.ends_with("/num_inputs") ||
          diagnostic.path.ends_with("/num_outputs"));
}

// Gives each function node as many inputs and outputs as the lists have. The
// rows count only if they agree with the lists of entries.
void CorrectCounts(Graph* graph) {
  const auto& rows = graph->node_row_ptr;
  const bool rows_are_right = rows.size() == graph->nodes.size() + 1 &&
                              rows[0] == 0 &&
                              rows.back() == graph->entries.size() &&
                              std::is_sorted(rows.begin(), rows.end());
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    GraphNode& node = graph->nodes[n];
    if (node.kind == GraphNode::Kind::kInput) continue;
    node.num_inputs = static_cast<uint32_t>(node.inputs.size());
    if (rows_are_right) node.num_outputs = rows[n + 1] - rows[n];
  }
}

// Checks the corrected graph and adds what the lies kept from being found.
// Returns whether it is sound.
bool CheckAgain(const Graph& graph, DiagnosticList* found) {
  std::set<std::pair<std::string, std::string>> known;
  for (const Diagnostic& diagnostic : found->items()) {
    known.emplace(diagnostic.path, diagnostic.found);
  }
  DiagnosticList more;
  CheckGraph(graph, &more);
  LocateDiagnostics(graph.text, &more);
  const bool is_sound =
      !more.HasErrors() &&
      std::all_of(found->items().begin(), found->items().end(),
                  [](const Diagnostic& diagnostic) {
                    return diagnostic.severity != Severity::kError ||
                           IsCountFault(diagnostic);
                  });
  for (Diagnostic& diagnostic : more.items()) {
    if (known.contains({diagnostic.path, diagnostic.found})) continue;
    found->Add(std::move(diagnostic));
  }
  return is_sound;
}

}  // namespace

bool ParseGraphBesideCounts(GraphText text, Graph* graph,
                            DiagnosticList* diagnostics) {
  DiagnosticList found;
  bool is_sound = ParseGraph(std::move(text), graph, &found);
  // Without entries the graph's lists are at odds, and none of them can be
  // trusted.
  if (!is_sound && !graph->entries.empty() &&
      std::any_of(found.items().begin(), found.items().end(), &IsCountFault)) {
    CorrectCounts(graph);
    is_sound = CheckAgain(*graph, &found);
  }
  for (Diagnostic& diagnostic : found.items()) {
    diagnostics->Add(std::move(diagnostic));
  }
  return is_sound;
}

}  // namespace nodewise
