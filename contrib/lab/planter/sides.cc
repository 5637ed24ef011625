#include "contrib/lab/planter/sides.h"

#include <algorithm>
#include <cmath>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {

std::vector<OutputSide> SidesOf(const FaultPlace& place, RandomSource& random) {
  std::vector<OutputSide> sides, first;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const absl::Span<const int64_t> shape = place.sound.outputs[slot].shape();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 2) continue;
      const OutputSide side{slot, static_cast<int>(i),
                            Product(shape.subspan(0, i)), shape[i],
                            Product(shape.subspan(i + 1))};
      if (side.count() == 0) continue;
      (i == 0 && shape.size() > 1 ? first : sides).push_back(side);
    }
  }
  if (sides.empty()) sides = first;
  Shuffle(&sides, random);
  return sides;
}

double LargestOf(const NDArray& tensor) {
  double largest = 0;
  for (const double value : ToDoubles(tensor)) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

}  // namespace nodewise
