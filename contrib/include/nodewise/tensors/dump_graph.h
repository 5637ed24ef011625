#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// A complete dump of a run, and the graph that ran.
struct DumpedRun {
  std::unique_ptr<TensorSource> source;
  Graph graph;
};

// Opens the dump as OpenDump() does. Fails as that, with kDataLoss if it is cut
// short or its graph (kSourceGraphFile) is not that of the run, with kNotFound
// if it has no graph, and as ParseGraph().
absl::StatusOr<DumpedRun> OpenDumpedRun(const std::string& path);

}  // namespace nodewise
