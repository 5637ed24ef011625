#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/interp/rounding_chain.h"
#include "nodewise/interp/carried_bounds.h"

namespace nodewise {

// A chain in a network that has been run, with the tensors that it Needs().
struct ChainRun {
  const Network& network;
  const RoundingChain& chain;
  std::function<NDArray(ValueId)> tensor_of;
};

// Returns where these elements of the output are before they are moved, which
// is where the elements of the source are that they depend on. REQUIRES: the
// source has as many elements as the output.
std::vector<int64_t> PlacesBeforeMoves(const ChainRun& run,
                                       absl::Span<const int64_t> elements);

// Sums that are added up in another order differ by a tiny share: which way
// bounds are off by more than that.
enum class Lean { kSmaller, kLarger };

// Returns the bounds at these places: those that InterpretCarryingBounds() has
// for them where RoundingChain::stands_alone, but for that share, and no larger
// ones elsewhere; larger ones are unknown where those are, too. Evaluates
// nothing but these elements. None if they cannot be had alone. REQUIRES: as
// above; the places are in ascending order.
absl::StatusOr<std::optional<Bounds>> BoundsAtPlaces(
    const ChainRun& run, absl::Span<const int64_t> places, Lean lean);

}  // namespace nodewise
