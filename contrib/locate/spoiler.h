#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Looks for an earlier node whose running makes another one fail, or compute
// something else of the same inputs: by what it leaves in the process, where no
// check looks (a table of the library, say). Returns none if the suspect does
// the same where no node has run before it, or if its runs do not agree.
//
// The candidate runs twice for each halving of the earlier nodes. It must have
// the capabilities kTensors, kNodeInputs, kPatches and kSteps; fails as its
// runs do if they fail elsewhere than in the suspect.
absl::StatusOr<std::optional<NodeId>> FindSpoiler(
    const GraphIndex& index, Runner& candidate,
    const std::vector<NamedTensor>& inputs, NodeId suspect,
    int64_t node_limit_ms);

// Does the same, and returns the failure of the node that is found, which
// FailureOf() knows; OK if there is none, or nothing is known. `does` is what
// the suspect does: "fail".
absl::Status BlameSpoiler(const GraphIndex& index, Runner& candidate,
                          const std::vector<NamedTensor>& inputs,
                          NodeId suspect, std::string_view does,
                          int64_t node_limit_ms);

}  // namespace nodewise
