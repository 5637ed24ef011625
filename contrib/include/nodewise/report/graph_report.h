#pragma once

#include "nodewise/graph/graph_index.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// Adds what a picture needs of a graph as the document's `graph`: the nodes in
// their order, each with its key, its function ("" for an input) and the
// numbers of the nodes that it reads.
void AddGraph(const GraphIndex& index, JsonWriter* json);

}  // namespace nodewise
