#include "contrib/interp/small_moves.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr int64_t kBlock = 1 << 14;

template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) == 2, uint16_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// Rounding may move it beyond the bound: then the number before that is nearer,
// and within, since the bound ends between the two. The bits of floats are in
// the order of their sizes.
template <typename T>
T MovedBy(T from, double bound, Direction direction) {
  const double x = ToDouble(from);
  const bool is_away = direction == Direction::kAwayFromZero;
  const double step = std::copysign(bound, is_away ? x : -x);
  const T moved = FromDouble<T>(x + step);
  if (!(std::fabs(ToDouble(moved) - x) > bound)) return moved;
  auto bits = std::bit_cast<BitsOf<T>>(moved);
  // A bound larger than the number takes it past zero.
  const bool is_past_zero = !is_away && (ToDouble(moved) > 0) != (x > 0);
  bits = static_cast<BitsOf<T>>(is_away || is_past_zero ? bits - 1 : bits + 1);
  const T nearer = std::bit_cast<T>(bits);
  return std::fabs(ToDouble(nearer) - x) <= bound ? nearer : from;
}

// HalfUlp() for loops over many numbers.
class HalfUlps {
 public:
  explicit HalfUlps(DLDataType dtype)
      : roundoff_(UnitRoundoff(dtype)), least_(HalfUlp(dtype, 0)) {}

  double Of(double x) const {
    constexpr uint64_t kExponent = 0x7FF0000000000000;
    const auto power =
        std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kExponent);
    return std::max(power * roundoff_, least_);
  }

 private:
  const double roundoff_;
  const double least_;  // Of subnormal numbers.
};

// What loops over many elements need of a Reach.
template <typename T>
class ReachOf {
 public:
  explicit ReachOf(const Reach& reach)
      : middle_(reach.middle.As<T>()),
        end_(reach.end.As<T>()),
        relative_(reach.own.roundoffs * UnitRoundoff(reach.middle.dtype())),
        own_half_ulps_(reach.own.half_ulps),
        half_ulps_(reach.middle.dtype()) {}

  bool IsBeyond(int64_t i, T actual) const {
    const double x = ToDouble(middle_[i]);
    const double y = ToDouble(actual);
    const double error = std::fabs(y - x);
    if (error <= std::fabs(ToDouble(end_[i]) - x)) return false;
    if (x == y || (std::isnan(x) && std::isnan(y))) return false;
    return !(error <=
             relative_ * std::fabs(x) + own_half_ulps_ * half_ulps_.Of(x));
  }

 private:
  const T* const middle_;
  const T* const end_;
  const double relative_;
  const double own_half_ulps_;
  const HalfUlps half_ulps_;
};

}  // namespace

absl::StatusOr<NDArray> MoveAll(const NDArray& tensor,
                                const LeastBounds& bounds,
                                Direction direction) {
  const DLDataType dtype = tensor.dtype();
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray moved,
      NDArray::Empty(tensor.shape(), tensor.dtype(), kCpu));
  const double relative = bounds.roundoffs * UnitRoundoff(dtype);
  const HalfUlps half_ulps(dtype);
  NODEWISE_RETURN_IF_ERROR(WithFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = tensor.As<T>();
    T* const to = moved.As<T>();
    ParallelFor(CountOf(tensor), 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double x = ToDouble(from[i]);
        // 0 is what it is, rounded or not.
        const double bound = x == 0 ? 0
                                    : relative * std::fabs(x) +
                                          bounds.half_ulps * half_ulps.Of(x);
        to[i] = MovedBy(from[i], bound, direction);
      }
    });
    return absl::OkStatus();
  }));
  return moved;
}

absl::StatusOr<NDArray> MoveFurther(const NDArray& middle, const NDArray& moved,
                                    const LeastBounds& own, double half_ulps) {
  const DLDataType dtype = middle.dtype();
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray further,
      NDArray::Empty(middle.shape(), middle.dtype(), kCpu));
  const double relative = own.roundoffs * UnitRoundoff(dtype);
  const HalfUlps ulps(dtype);
  NODEWISE_RETURN_IF_ERROR(WithFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    ParallelFor(CountOf(middle), 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T from = middle.As<T>()[i];
        const double x = ToDouble(from);
        const double distance = ToDouble(moved.As<T>()[i]) - x;
        const double least =
            relative * std::fabs(x) + own.half_ulps * ulps.Of(x);
        const double more = x == 0 ? 0 : half_ulps * ulps.Of(x);
        const bool is_away = distance == 0 || (distance > 0) == (x > 0);
        further.As<T>()[i] = MovedBy(
            from, std::max(std::fabs(distance), least) + more,
            is_away ? Direction::kAwayFromZero : Direction::kTowardsZero);
      }
    });
    return absl::OkStatus();
  }));
  return further;
}

namespace {

// The elements of which `is_beyond` of the number of one is true, in ascending
// order.
template <typename IsBeyond>
std::vector<int64_t> IndicesWhere(int64_t count, const IsBeyond& is_beyond) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(blocks));
  ParallelFor(blocks, kBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t stop = std::min(count, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < stop; ++i) {
        if (is_beyond(i)) found[static_cast<size_t>(block)].push_back(i);
      }
    }
  });
  std::vector<int64_t> elements;
  for (const auto& part : found) {
    elements.insert(elements.end(), part.begin(), part.end());
  }
  return elements;
}

}  // namespace

std::vector<int64_t> ElementsBeyond(const Reach& reach, const NDArray& actual) {
  std::vector<int64_t> found;
  (void)WithFloat(actual.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const ReachOf<T> beyond(reach);
    const T* const y = actual.As<T>();
    found = IndicesWhere(CountOf(actual),
                         [&](int64_t i) { return beyond.IsBeyond(i, y[i]); });
    return absl::OkStatus();
  });
  return found;
}

std::vector<int64_t> ElementsBeyond(const NDArray& middle,
                                    const UnboundedLimit& limit,
                                    const NDArray& actual) {
  std::vector<int64_t> found;
  (void)WithFloat(actual.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = middle.As<T>();
    const T* const to = actual.As<T>();
    found = IndicesWhere(CountOf(actual), [&](int64_t i) {
      const double x = ToDouble(from[i]);
      return std::fabs(ToDouble(to[i]) - x) >
             limit.absolute + limit.relative * std::fabs(x);
    });
    return absl::OkStatus();
  });
  return found;
}

}  // namespace nodewise
