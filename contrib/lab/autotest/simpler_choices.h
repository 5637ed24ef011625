#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/autotest/choices.h"

namespace nodewise {

// Returns sequences that are simpler than this one, those first that would make
// the greatest difference: parts left out, parts all zero, numbers made
// smaller. At most `most` of them.
std::vector<std::vector<uint64_t>> SimplerThan(
    absl::Span<const Choice> made, absl::Span<const ChoiceSpan> groups,
    size_t most);

// Returns whether a sequence is simpler: shorter, or of equal length and
// smaller at the first place where they differ.
bool IsSimpler(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b);

}  // namespace nodewise
