#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace nodewise {

// Searches that ask few questions. Answers need not be monotone: what is found
// was asked about, and holds for that place.

// Returns a number for which `asks` says true, while it says false for the one
// before. REQUIRES: low < high; the answer for low is known to be false, and
// for high to be true. Asks about log2(high - low) times, always for the middle
// of what is left. An error ends the search and is returned as it is.
absl::StatusOr<size_t> FirstLeap(
    size_t low, size_t high,
    absl::FunctionRef<absl::StatusOr<bool>(size_t)> asks);

// Returns items, in their order, for which together `holds` says true, while it
// says false if any one of them is left out. REQUIRES: it holds for all of
// `items`, and does not for none of them. Asks about log2(items) times for each
// item that is returned.
absl::StatusOr<std::vector<size_t>> SmallestSet(
    const std::vector<size_t>& items,
    absl::FunctionRef<absl::StatusOr<bool>(const std::vector<size_t>&)> holds);

}  // namespace nodewise
