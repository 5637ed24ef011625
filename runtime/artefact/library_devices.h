#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nodewise/graph/graph_json.h"
#include "nodewise/module/library_summary.h"

namespace nodewise {

// A module of a library with code for a device.
struct DeviceModule {
  size_t number = 0;  // Among the library's modules.
  int device_type = 0;
};

// Returns the modules whose code a run of the graph calls, in file order. A
// module counts unless it is certain that nothing of it is called; without a
// graph, everything that the library's own code can call counts.
std::vector<DeviceModule> DeviceModulesUsed(const LibrarySummary& library,
                                            const Graph* graph);

}  // namespace nodewise
