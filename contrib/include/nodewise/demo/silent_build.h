#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network.h"
#include "nodewise/module/module.h"

namespace nodewise {

// A network as another compiler would have left it: nodes are called fused_0,
// fused_1, ..., and neither they nor the names of their functions say what they
// compute.

struct SilentBuild {
  Graph graph;
  Ref<Library> library;  // Null for one that is to be compiled.
  std::string source;    // Then what: one file of C.
};

// Withholds what the nodes of a lowered graph say. The library still knows it
// and hands out the functions by their new names.
SilentBuild MakeSilentBuild(Graph graph, Ref<Library> library);

// Does so with the functions written as C. `graph` is one of Lower()'s. Fails
// as EmitC().
absl::StatusOr<SilentBuild> SilencedC(const Graph& graph, const OpSet& ops);

}  // namespace nodewise
