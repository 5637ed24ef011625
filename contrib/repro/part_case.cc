#include "nodewise/repro/part_case.h"

#include <algorithm>
#include <utility>

#include "contrib/repro/cut_graph.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<PartCase> CutPart(
    const ReproSource& source, const PartOfGraph& part,
    absl::FunctionRef<absl::StatusOr<NDArray>(EntryId entry)> tensor_of,
    absl::FunctionRef<bool(EntryId entry)> is_constant) {
  const Graph& graph = source.index.graph();
  GraphCut cut{part.nodes};
  for (const NodeId node : part.nodes) {
    for (const EntryRef& ref : graph.node(node).inputs) {
      const bool is_inside = std::find(part.nodes.begin(), part.nodes.end(),
                                       NodeId{ref.node}) != part.nodes.end();
      if (is_inside) cut.linked.push_back(graph.EntryOf(ref));
    }
  }
  cut.heads = {part.head};
  PartCase made;
  ReproCase& node_case = made.node_case;
  node_case.node = source.index.KeyOf(part.nodes.back());
  node_case.layer = PlainName(node_case.node);
  node_case.library = source.library;
  node_case.library_file = source.library_file;
  InputNames names(source);
  const auto name_of = [&](const CutInput& input) {
    const EntryId entry =
        graph.EntryOf(graph.node(input.node).inputs[input.slot]);
    made.reads.push_back(entry);
    ReproInput described = names.Describe(input);
    described.is_param = is_constant(entry);
    node_case.inputs.push_back(std::move(described));
    return node_case.inputs.back().name;
  };
  NODEWISE_ASSIGN_OR_RETURN(GraphOfCut alone, CutNodes(graph, cut, name_of));
  node_case.graph = std::move(alone.graph);
  for (size_t i = 0; i < made.reads.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(node_case.inputs[i].tensor,
                              tensor_of(made.reads[i]));
  }
  node_case.outputs.push_back({"Out", NDArray()});
  return made;
}

}  // namespace nodewise
