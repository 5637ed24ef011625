#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What passes did to a model, in their order.
struct PassesReport {
  struct Ran {
    std::string pass;
    std::string text;  // Lines about operations; empty if it tells nothing.
    size_t operations = 0;  // In the network, after it.
  };
  std::vector<Ran> ran;
  std::vector<Finding> left;  // What they have cut off.
};

// Runs the passes of a list (nodewise/passes/pass_list.h). Fails as
// ParsePassList() and RunPasses() do.
absl::StatusOr<PassesReport> RunPassList(const std::string& list,
                                         Network* network);

}  // namespace nodewise
