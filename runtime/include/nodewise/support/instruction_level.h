#pragma once

#include <algorithm>

#include "absl/types/span.h"

namespace nodewise {

// Of the same loops compiled for several instruction sets, from the best to one
// that runs everywhere, the first that this machine can run. A Level has
//   bool (*works_here)();
template <typename Level>
const Level* FirstThatWorks(absl::Span<const Level> levels) {
  return std::find_if(levels.begin(), levels.end(),
                      [](const Level& level) { return level.works_here(); });
}

}  // namespace nodewise
