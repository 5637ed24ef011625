#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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

}  // namespace nodewise
