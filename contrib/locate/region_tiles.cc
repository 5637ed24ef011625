#include "contrib/locate/region_tiles.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "nodewise/ir/elementwise.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/gemm.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/slice.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status_macros.h"

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

// Follows a cut of the output back to the inputs.
class CutFollower {
 public:
  explicit CutFollower(const Network& network) : network_(network) {}

  // Returns whether a value can be cut along that side; none: it is whole.
  bool Follow(ValueId id, std::optional<size_t> side) {
    if (id == kNoValue) return true;
    const auto [known, is_new] = cuts_.emplace(id, side);
    if (!is_new) return known->second == side;
    const NetworkValue& value = network_.value(id);
    if (value.kind == NetworkValue::Kind::kInput) return true;
    if (value.kind == NetworkValue::Kind::kConstant) return !side.has_value();
    const Operation& operation = network_.operation(value.producer);
    if (side.has_value()) return FollowOperation(operation, *side);
    return std::all_of(
        operation.inputs.begin(), operation.inputs.end(),
        [this](ValueId input) { return Follow(input, std::nullopt); });
  }

  std::optional<size_t> CutOf(ValueId id) const {
    const auto known = cuts_.find(id);
    return known == cuts_.end() ? std::nullopt : known->second;
  }

 private:
  size_t RankOf(ValueId id) const {
    return network_.value(id).type.shape->size();
  }

  // An input that is repeated as broadcasting says.
  bool FollowBroadcast(ValueId id, size_t side, size_t rank) {
    if (id == kNoValue) return true;
    const size_t missing = rank - std::min(rank, RankOf(id));
    if (side < missing) return Follow(id, std::nullopt);
    const Dim& size = (*network_.value(id).type.shape)[side - missing];
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
    const bool is_pool = operation.kind().ends_with("Pool");
    if (is_pool && side <= 1) return Follow(operation.inputs[0], side);
    return false;
  }

  bool FollowAll(const Operation& operation, size_t side, size_t rank) {
    return std::all_of(
        operation.inputs.begin(), operation.inputs.end(),
        [&](ValueId input) { return FollowBroadcast(input, side, rank); });
  }

  bool FollowElements(const Operation& operation, size_t side) {
    const size_t rank = RankOf(operation.outputs[0]);
    const bool has_channels = operation.kind() == "BatchNormalization";
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const ValueId input = operation.inputs[i];
      bool can = false;
      if (has_channels && i > 0) {
        can =
            Follow(input, side == 1 ? std::optional<size_t>(0) : std::nullopt);
      } else {
        can = FollowBroadcast(input, side, rank);
      }
      if (!can) return false;
    }
    return true;
  }

  // Side 0 is the batch, side 1 the channels that the weights make.
  bool FollowConv(const Operation& operation, int64_t group, size_t side) {
    if (side > 1 || (side == 1 && group != 1)) return false;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const bool is_cut = (i == 0) == (side == 0);
      if (!Follow(operation.inputs[i],
                  is_cut ? std::optional<size_t>(0) : std::nullopt)) {
        return false;
      }
    }
    return true;
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

  const Network& network_;
  std::map<ValueId, std::optional<size_t>> cuts_;
};

bool AllSizesAreKnown(const Network& network) {
  return std::all_of(network.data().values.begin(), network.data().values.end(),
                     [](const auto& value) {
                       return !value.has_value() ||
                              value->kind == NetworkValue::Kind::kBarrier ||
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
    if (sizes[side] < 2) continue;
    if (best.has_value() && sizes[side] <= sizes[best->side]) continue;
    CutFollower follower(region);
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
  const size_t row = tensor.bytes() / rows;
  const size_t one = row / static_cast<size_t>(shape[side]);
  const size_t size = one * static_cast<size_t>(end - begin);
  const char* const from = tensor.As<char>() + one * static_cast<size_t>(begin);
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(cut.As<char>() + i * size, from + i * row, size);
  }
  return cut;
}

}  // namespace nodewise
