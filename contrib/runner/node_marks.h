#pragma once

#include <string_view>

#include "nodewise/graph/graph_index.h"
#include "nodewise/module/module.h"

namespace nodewise {

// A library is asked for functions by the nodes' attributes, and is not told
// which node asks. So graphs that are run with a library that must know have
// the key of each node among its attributes, in memory alone.

// Gives each function node its GraphIndex::KeyOf(). A mark that is there
// already is replaced.
Graph WithNodeMarks(const GraphIndex& index);

// Returns the key of the node that asks; empty if its graph has no marks. Valid
// while the request is.
std::string_view MarkedNode(const KernelRequest& request);

}  // namespace nodewise
