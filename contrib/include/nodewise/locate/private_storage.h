#pragma once

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Returns the graph with memory of its own for each tensor, so that no node
// writes over what another one made. The output of a __nop stays its input's
// tensor, and what the graph is given stays where it is. A network that is
// wrong as it was compiled and right like this has a fault in its storage plan.
Graph WithPrivateStorage(Graph graph);

}  // namespace nodewise
