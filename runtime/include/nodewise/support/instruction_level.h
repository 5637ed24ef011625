#pragma once

#include <algorithm>

#include "absl/types/span.h"

namespace nodewise {

// Returns the first level that this machine can run. The levels are the same
// loops compiled for several instruction sets, from the best to one that runs
// everywhere. A Level has
//   bool (*works_here)();
template <typename Level>
const Level* FirstThatWorks(absl::Span<const Level> levels) {
  return std::find_if(levels.begin(), levels.end(),
                      [](const Level& level) { return level.works_here(); });
}

}  // namespace nodewise
