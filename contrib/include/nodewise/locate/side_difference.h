#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"

namespace nodewise {

// The cheapest culprits: what differs between two sides before anything runs.

// A compiled network: a graph and its parameters.
struct NetworkSide {
  const Graph& graph;
  const Params& params;
};

struct SideDifference {
  enum class What {
    kInput,      // An input that only one side has, or of another type.
    kParameter,  // A parameter that only one side has, or of other contents.
    kNode,       // A node that only one side has, that reads something else,
                 // makes something else or says that it computes something
                 // else.
  };
  What what = What::kNode;
  std::string name;   // The key of the node, in the candidate where it has it.
  std::string found;  // In the candidate.
  std::string expected;  // In the reference.
};
// Returns "input", "parameter" or "node".
std::string_view NameOf(SideDifference::What what);

// Returns how the candidate differs from the reference, node by node in the
// order of the reference, then what only the candidate has. Nodes are paired by
// their keys. Parameters count as they are and by how much they differ; how
// nodes are stored and what their functions are called makes no difference.
std::vector<SideDifference> CompareSides(const NetworkSide& reference,
                                         const NetworkSide& candidate);

}  // namespace nodewise
