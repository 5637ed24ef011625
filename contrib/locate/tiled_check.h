#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// What a layer read and made alone, and what the reference makes of it.
struct AloneOutput {
  const Network& region;
  absl::Span<const NDArray> read;  // By the region's inputs.
  const NDArray& expected;
  const NDArray& made;
};

// Returns whether bounds for all elements at once would take more memory than
// they may, so that they are better computed in pieces.
bool NeedsTiles(const Network& region, const NDArray& expected);

// Compares the one output of a layer with the reference's by the bounds on its
// rounding errors, as CheckNodes() does, but with the bounds of one piece in
// memory at a time. Returns none if the region cannot be cut (FindTileCut).
absl::StatusOr<std::optional<TensorComparison>> CheckInTiles(
    const std::string& node, const AloneOutput& output);

}  // namespace nodewise
