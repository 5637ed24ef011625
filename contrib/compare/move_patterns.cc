// Patterns of right elements in wrong places.

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "contrib/compare/tensor_pair.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// How many elements are tried before all are.
constexpr size_t kTried = 512;
// The share of wrong elements that a move must explain, and how many that are
// at least.
constexpr double kMustExplain = 0.95;
constexpr uint64_t kLeastExplained = 8;
// More axes have too many orders.
constexpr size_t kMostAxes = 4;

// Where what stands at a place comes from; none if it is from outside.
using Origin = std::function<std::optional<size_t>(size_t)>;

// How many wrong elements a move explains.
struct Explained {
  uint64_t wrong = 0, right = 0;

  bool IsEnough(uint64_t least) const {
    return right >= least && static_cast<double>(right) >=
                                 kMustExplain * static_cast<double>(wrong);
  }
};

Explained Try(const TensorPair& pair, const Origin& origin, size_t step) {
  Explained explained;
  for (size_t i = 0; i < pair.elements(); i += step) {
    const double y = pair.Actual(i);
    if (!pair.IsWrong(pair.Expected(i), y)) continue;
    const auto from = origin(i);
    if (!from.has_value()) continue;
    ++explained.wrong;
    if (!pair.IsWrong(pair.Expected(*from), y)) ++explained.right;
  }
  return explained;
}

// A few elements refute most moves.
bool Explains(const TensorPair& pair, const Origin& origin) {
  // An odd step does not fall in with the sizes of axes.
  const size_t step = pair.elements() / kTried | 1;
  const Explained sample = Try(pair, origin, step);
  const bool may_be = step == 1 ? sample.IsEnough(kLeastExplained)
                                : sample.IsEnough(sample.wrong / 2);
  if (!may_be || step == 1) return may_be;
  return Try(pair, origin, 1).IsEnough(kLeastExplained);
}

// The axes in the order in which the elements lie there, if `order` is not
// that of the tensor. The result has the tensor's shape all the same.
Origin OriginOfOrder(absl::Span<const int64_t> shape,
                     const std::vector<size_t>& order) {
  const std::vector<size_t> strides = StridesOf(shape);
  return [=, sides = std::vector<int64_t>(shape.begin(), shape.end())](
             size_t place) -> std::optional<size_t> {
    size_t from = 0;
    for (size_t k = order.size(); k-- > 0;) {
      const auto side = static_cast<size_t>(sides[order[k]]);
      from += place % side * strides[order[k]];
      place /= side;
    }
    return from;
  };
}

void AddTransposed(const TensorPair& pair, DifferenceDetails* details) {
  const size_t rank = pair.shape().size();
  if (rank < 2 || rank > kMostAxes) return;
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  while (std::next_permutation(order.begin(), order.end())) {
    // Axes of size 1 make orders that are the same.
    if (!Explains(pair, OriginOfOrder(pair.shape(), order))) continue;
    details->patterns.push_back(
        {FailureShape::kTransposed,
         fmt::format("what is expected, with the axes in the order {}",
                     fmt::join(order, ", "))});
    return;
  }
}

// Channels of a picture as BGR and not RGB, say.
Origin OriginOfReverse(size_t stride, size_t side) {
  return [=](size_t place) -> std::optional<size_t> {
    const size_t at = place / stride % side;
    return place - at * stride + (side - 1 - at) * stride;
  };
}

void AddReversed(const TensorPair& pair, DifferenceDetails* details) {
  const std::vector<size_t> strides = StridesOf(pair.shape());
  for (size_t axis = 0; axis < pair.shape().size(); ++axis) {
    const auto side = static_cast<size_t>(pair.shape()[axis]);
    if (side < 2 || !Explains(pair, OriginOfReverse(strides[axis], side))) {
      continue;
    }
    details->patterns.push_back(
        {FailureShape::kReversed,
         fmt::format("what is expected, in reverse order along axis {}",
                     axis)});
    return;
  }
}

Origin OriginOfShift(size_t stride, size_t side, bool is_forward) {
  return [=](size_t place) -> std::optional<size_t> {
    const size_t at = place / stride % side;
    if (at == (is_forward ? 0 : side - 1)) return std::nullopt;
    return is_forward ? place - stride : place + stride;
  };
}

void AddShifted(const TensorPair& pair, DifferenceDetails* details) {
  const std::vector<size_t> strides = StridesOf(pair.shape());
  for (size_t axis = pair.shape().size(); axis-- > 0;) {
    const auto side = static_cast<size_t>(pair.shape()[axis]);
    for (const bool is_forward : {true, false}) {
      if (side < 2) continue;
      const Origin origin = OriginOfShift(strides[axis], side, is_forward);
      if (!Explains(pair, origin)) continue;
      details->patterns.push_back(
          {FailureShape::kShifted,
           fmt::format("what is expected, one place {} along axis {}",
                       is_forward ? "further on" : "back", axis)});
      return;
    }
  }
}

}  // namespace

void AddMovePatterns(const TensorPair& pair, DifferenceDetails* details) {
  AddTransposed(pair, details);
  AddReversed(pair, details);
  AddShifted(pair, details);
}

}  // namespace nodewise
