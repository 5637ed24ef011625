#pragma once

#include <vector>

#include "absl/status/status.h"
#include "contrib/align/graph_walk.h"
#include "nodewise/align/value_locate.h"

namespace nodewise {

// Fills in what entries have received and passed on; all else is there. Fails
// as reading back what was recorded does.
absl::Status FillLedger(const WalkScene& scene,
                        std::vector<LocatedEntry>* entries);

}  // namespace nodewise
