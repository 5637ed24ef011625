#include "contrib/locate/tiled_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "contrib/locate/output_error.h"
#include "nodewise/compare/bounds.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Sides from the first to the last, both among them.
struct Sides {
  size_t first;
  size_t last;

  bool contains(size_t side) const { return first <= side && side <= last; }
};

// Returns the sides along which elements depend on each other, of operators
// whose elements depend on nothing else of their first input; none for others.
std::optional<Sides> MixedSidesOf(const Operation& operation, size_t rank) {
  if (rank == 0) return std::nullopt;
  const auto side_of = [rank](int64_t axis) {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank)
                                        : axis);
  };
  const auto one = [&](int64_t axis) {
    return Sides{side_of(axis), side_of(axis)};
  };
  const auto from = [&](int64_t axis) {
    return Sides{side_of(axis), rank - 1};
  };
  const OpAttrs& attrs = operation.attrs;
  // Since opset 13, Softmax and its like run along one side; before, along all
  // sides from the axis on, as normalisations of layers do.
  if (attrs.As<ops::LRN>() != nullptr) return one(1);
  if (const auto* op = attrs.As<ops::Softmax>()) return one(op->axis);
  if (const auto* op = attrs.As<ops::LogSoftmax>()) return one(op->axis);
  if (const auto* op = attrs.As<ops::Hardmax>()) return one(op->axis);
  if (const auto* op = attrs.As<ops::Softmax1>()) return from(op->axis);
  if (const auto* op = attrs.As<ops::LogSoftmax1>()) return from(op->axis);
  if (const auto* op = attrs.As<ops::Hardmax1>()) return from(op->axis);
  if (const auto* op = attrs.As<ops::LayerNormalization>()) {
    return from(op->axis);
  }
  if (const auto* op = attrs.As<ops::RMSNormalization>()) return from(op->axis);
  if (const auto* op = attrs.As<ops::LpNormalization>()) return one(op->axis);
  return std::nullopt;
}

// Follows a cut of the output back to the inputs. Each operator says along
// which side of its inputs the cut goes on, or that it needs them whole; a
// value that is reached twice must be cut in the same way both times. What is
// not known to be computed piece by piece cannot be cut at all: a wrong piece
// would accuse a right kernel.
struct CutFollower {
  const Network& network;
  std::map<ValueId, std::optional<size_t>> cuts = {};

  // Returns whether a value can be cut along that side; none: it is whole.
  bool Follow(ValueId id, std::optional<size_t> side) {
    if (id == kNoValue) return true;
    const auto [known, is_new] = cuts.emplace(id, side);
    if (!is_new) return known->second == side;
    const NetworkValue& value = network.value(id);
    if (value.kind == NetworkValue::Kind::kInput) return true;
    if (value.kind == NetworkValue::Kind::kConstant) return !side.has_value();
    const Operation& operation = network.operation(value.producer);
    if (side.has_value()) return FollowOperation(operation, *side);
    return std::ranges::all_of(operation.inputs, [this](ValueId input) {
      return Follow(input, std::nullopt);
    });
  }

  std::optional<size_t> CutOf(ValueId id) const {
    const auto known = cuts.find(id);
    return known == cuts.end() ? std::nullopt : known->second;
  }

  size_t RankOf(ValueId id) const {
    return network.value(id).type.shape->size();
  }

  // An input that is repeated as broadcasting says.
  bool FollowBroadcast(ValueId id, size_t side, size_t rank) {
    if (id == kNoValue) return true;
    // Sides are counted from the last one; those that are missing or of size 1
    // are the same for every place of the output.
    const size_t missing = rank - std::min(rank, RankOf(id));
    if (side < missing) return Follow(id, std::nullopt);
    const Dim& size = (*network.value(id).type.shape)[side - missing];
    if (size == Dim(1)) return Follow(id, std::nullopt);
    return Follow(id, side - missing);
  }

  bool FollowOperation(const Operation& operation, size_t side) {
    if (operation.outputs.size() != 1 || !operation.def().domain.empty()) {
      return false;
    }
    if (IsElementwise(operation)) return FollowElements(operation, side);
    if (const auto* move = operation.attrs.As<ops::Transpose>()) {
      const size_t rank = RankOf(operation.outputs[0]);
      const size_t from = move->perm.empty()
                              ? rank - 1 - side
                              : static_cast<size_t>(move->perm[side]);
      return Follow(operation.inputs[0], from);
    }
    if (const auto* conv = operation.attrs.As<ops::Conv>()) {
      return FollowConv(operation, conv->group, side);
    }
    if (const auto* gemm = operation.attrs.As<ops::Gemm>()) {
      return FollowGemm(operation, *gemm, side);
    }
    if (operation.kind() == "MatMul") return FollowProduct(operation, side);
    const size_t rank = RankOf(operation.outputs[0]);
    if (const auto mixed = MixedSidesOf(operation, rank)) {
      return !mixed->contains(side) && FollowAll(operation, side, rank);
    }
    // Windows of pools lie along the later sides: the batch and the channels
    // are each by themselves.
    const bool is_pool = operation.kind().ends_with("Pool");
    if (is_pool && side <= 1) return Follow(operation.inputs[0], side);
    return false;
  }

  bool FollowAll(const Operation& operation, size_t side, size_t rank) {
    return std::ranges::all_of(operation.inputs, [&](ValueId input) {
      return FollowBroadcast(input, side, rank);
    });
  }

  bool FollowElements(const Operation& operation, size_t side) {
    const size_t rank = RankOf(operation.outputs[0]);
    if (operation.kind() != "BatchNormalization") {
      return FollowAll(operation, side, rank);
    }
    // All inputs of a BatchNormalization but the first have one number for each
    // channel.
    const auto channel = side == 1 ? std::optional<size_t>(0) : std::nullopt;
    return FollowBroadcast(operation.inputs[0], side, rank) &&
           std::all_of(operation.inputs.begin() + 1, operation.inputs.end(),
                       [&](ValueId input) { return Follow(input, channel); });
  }

  // Side 0 is the batch, side 1 the channels that the weights make.
  bool FollowConv(const Operation& operation, int64_t group, size_t side) {
    if (side > 1 || (side == 1 && group != 1)) return false;
    const auto cut = [&](bool is_cut) {
      return is_cut ? std::optional<size_t>(0) : std::nullopt;
    };
    return Follow(operation.inputs[0], cut(side == 0)) &&
           std::all_of(
               operation.inputs.begin() + 1, operation.inputs.end(),
               [&](ValueId input) { return Follow(input, cut(side == 1)); });
  }

  bool FollowGemm(const Operation& operation, const ops::Gemm& gemm,
                  size_t side) {
    const std::optional<size_t> a(gemm.transA ? 1 : 0);
    const std::optional<size_t> b(gemm.transB ? 0 : 1);
    return Follow(operation.inputs[0], side == 0 ? a : std::nullopt) &&
           Follow(operation.inputs[1], side == 1 ? b : std::nullopt) &&
           (operation.inputs.size() < 3 ||
            FollowBroadcast(operation.inputs[2], side, 2));
  }

  bool FollowProduct(const Operation& operation, size_t side) {
    const ValueId a = operation.inputs[0], b = operation.inputs[1];
    const size_t rank = RankOf(operation.outputs[0]);
    // The last two sides are rows of the first and columns of the second
    // factor; those before them are batches, which broadcast.
    const size_t rank_a = RankOf(a), rank_b = RankOf(b);
    if (rank_a < 2 || rank_b < 2) return false;
    if (side + 2 == rank) {
      return Follow(a, rank_a - 2) && Follow(b, std::nullopt);
    }
    if (side + 1 == rank) {
      return Follow(a, std::nullopt) && Follow(b, rank_b - 1);
    }
    return FollowBroadcast(a, side, rank) && FollowBroadcast(b, side, rank);
  }
};

bool AllSizesAreKnown(const Network& network) {
  return std::ranges::all_of(network.data().values, [](const auto& value) {
    return !value.has_value() || value->kind == NetworkValue::Kind::kBarrier ||
           value->type.is_static();
  });
}

}  // namespace

std::optional<TileCut> FindTileCut(const Network& region, int64_t pieces) {
  if (region.outputs().size() != 1 || !AllSizesAreKnown(region)) {
    return std::nullopt;
  }
  const ValueId output = region.outputs()[0];
  const auto sizes = *region.value(output).type.sizes();
  std::optional<TileCut> best;
  for (size_t side = 0; side < sizes.size(); ++side) {
    // The longest side is taken, unless an earlier one has enough places.
    if (sizes[side] < 2) continue;
    if (best.has_value() && sizes[side] <= sizes[best->side]) continue;
    CutFollower follower{region};
    if (!follower.Follow(output, side)) continue;
    best = TileCut{side, {}};
    for (const ValueId input : region.inputs()) {
      best->inputs.push_back(follower.CutOf(input));
    }
    if (sizes[side] >= pieces) break;
  }
  return best;
}

absl::StatusOr<NDArray> CutOut(const NDArray& tensor, size_t side,
                               int64_t begin, int64_t end) {
  const auto shape = tensor.shape();
  std::vector<int64_t> part(shape.begin(), shape.end());
  part[side] = end - begin;
  NODEWISE_ASSIGN_OR_RETURN(NDArray cut,
                            NDArray::Empty(part, tensor.dtype(), kCpu));
  size_t rows = 1;
  for (size_t i = 0; i < side; ++i) rows *= static_cast<size_t>(shape[i]);
  if (rows == 0 || tensor.bytes() == 0) return cut;
  // All that has the same places in the sides before this one is a row, of
  // which one piece is copied.
  const size_t row = tensor.bytes() / rows;
  const size_t one = row / static_cast<size_t>(shape[side]);
  const size_t size = one * static_cast<size_t>(end - begin);
  const char* const from = tensor.As<char>() + one * static_cast<size_t>(begin);
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(cut.As<char>() + i * size, from + i * row, size);
  }
  return cut;
}

namespace {

// The bytes that are held for each element and operation: the tensor, its two
// bounds, and the numbers at the ends of its range.
constexpr uint64_t kBytesOfElement = 64;
// A comparison in little memory is asked for where there is little: bounds of a
// large layer would take many times what its tensors do.
constexpr uint64_t kMostBoundBytes = uint64_t{4} << 20;

uint64_t BytesOfBounds(const Network& region, const NDArray& expected) {
  const uint64_t width = std::max<size_t>(1, ElementBytes(expected.dtype()));
  return expected.bytes() / width * kBytesOfElement *
         std::max<size_t>(1, region.order().size());
}

// Joins what the pieces say as if all had been looked at at once: counts add
// up, norms do so by their squares, and the worst element is the worst of all,
// with its place in the whole tensor.
struct BoundJoiner {
  const absl::Span<const int64_t> shape;
  const size_t side;
  bool has_worst = false;
  double aligned = 0, spread = 0;
  BoundCheck joined = {};

  void Add(const BoundedTensor& expected, const NDArray& made, int64_t begin) {
    const Tolerance fallback =
        ToleranceOf({Rule::Kind::kByType}, expected.tensor.dtype());
    BoundCheck piece =
        CheckBounds(*expected.tensor, *made, expected.bounds.proved,
                    expected.bounds.expected, fallback);
    joined.outside += piece.outside;
    joined.unexpected += piece.unexpected;
    joined.without_bound += piece.without_bound;
    joined.outside_fallback += piece.outside_fallback;
    joined.open_nans += piece.open_nans;
    joined.open_infinities += piece.open_infinities;
    joined.allowed_norm = std::hypot(joined.allowed_norm, piece.allowed_norm);
    AddAlignment(expected, made);
    const bool differs = piece.worst.error > 0;
    if (!differs) return;
    // A ratio of NaN says that no bound has decided yet, and any bound goes
    // before that.
    const bool is_worse =
        !has_worst || std::isnan(joined.ratio) || piece.ratio > joined.ratio;
    if (!is_worse || (has_worst && std::isnan(piece.ratio))) return;
    has_worst = true;
    joined.worst = piece.worst;
    joined.worst.element =
        WholeIndex(piece.worst.element, expected.tensor.shape()[side], begin);
    joined.bound = piece.bound;
    joined.ratio = piece.ratio;
  }

  BoundCheck Finish() {
    const double root = std::sqrt(spread);
    if (root > 0) joined.alignment = std::fabs(aligned) / root;
    return joined;
  }

  uint64_t WholeIndex(uint64_t index, int64_t size, int64_t begin) const {
    uint64_t inner = 1;
    for (size_t i = side + 1; i < shape.size(); ++i) {
      inner *= static_cast<uint64_t>(shape[i]);
    }
    const auto piece = static_cast<uint64_t>(size);
    const uint64_t place = index / inner % piece;
    const uint64_t row = index / inner / piece;
    const auto whole = static_cast<uint64_t>(shape[side]);
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
      aligned += right[i] * (found[i] - right[i]);
      spread += right[i] * right[i] * likely[i] * likely[i];
    }
  }
};

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
  return BytesOfBounds(region, expected) > kMostBoundBytes;
}

absl::StatusOr<std::optional<TensorComparison>> CheckInTiles(
    const std::string& node, const AloneOutput& output) {
  NODEWISE_ASSIGN_OR_RETURN(
      TensorComparison compared,
      CompareNodeOutput(node, 0, output.expected, *output.made, {}));
  if (compared.is_equal()) return compared;
  const uint64_t bytes = BytesOfBounds(output.region, output.expected);
  // As many pieces as leave each of them within the memory, if they are of one
  // size.
  const auto pieces = static_cast<int64_t>((bytes - 1) / kMostBoundBytes + 1);
  const auto cut = FindTileCut(output.region, pieces);
  if (!cut.has_value()) return std::nullopt;
  const auto shape = output.expected.shape();
  const int64_t size = shape[cut->side];
  const int64_t step = (size - 1) / std::min(pieces, size) + 1;
  BoundJoiner joiner{shape, cut->side};
  for (int64_t begin = 0; begin < size; begin += step) {
    const int64_t end = std::min(begin + step, size);
    NODEWISE_ASSIGN_OR_RETURN(const BoundedTensor expected,
                              ComputePiece(output, *cut, begin, end));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made,
                              CutOut(output.made, cut->side, begin, end));
    joiner.Add(expected, made, begin);
  }
  compared.bounds = joiner.Finish();
  IgnoreOpenElements(*compared.bounds, &compared.metrics);
  compared.judgement = Judge({Rule::Kind::kBounds}, output.expected.dtype(),
                             compared.metrics, &*compared.bounds);
  return compared;
}

}  // namespace nodewise
