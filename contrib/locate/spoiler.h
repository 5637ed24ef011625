#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A node that fails or computes something wrong, and how the network runs.
struct Suspect {
  const GraphIndex& index;
  Runner& candidate;
  const std::vector<NamedTensor>& inputs;
  NodeId node;
  int64_t node_limit_ms;
};

// Looks for an earlier node whose running makes the suspect do that: by what it
// leaves in the process, where no check looks (a table of the library, say).
// Returns the failure of the node that is found, which FailureOf() knows; OK if
// there is none, nothing is known, the suspect does the same where no node has
// run before it, or its runs do not agree. `does` is what the suspect does:
// "fail".
//
// The candidate runs twice for each halving of the earlier nodes. Nothing is
// known unless it has the capabilities kTensors, kPatches and kSteps.
absl::Status BlameSpoiler(const Suspect& suspect, std::string_view does);

}  // namespace nodewise
