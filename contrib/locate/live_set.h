#pragma once

#include <cstdint>

#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"

namespace nodewise {

// Returns the bytes of the largest set of tensors that are alive at once in a
// run of the graph: while a node runs, what it reads and makes, and what a
// later node or the caller still reads. Parameters do not count. REQUIRES: the
// graph is sound (CheckGraph).
uint64_t LargestLiveSet(const Graph& graph, const Params& params);

}  // namespace nodewise
