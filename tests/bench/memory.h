#pragma once

#include <cstddef>
#include <functional>

namespace nodewise {

inline constexpr size_t kMib = size_t{1} << 20;

// Makes blocks always use fresh pages, as in a program that does a thing once.
// Left alone, malloc learns from the first round to keep large blocks for the
// next.
void AlwaysFreshPages();

// How far the anonymous memory grows while `work` runs in a child of this
// process, after `prepare`. Something that is freed at once may be missed.
size_t GrowthInChild(const std::function<void()>& prepare,
                     const std::function<void()>& work);

// Returns the peak memory of this process, mapped files included.
size_t PeakBytes();

}  // namespace nodewise
