#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/module.h"

namespace nodewise {

// Plants a known fault into a compiled network, to see whether it is found:
// for demonstrations, and to measure how often those that look for faults are
// right. It shares no code with them.

// What was planted, for who judges the answer.
struct PlantedFault {
  NodeId node{};
  std::string name;   // The node's.
  double factor = 1;  // All outputs of the node that are floats are this times
                      // what they should be.
};

// A compiled network with a fault in it. Nodes, names and functions are those
// of the sound one; an attribute tells the library which node to spoil.
struct PlantedGraph {
  Graph graph;
  Ref<Library> library;
  PlantedFault fault;
};

// Plants a fault of the kind `scale` into one node of a graph that runs with
// any library: a factor between 0.98 and 0.99, or 1.01 and 1.02, as a wrong
// constant or a dropped term in a kernel makes. One seed always chooses the
// same node and factor. Nodes without a float among their outputs, and those
// that compute nothing (__nop, __copy), are left out. Fails with
// kInvalidArgument if there is no other node.
//
// The library keeps the one that is given. Neither the new graph nor the new
// library should be used without the other.
absl::StatusOr<PlantedGraph> PlantScale(Graph graph, Ref<Library> library,
                                        uint64_t seed);

}  // namespace nodewise
