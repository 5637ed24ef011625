#pragma once

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Gives the entries of a graph storage ids so that tensors share memory that
// are not needed at the same time. Inputs and parameters keep memory of their
// own, since they are set once for many runs, and so do outputs of the graph;
// no node writes where it reads.
// REQUIRES: the graph is sound, and every entry has a storage id of its own.
void ReuseStorage(Graph* graph);

}  // namespace nodewise
