#pragma once

#include <cstddef>
#include <functional>

namespace nodewise {

inline constexpr size_t kMib = size_t{1} << 20;

// A program does a thing once, into pages that it has never touched. Left
// alone, malloc learns from the first round to keep large blocks for the next.
void AlwaysFreshPages();

// How far the anonymous memory grows while `work` runs in a child of this
// process, after `prepare`. Something that is freed at once may be missed.
size_t GrowthInChild(const std::function<void()>& prepare,
                     const std::function<void()>& work);

// The most memory that this process has ever had, files that it maps included.
size_t PeakBytes();

}  // namespace nodewise
