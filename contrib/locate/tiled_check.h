#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A region can be computed in pieces where its output, cut along one side,
// depends on its inputs cut along one side each, or whole.

struct TileCut {
  size_t side = 0;                            // A side of the output.
  std::vector<std::optional<size_t>> inputs;  // None: whole.
};

// Returns a cut into as many pieces as are wanted, or as many as there can be;
// none if the region has several outputs, operators of which it is not known
// what depends on what, or sizes that are not known.
std::optional<TileCut> FindTileCut(const Network& region, int64_t pieces);

// Returns a copy of the part from `begin` to `end` along a side. REQUIRES: the
// tensor is compact, in host memory and has that side.
absl::StatusOr<NDArray> CutOut(const NDArray& tensor, size_t side,
                               int64_t begin, int64_t end);

// A layer alone: what it read and made, and what the reference makes of it.
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
