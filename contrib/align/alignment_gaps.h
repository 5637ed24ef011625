#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/align/alignment.h"

namespace nodewise {

// Fills AlignedEntry::between in, and the matches of entries that hold what an
// operation makes without an optional input. The other matches are there. Fails
// as reading back what was recorded does.
absl::Status CloseGaps(const GraphIndex& index, const Network& network,
                       absl::Span<const RecordedPair> pairs,
                       Alignment* alignment);

}  // namespace nodewise
