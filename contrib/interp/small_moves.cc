#include "contrib/interp/small_moves.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Threads take blocks of so many elements. Within one, a part is skipped as a
// whole where a loop that vectorises finds nothing in it.
constexpr int64_t kBlock = 1 << 14;
constexpr int64_t kPart = 256;

template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) == 2, uint16_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// Returns `from` moved by `step`. Rounding may move it further than that; then
// the next number back is within the step, which ends between the two. The bits
// of floats are in the order of their sizes.
template <typename T>
T MovedBy(T from, double step) {
  const double x = ToDouble(from);
  if (!std::isfinite(x)) return from;
  const double bound = std::fabs(step);
  const T moved = FromDouble<T>(x + step);
  if (std::fabs(ToDouble(moved) - x) <= bound) return moved;
  auto bits = std::bit_cast<BitsOf<T>>(moved);
  // The way back leads towards zero, unless the move did so itself and has not
  // passed zero.
  const bool is_back_to_zero =
      std::signbit(ToDouble(moved)) == std::signbit(step);
  bits = static_cast<BitsOf<T>>(is_back_to_zero ? bits - 1 : bits + 1);
  const T nearer = std::bit_cast<T>(bits);
  return std::fabs(ToDouble(nearer) - x) <= bound ? nearer : from;
}

// Moves a float, the type of most tensors, in a form that compilers vectorise.
// Cutting off the bits that a float does not have takes the number towards
// zero, and back to `from`; where it moves towards zero itself, they are filled
// up before. A number that would end up beyond anyway, since it is subnormal,
// infinite or past zero, does not move at all.
template <>
inline float MovedBy<float>(float from, double step) {
  constexpr int64_t kRest = (int64_t{1} << 29) - 1;
  const double x = from;
  const double there = x + step;
  const int64_t filled = std::fabs(there) < std::fabs(x) ? kRest : 0;
  const double cut =
      std::bit_cast<double>((std::bit_cast<int64_t>(there) + filled) & ~kRest);
  const auto moved = static_cast<float>(cut);
  return std::fabs(moved - x) <= std::fabs(step) ? moved : from;
}

// A Reach as loops over many elements need it.
template <typename T>
class ReachOf {
 public:
  explicit ReachOf(const Reach& reach)
      : middle_(reach.middle.As<T>()),
        end_(reach.end.As<T>()),
        relative_(reach.own.roundoffs * UnitRoundoff(reach.middle.dtype())),
        own_half_ulps_(reach.own.half_ulps),
        half_ulps_(reach.middle.dtype()) {}

  // Returns true only if none of these elements is beyond; false leaves it to
  // IsBeyond(). Nearly all are as near as the end, and this loop vectorises.
  bool AreNear(int64_t begin, int64_t end, const T* actual) const {
    int64_t near = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double x = ToDouble(middle_[i]);
      const double error = std::fabs(ToDouble(actual[i]) - x);
      near += error <= std::fabs(ToDouble(end_[i]) - x) ? 1 : 0;
    }
    return near == end - begin;
  }

  bool IsBeyond(int64_t i, T actual) const {
    const double x = ToDouble(middle_[i]);
    const double y = ToDouble(actual);
    const double error = std::fabs(y - x);
    if (error <= std::fabs(ToDouble(end_[i]) - x)) return false;
    if (x == y || (std::isnan(x) && std::isnan(y))) return false;
    return !(error <=
             relative_ * std::fabs(x) + own_half_ulps_ * half_ulps_(x));
  }

 private:
  const T* const middle_;
  const T* const end_;
  const double relative_;
  const double own_half_ulps_;
  const HalfUlps half_ulps_;
};

// How far each number may be off. A 0 is exact, rounded or not.
class BoundSizes {
 public:
  BoundSizes(DLDataType dtype, const LeastBounds& bounds)
      : relative_(bounds.roundoffs * UnitRoundoff(dtype)),
        count_(bounds.half_ulps),
        half_ulps_(dtype) {}

  double MoveOf(double x) const {
    const double size = relative_ * std::fabs(x) + count_ * half_ulps_(x);
    return x == 0 ? 0 : size;
  }

 private:
  const double relative_;
  const double count_;
  const HalfUlps half_ulps_;
};

// These loops stand by themselves, so that compilers vectorise them.
template <typename T>
void MoveSpan(const T* __restrict from, int64_t count, BoundSizes sizes,
              T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = ToDouble(from[i]);
    to[i] = MovedBy(from[i], std::copysign(sizes.MoveOf(x), x));
  }
}
template <typename T>
void MoveSpanFurther(const T* __restrict from, const T* __restrict via,
                     int64_t count, BoundSizes least, BoundSizes more,
                     T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = ToDouble(from[i]);
    const double distance = ToDouble(via[i]) - x;
    const double size =
        std::max(std::fabs(distance), least.MoveOf(x)) + more.MoveOf(x);
    to[i] = MovedBy(from[i], std::copysign(size, distance == 0 ? x : distance));
  }
}

}  // namespace

absl::StatusOr<NDArray> MoveAll(const NDArray& tensor,
                                const LeastBounds& bounds) {
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray moved,
      NDArray::Empty(tensor.shape(), tensor.dtype(), kCpu));
  const BoundSizes sizes(tensor.dtype(), bounds);
  NODEWISE_RETURN_IF_ERROR(WithFloat(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = tensor.As<T>();
    T* const to = moved.As<T>();
    ParallelFor(CountOf(tensor), 2, [&](int64_t begin, int64_t end) {
      MoveSpan(from + begin, end - begin, sizes, to + begin);
    });
  }));
  return moved;
}

absl::StatusOr<NDArray> MoveFurther(const NDArray& middle, const NDArray& moved,
                                    const LeastBounds& own, double half_ulps) {
  const DLDataType dtype = middle.dtype();
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray further,
      NDArray::Empty(middle.shape(), middle.dtype(), kCpu));
  const BoundSizes least(dtype, own);
  const BoundSizes more(dtype, {0, half_ulps});
  NODEWISE_RETURN_IF_ERROR(WithFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = middle.As<T>();
    const T* const via = moved.As<T>();
    T* const to = further.As<T>();
    ParallelFor(CountOf(middle), 3, [&](int64_t begin, int64_t end) {
      MoveSpanFurther(from + begin, via + begin, end - begin, least, more,
                      to + begin);
    });
  }));
  return further;
}

namespace {

// Returns, in ascending order, the numbers of the elements for which
// is_beyond(number) is true. are_near(begin, end) is true only if a part has
// none of them.
template <typename AreNear, typename IsBeyond>
std::vector<int64_t> IndicesWhere(int64_t count, const AreNear& are_near,
                                  const IsBeyond& is_beyond) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(blocks));
  ParallelFor(blocks, kBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t stop = std::min(count, (block + 1) * kBlock);
      for (int64_t part = block * kBlock; part < stop; part += kPart) {
        const int64_t end = std::min(stop, part + kPart);
        if (are_near(part, end)) continue;
        for (int64_t i = part; i < end; ++i) {
          if (is_beyond(i)) found[static_cast<size_t>(block)].push_back(i);
        }
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
    found = IndicesWhere(
        CountOf(actual),
        [&](int64_t begin, int64_t end) {
          return beyond.AreNear(begin, end, y);
        },
        [&](int64_t i) { return beyond.IsBeyond(i, y[i]); });
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
    const auto is_beyond = [&](int64_t i) {
      const double x = ToDouble(from[i]);
      return std::fabs(ToDouble(to[i]) - x) >
             limit.absolute + limit.relative * std::fabs(x);
    };
    const auto are_near = [&](int64_t begin, int64_t end) {
      int64_t beyond = 0;
      for (int64_t i = begin; i < end; ++i) beyond += is_beyond(i) ? 1 : 0;
      return beyond == 0;
    };
    found = IndicesWhere(CountOf(actual), are_near, is_beyond);
  });
  return found;
}

}  // namespace nodewise
