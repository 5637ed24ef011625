#pragma once

#include <string>
#include <vector>

#include "nodewise/lower/region.h"

namespace nodewise {

// What the tensors of a node are to its operator: "X", "W", "Y".
struct NodeRoles {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// Returns the names that operators give the inputs and outputs of a region: an
// input has that of the first operation that reads it. Where several have one
// name, a number follows: "B", "B_2". `region` may be null: then they are
// called "In" and "Out". The counts are the node's.
NodeRoles RolesOf(const Region* region, size_t num_inputs, size_t num_outputs);

}  // namespace nodewise
