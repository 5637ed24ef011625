#include "contrib/locate/tiled_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/region_tiles.h"
#include "nodewise/compare/bounds.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The bytes that are held for each element and operation: the tensor, its two
// bounds, and the numbers at the ends of its range.
constexpr uint64_t kBytesOfElement = 64;
constexpr uint64_t kMostBytes = uint64_t{4} << 20;

uint64_t BytesOfBounds(const Network& region, const NDArray& expected) {
  const uint64_t width = std::max<size_t>(1, ElementBytes(expected.dtype()));
  return expected.bytes() / width * kBytesOfElement *
         std::max<size_t>(1, region.order().size());
}

// Joins what the pieces say as if all had been looked at at once.
class BoundJoiner {
 public:
  // `shape` is the whole tensor's.
  BoundJoiner(absl::Span<const int64_t> shape, size_t side)
      : shape_(shape), side_(side) {}

  void Add(const BoundedTensor& expected, const NDArray& made, int64_t begin) {
    const Tolerance fallback =
        ToleranceOf({Rule::Kind::kByType}, expected.tensor.dtype());
    BoundCheck piece =
        CheckBounds(*expected.tensor, *made, expected.bounds.proved,
                    expected.bounds.expected, fallback);
    joined_.outside += piece.outside;
    joined_.unexpected += piece.unexpected;
    joined_.without_bound += piece.without_bound;
    joined_.outside_fallback += piece.outside_fallback;
    joined_.open_nans += piece.open_nans;
    joined_.open_infinities += piece.open_infinities;
    joined_.allowed_norm = std::hypot(joined_.allowed_norm, piece.allowed_norm);
    AddAlignment(expected, made);
    const bool differs = piece.worst.error > 0;
    if (!differs) return;
    // Any bound decides before none does.
    const bool is_worse =
        !has_worst_ || std::isnan(joined_.ratio) || piece.ratio > joined_.ratio;
    if (!is_worse || (has_worst_ && std::isnan(piece.ratio))) return;
    has_worst_ = true;
    joined_.worst = piece.worst;
    joined_.worst.element =
        WholeIndex(piece.worst.element, expected.tensor.shape()[side_], begin);
    joined_.bound = piece.bound;
    joined_.ratio = piece.ratio;
  }

  BoundCheck Finish() {
    const double spread = std::sqrt(spread_);
    if (spread > 0) joined_.alignment = std::fabs(aligned_) / spread;
    return joined_;
  }

 private:
  uint64_t WholeIndex(uint64_t index, int64_t size, int64_t begin) const {
    uint64_t inner = 1;
    for (size_t i = side_ + 1; i < shape_.size(); ++i) {
      inner *= static_cast<uint64_t>(shape_[i]);
    }
    const auto piece = static_cast<uint64_t>(size);
    const uint64_t place = index / inner % piece;
    const uint64_t row = index / inner / piece;
    const auto whole = static_cast<uint64_t>(shape_[side_]);
    return (row * whole + place + static_cast<uint64_t>(begin)) * inner +
           index % inner;
  }

  // BoundCheck::alignment is a quotient of sums.
  void AddAlignment(const BoundedTensor& expected, const NDArray& made) {
    const std::vector<double> right = ToDoubles(expected.tensor);
    const std::vector<double> found = ToDoubles(made);
    const std::vector<double>& likely = expected.bounds.expected;
    for (size_t i = 0; i < right.size() && i < likely.size(); ++i) {
      if (!std::isfinite(right[i]) || !std::isfinite(found[i]) ||
          !std::isfinite(likely[i])) {
        continue;
      }
      aligned_ += right[i] * (found[i] - right[i]);
      spread_ += right[i] * right[i] * likely[i] * likely[i];
    }
  }

  const absl::Span<const int64_t> shape_;
  const size_t side_;
  bool has_worst_ = false;
  double aligned_ = 0, spread_ = 0;
  BoundCheck joined_;
};

// Sets the size of those sides of the inputs that are cut.
absl::Status SetCutSides(const std::vector<NDArray>& read, const TileCut& cut,
                         const Dim& size, Network* piece) {
  for (size_t i = 0; i < read.size(); ++i) {
    if (!cut.inputs[i].has_value()) continue;
    Shape shape(read[i].shape().begin(), read[i].shape().end());
    shape.at(*cut.inputs[i]) = size;
    NODEWISE_RETURN_IF_ERROR(piece->SetInputType(
        piece->inputs()[i], TensorType(read[i].dtype(), std::move(shape))));
  }
  return absl::OkStatus();
}

// Computes the reference, and its bounds, for one piece of the output.
absl::StatusOr<BoundedTensor> ComputePiece(const AloneOutput& output,
                                           const TileCut& cut, int64_t begin,
                                           int64_t end) {
  Network piece = output.region;
  std::vector<NDArray> read(output.read.begin(), output.read.end());
  // Sizes that several inputs must have in common would contradict each other
  // if they were changed one after the other, so that none is known meanwhile.
  NODEWISE_RETURN_IF_ERROR(SetCutSides(read, cut, Dim(), &piece));
  NODEWISE_RETURN_IF_ERROR(SetCutSides(read, cut, Dim(end - begin), &piece));
  for (size_t i = 0; i < read.size(); ++i) {
    if (!cut.inputs[i].has_value()) continue;
    NODEWISE_ASSIGN_OR_RETURN(read[i],
                              CutOut(read[i], *cut.inputs[i], begin, end));
  }
  NODEWISE_ASSIGN_OR_RETURN(std::vector<BoundedTensor> made,
                            InterpretCarryingBounds(piece, std::move(read)));
  return std::move(made[0]);
}

}  // namespace

bool NeedsTiles(const Network& region, const NDArray& expected) {
  return BytesOfBounds(region, expected) > kMostBytes;
}

absl::StatusOr<std::optional<TensorComparison>> CheckInTiles(
    const std::string& node, const AloneOutput& output) {
  NODEWISE_ASSIGN_OR_RETURN(
      TensorComparison compared,
      CompareLayerOutput(node, 0, output.expected, *output.made, {}));
  if (compared.is_equal()) return compared;
  const uint64_t bytes = BytesOfBounds(output.region, output.expected);
  const auto pieces = static_cast<int64_t>((bytes - 1) / kMostBytes + 1);
  const auto cut = FindTileCut(output.region, pieces);
  if (!cut.has_value()) return std::nullopt;
  const auto shape = output.expected.shape();
  const int64_t size = shape[cut->side];
  const int64_t step = (size - 1) / std::min(pieces, size) + 1;
  BoundJoiner joiner(shape, cut->side);
  for (int64_t begin = 0; begin < size; begin += step) {
    const int64_t end = std::min(begin + step, size);
    NODEWISE_ASSIGN_OR_RETURN(const BoundedTensor expected,
                              ComputePiece(output, *cut, begin, end));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made,
                              CutOut(output.made, cut->side, begin, end));
    joiner.Add(expected, made, begin);
  }
  compared.bounds = joiner.Finish();
  ExcuseOpenElements(*compared.bounds, &compared.metrics);
  compared.judgement = Judge({Rule::Kind::kBounds}, output.expected.dtype(),
                             compared.metrics, &*compared.bounds);
  return compared;
}

}  // namespace nodewise
