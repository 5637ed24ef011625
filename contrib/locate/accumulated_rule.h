#pragma once

#include "dlpack/dlpack.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Returns the tolerance for errors that have come through a whole network: that
// of the shortest float type in it, since a float32 behind a float16 is no
// better than that.
Tolerance AccumulatedTolerance(const Graph& graph);

// Returns how a tensor of this type is compared then; integers by their type.
CompareOptions AccumulatedOptions(Tolerance tolerance, DLDataType dtype);

}  // namespace nodewise
