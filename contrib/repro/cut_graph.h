#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Several nodes of a graph that are cut out together.
struct GraphCut {
  std::vector<NodeId> nodes;  // That compute, in the order of the graph.
  // The entries that the nodes read of each other. Everything else that they
  // read is an input of the new graph, one for each node and input.
  std::vector<EntryId> linked = {};
  // The entries that lie in one place where their storage ids are equal; all
  // others have memory of their own.
  std::vector<EntryId> shared = {};
  std::vector<EntryId> heads = {};  // The outputs.
};

// Something that a node of the cut reads.
struct CutInput {
  NodeId node{};
  uint32_t slot = 0;
};

struct GraphOfCut {
  Graph graph;
  // What its inputs are, in their order: first those of the last node.
  std::vector<CutInput> inputs;
};

// Makes the graph; nodes have their own names, inputs those of `name_of`, which
// are all different. Fails as reading it back does.
absl::StatusOr<GraphOfCut> CutNodes(
    const Graph& graph, const GraphCut& cut,
    absl::FunctionRef<std::string(const CutInput& input)> name_of);

// Runs the network once and keeps what these nodes read, by input. Fails as the
// run, and with kNotFound if it does not hand one out.
absl::StatusOr<std::map<NodeId, std::vector<NDArray>>> ReadsOf(
    const GraphIndex& index, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs);

// Names what nodes read, after their roles, each differently.
class InputNames {
 public:
  // The source must outlive it.
  explicit InputNames(const ReproSource& source) : source_(source) {}

  // Returns an input without a tensor.
  ReproInput Describe(const CutInput& input);

 private:
  const ReproSource& source_;
  std::map<std::string, int> uses_;
};

}  // namespace nodewise
