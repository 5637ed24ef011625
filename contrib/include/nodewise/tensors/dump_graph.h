#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// A complete dump of a run, and the graph that ran.
struct DumpedRun {
  std::unique_ptr<TensorSource> source;
  Graph graph;
  // How nodes left the floating-point environment changed, in their order.
  std::vector<std::pair<NodeId, FloatChange>> floats = {};
};

// Opens the dump as OpenDump() does. Fails as that, with kDataLoss if it is cut
// short or its graph (kSourceGraphFile) is not that of the run, with kNotFound
// if it has no graph, and as ParseGraph(). The source fails with kDataLoss at a
// tensor of another shape or type than the graph says.
absl::StatusOr<DumpedRun> OpenDumpedRun(const std::string& path);

// Returns the graph of a dump, to look at its nodes, not to run them: a dump of
// TVM's debugger has it as the debugger has rewritten it (ParseDumpedGraph()).
// Fails as OpenDump(), with kNotFound if it has no graph, and as ParseGraph().
absl::StatusOr<Graph> GraphOfDump(const std::string& path);

}  // namespace nodewise
