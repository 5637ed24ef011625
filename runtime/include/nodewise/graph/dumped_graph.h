#pragma once

#include <string_view>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// The file of a dump that holds the graph's own text, byte for byte.
inline constexpr char kSourceGraphFile[] = "_nodewise_graph.json";

// The file of a dump that holds the graph as TVM's debugger rewrites it.
inline constexpr char kGraphDumpFile[] = "_tvmdbg_graph_dump.json";

// Returns whether a text is a graph as TVM's debugger rewrites it for a dump
// (kGraphDumpFile, docs/formats/dump.md).
bool LooksLikeDumpedGraph(std::string_view text);

// Checks such a text as ParseGraph() checks a graph, as far as it goes: it says
// which node an input comes from, by name, but not which output of it. An input
// is taken to be of the last node before with that name. Returns false if it is
// not sound; else `graph`, in which every input is an output 0, may be used to
// look at nodes, not to run them.
bool ParseDumpedGraph(const GraphText& text, Graph* graph,
                      DiagnosticList* diagnostics);

}  // namespace nodewise
