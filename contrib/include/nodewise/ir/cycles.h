#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace nodewise {

// Returns cycles among items that wait for each other: makers[i] are the items
// that item i waits for. Each cycle begins with its lowest number and has
// makers before users. No cycle is returned twice, and those that share items
// with one that is returned may be missing; none is returned only if there is
// none. At most `most`, since each costs a walk.
std::vector<std::vector<uint32_t>> FindCycles(
    std::vector<std::vector<uint32_t>> makers, size_t most);

// "a -> b -> a", cut in the middle if there are very many. Names come from
// files, so they are shortened.
std::string PathText(absl::Span<const std::string> names);

}  // namespace nodewise
