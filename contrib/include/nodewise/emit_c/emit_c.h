#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Writes the functions of a lowered graph as C, so that a C compiler makes the
// library that a graph JSON of TVM's needs (docs/emit_c.md).

struct EmittedC {
  // One file of C99 that includes nothing but C's own headers. It has a packed
  // function of TVM's for each kind of node; nodes that compute the same thing
  // with tensors of the same types share one.
  std::string source;
  // The graph that names these functions and claims none that is built in.
  Graph graph;
};

// `graph` is one of Lower()'s, whose nodes say what they compute; `ops` has the
// operators that they use. Fails with kUnimplemented, naming every operation
// that there is no C for and why, or as RegionOf() does.
absl::StatusOr<EmittedC> EmitC(const Graph& graph, const OpSet& ops);

// Returns the maker "C", which says of every operation of a region whether
// there is C for it, as EmitC() will. Its plans make no kernels.
std::shared_ptr<const KernelMaker> CKernels();

// Writes the functions of many such graphs as one file, since a C compiler
// takes longer to begin than for most graphs, and makes each graph name its own
// functions there. Fails as EmitC(); then the graphs are as they were.
absl::StatusOr<std::string> EmitTogether(absl::Span<Graph* const> graphs,
                                         const OpSet& ops);

// How to compile the file, for texts: names nothing of the model.
inline constexpr std::string_view kHowToCompileC =
    "cc -O2 -shared -fPIC lib.c -o lib.so -lm";

}  // namespace nodewise
