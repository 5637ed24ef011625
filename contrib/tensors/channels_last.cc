#include "nodewise/tensors/channels_last.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Exchanges rows and columns of each of `count` matrices.
void Exchange(const char* from, int64_t count, int64_t rows, int64_t columns,
              size_t element, char* to) {
  const size_t row = static_cast<size_t>(columns) * element;
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t c = 0; c < columns; ++c) {
      const char* at = from + static_cast<size_t>(c) * element;
      for (int64_t r = 0; r < rows; ++r, at += row, to += element) {
        std::memcpy(to, at, element);
      }
    }
    from += static_cast<size_t>(rows) * row;
  }
}

absl::StatusOr<NDArray> MoveChannels(const DLTensor& tensor, bool to_last) {
  if (tensor.ndim < 3) {
    return absl::InvalidArgumentError(
        fmt::format("has {} sides, expected 3 at least, of which one are its "
                    "channels",
                    tensor.ndim));
  }
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  if (to_last) {
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  } else {
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray moved,
                            NDArray::Empty(shape, tensor.dtype, kCpu));
  const int64_t channels = to_last ? shape.back() : shape[1];
  int64_t others = 1;
  for (size_t i = 1; i < shape.size(); ++i) others *= shape[i];
  if (channels == 0 || others == 0) return moved;
  others /= channels;
  Exchange(static_cast<const char*>(tensor.data) + tensor.byte_offset, shape[0],
           to_last ? channels : others, to_last ? others : channels,
           ElementBytes(tensor.dtype), static_cast<char*>(moved.data()));
  return moved;
}

}  // namespace

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

absl::StatusOr<NDArray> CopyToChannelsLast(const DLTensor& tensor) {
  return MoveChannels(tensor, true);
}

absl::StatusOr<NDArray> CopyToChannelsFirst(const DLTensor& tensor) {
  return MoveChannels(tensor, false);
}

}  // namespace nodewise
