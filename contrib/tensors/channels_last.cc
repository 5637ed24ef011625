#include "nodewise/tensors/channels_last.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"

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

template <typename Sides>
void MoveSide(bool to_last, Sides* sides) {
  std::rotate(sides->begin() + 1,
              to_last ? sides->begin() + 2 : sides->end() - 1, sides->end());
}

std::vector<int64_t> SidesTo(bool to_last, int rank) {
  std::vector<int64_t> sides(static_cast<size_t>(rank));
  std::iota(sides.begin(), sides.end(), 0);
  MoveSide(to_last, &sides);
  return sides;
}

// To move side 1 behind the others is to transpose a matrix for each index of
// side 0: its rows are the channels and its columns all other places together.
// The way back is the transpose of that.
absl::StatusOr<NDArray> MoveChannels(const DLTensor& tensor, bool to_last) {
  if (tensor.ndim < 3) {
    return InvalidArgument(
        "has {} sides, expected 3 at least, of which one are its channels",
        tensor.ndim);
  }
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  MoveSide(to_last, &shape);
  NODEWISE_ASSIGN_OR_RETURN(NDArray moved,
                            NDArray::Empty(shape, tensor.dtype, kCpu));
  const int64_t channels = to_last ? shape.back() : shape[1];
  int64_t others = 1;
  for (size_t i = 1; i < shape.size(); ++i) others *= shape[i];
  // An empty tensor has nothing to move, and the division below would fail.
  if (channels == 0 || others == 0) return moved;
  others /= channels;
  Exchange(static_cast<const char*>(tensor.data) + tensor.byte_offset, shape[0],
           to_last ? channels : others, to_last ? others : channels,
           ElementBytes(tensor.dtype), static_cast<char*>(moved.data()));
  return moved;
}

// Hands out the tensors of a source in the order of the model. What is known of
// a tensor's bytes, its hash and its statistics, does not hold for those of the
// moved one.
class ModelOrderSource : public TensorSource {
 public:
  explicit ModelOrderSource(std::unique_ptr<TensorSource> source)
      : source_(std::move(source)) {}

  const std::string& name() const override { return source_->name(); }
  absl::Status Visit(TensorSink& sink) override {
    return VisitEach(*source_, [&](const TensorItem& item) -> absl::Status {
      if (!item.has_channels_last) return sink.Consume(item);
      TensorItem moved = item;
      moved.has_channels_last = false;
      moved.hash.reset();
      moved.stats = nullptr;
      if (item.tensor == nullptr) return sink.Consume(moved);
      NODEWISE_ASSIGN_OR_RETURN(const NDArray kept, item.Keep());
      auto tensor = CopyToChannelsFirst(*kept);
      if (!tensor.ok()) return At(item.key.Name(), tensor.status());
      moved.lasting = *tensor;
      moved.tensor = tensor->tensor();
      return sink.Consume(moved);
    });
  }
  absl::Status CheckComplete() override { return source_->CheckComplete(); }

 private:
  const std::unique_ptr<TensorSource> source_;
};

// The graph says of each output of a node whether it is laid out otherwise than
// the model has it.
bool IsMoved(const GraphIndex& index, EntryId entry) {
  return HasChannelsLast(
      index.graph(), {Index(index.NodeOf(entry)), index.OutputOf(entry), 0});
}

}  // namespace

// With one channel, or one place for each, both orders are the same bytes.
bool HasLayouts(const TensorType& type) {
  const auto sizes = type.sizes();
  if (!sizes || sizes->size() < 3 || (*sizes)[1] == 1) return false;
  return std::any_of(sizes->begin() + 2, sizes->end(),
                     [](int64_t size) { return size != 1; });
}

TensorType WithChannelsLast(const TensorType& type) {
  TensorType moved = type;
  MoveSide(/*to_last=*/true, &*moved.shape);
  return moved;
}

std::vector<int64_t> SidesToChannelsLast(int rank) {
  return SidesTo(/*to_last=*/true, rank);
}

std::vector<int64_t> SidesToChannelsFirst(int rank) {
  return SidesTo(/*to_last=*/false, rank);
}

absl::StatusOr<NDArray> CopyToChannelsLast(const DLTensor& tensor) {
  return MoveChannels(tensor, /*to_last=*/true);
}

absl::StatusOr<NDArray> CopyToChannelsFirst(const DLTensor& tensor) {
  return MoveChannels(tensor, /*to_last=*/false);
}

std::unique_ptr<TensorSource> InModelOrder(
    std::unique_ptr<TensorSource> source) {
  // Files say nothing of layouts, and what is found again there need not be
  // kept.
  if (IsRereadable(*source)) return source;
  return std::make_unique<ModelOrderSource>(std::move(source));
}

absl::StatusOr<NDArray> InModelOrder(const GraphIndex& index, EntryId entry,
                                     const NDArray& tensor) {
  if (!IsMoved(index, entry)) return tensor;
  return CopyToChannelsFirst(*tensor);
}

absl::StatusOr<NDArray> InStoredOrder(const GraphIndex& index, EntryId entry,
                                      const NDArray& tensor) {
  if (!IsMoved(index, entry)) return tensor;
  return CopyToChannelsLast(*tensor);
}

}  // namespace nodewise
