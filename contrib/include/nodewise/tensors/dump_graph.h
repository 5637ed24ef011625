#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Returns the graph that a dump's folder was made by (kSourceGraphFile). Fails
// with kNotFound if the dump has none, as ParseGraph(), and with kDataLoss if
// it is not that of the run.
absl::StatusOr<Graph> GraphOfDump(const std::string& folder);

}  // namespace nodewise
