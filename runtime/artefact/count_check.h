#pragma once

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Parses and checks a graph as ParseGraph() does, but a node's wrong num_inputs
// or num_outputs is only reported: the graph's lists say what they should be,
// and the graph has that. Returns whether nothing else is wrong with it.
bool ParseGraphBesideCounts(GraphText text, Graph* graph,
                            DiagnosticList* diagnostics);

}  // namespace nodewise
