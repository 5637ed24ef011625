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
#include "nodewise/lower/region.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// The parts that the tensors of a node play for its operator: "X", "W", "Y".
struct NodeRoles {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// Returns the names that operators give the inputs and outputs of a region: an
// input has that of the first operation that reads it. Where several have one
// name, a number follows: "B", "B_2". `region` may be null: then they are
// called "In" and "Out". The counts are the node's.
NodeRoles RolesOf(const Region* region, size_t num_inputs, size_t num_outputs);

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

// Returns a case that has no more than its node's names and the library.
ReproCase CaseOf(const ReproSource& source, NodeId node);

// Makes the graph: its inputs are those of the last node, then the others'.
// Nodes have their own names, inputs those of `name_of`, which are all
// different and are asked for in that order. Fails as reading the graph back
// does.
absl::StatusOr<Graph> CutNodes(
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

  // Return an input without a tensor; `roles` are those of its node.
  ReproInput Describe(const CutInput& input);
  ReproInput Describe(const CutInput& input, const NodeRoles& roles);

 private:
  const ReproSource& source_;
  std::map<std::string, int> uses_;
};

}  // namespace nodewise
