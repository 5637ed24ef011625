#include "nodewise/tensors/channels_last.h"

#include <algorithm>
#include <numeric>

namespace nodewise {

bool HasLayouts(const TensorType& type) {
  const auto sizes = type.sizes();
  if (!sizes.has_value() || sizes->size() < 3 || (*sizes)[1] == 1) return false;
  return std::any_of(sizes->begin() + 2, sizes->end(),
                     [](int64_t size) { return size != 1; });
}

TensorType WithChannelsLast(const TensorType& type) {
  TensorType moved = type;
  auto& shape = *moved.shape;
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return moved;
}

std::vector<int64_t> SidesToChannelsLast(int rank) {
  std::vector<int64_t> sides(static_cast<size_t>(rank));
  std::iota(sides.begin(), sides.end(), 0);
  std::rotate(sides.begin() + 1, sides.begin() + 2, sides.end());
  return sides;
}

std::vector<int64_t> SidesToChannelsFirst(int rank) {
  std::vector<int64_t> sides(static_cast<size_t>(rank));
  std::iota(sides.begin(), sides.end(), 0);
  std::rotate(sides.begin() + 1, sides.end() - 1, sides.end());
  return sides;
}

}  // namespace nodewise
