#pragma once

// Loops over tensors for the files of operators: element types as C++ types,
// reading as double, one rounding at the end, broadcasting, threads.

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

inline constexpr DLDataType kFloat16{kDLFloat, 16, 1};
inline constexpr DLDataType kBfloat16{kDLBfloat, 16, 1};
inline constexpr DLDataType kFloat64{kDLFloat, 64, 1};
inline constexpr DLDataType kInt8{kDLInt, 8, 1};
inline constexpr DLDataType kInt16{kDLInt, 16, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kUint8{kDLUInt, 8, 1};
inline constexpr DLDataType kUint16{kDLUInt, 16, 1};
inline constexpr DLDataType kUint32{kDLUInt, 32, 1};
inline constexpr DLDataType kUint64{kDLUInt, 64, 1};

// Calculations use doubles and round once.
template <DecodableElement T>
double ToDouble(T x) {
  return static_cast<double>(DecodeElement(x));
}

// Rounded once, to nearest even (a float on the way would round twice).
uint16_t DoubleToBfloat(double x);

// Rounds to nearest even. To integers it truncates, numbers out of range give
// the nearest integer in range, and NaN gives 0. To Bool: 0 is false, all else
// true.
template <typename T>
T FromDouble(double x) {
  if constexpr (std::is_same_v<T, Half>) {
    return {DoubleToHalf(x)};
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return {DoubleToBfloat(x)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(x != 0 ? 1 : 0)};
  } else if constexpr (ShortFloatElement<T>) {
    return {EncodeShortFloat(T::kFormat, x)};
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(x)) return 0;
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (x <= kLow) return std::numeric_limits<T>::min();
    if (x >= kHigh) return std::numeric_limits<T>::max();
    return static_cast<T>(x);
  } else {
    static_assert(std::is_floating_point_v<T>, "this type needs a rounding");
    return static_cast<T>(x);
  }
}

template <typename T>
inline constexpr bool kIsFloatType = requires(T x) {
  { DecodeElement(x) } -> std::floating_point;
};
template <typename E>
struct IsFloatElement
    : std::bool_constant<E::kIsCalculated && kIsFloatType<typename E::Stored>> {
};
template <typename E>
struct IsIntegerElement
    : std::bool_constant<E::kIsCalculated &&
                         std::is_integral_v<typename E::Stored>> {};
using FloatElements = ElementsWhere<IsFloatElement>;
using IntegerElements = ElementsWhere<IsIntegerElement>;
bool IsFloat(DLDataType dtype);    // 16 to 64 bits, or bfloat16.
bool IsInteger(DLDataType dtype);  // Signed or not, 8 to 64 bits; not bool.
bool IsBool(DLDataType dtype);
bool IsUnsigned(DLDataType dtype);
// A type that operators make of other numbers and back, and that none
// calculates with: an integer of 2 or 4 bits, a float of 4 or 8.
bool IsConverted(DLDataType dtype);

// Half the distance between two neighbouring numbers of the type near `x`: how
// far one correct rounding may be off. For subnormal doubles the whole
// distance, since half of it is not a double. 0 for integers.
double HalfUlp(DLDataType dtype, double x);
// Computes HalfUlp() for many numbers of one type, in loops that compilers
// vectorize.
class HalfUlps {
 public:
  explicit HalfUlps(DLDataType dtype);

  // The exponent alone is the power of two below x: bounds need it for every
  // element, and frexp() would take longer than all else.
  double operator()(double x) const {
    constexpr uint64_t kExponent = 0x7FF0000000000000;
    const auto power =
        std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kExponent);
    const double half = std::max(power, least_normal_) * roundoff_;
    return power < std::numeric_limits<double>::infinity() ? half : 0;
  }

 private:
  double roundoff_ = 0;
  double least_normal_ = 0;
};
// The unit roundoff: 2^-24 for float32. 0 for integers.
double UnitRoundoff(DLDataType dtype);
// The largest finite number of a float type; that of double for all others.
double LargestOf(DLDataType dtype);

absl::Status RefuseType(DLDataType dtype, const char* expected);

// Returns f(zero), or OK for an `f` that returns nothing.
template <typename F, typename T>
absl::Status CallWith(F& f, T zero) {
  if constexpr (std::is_void_v<decltype(f(zero))>) {
    f(zero);
    return absl::OkStatus();
  } else {
    return f(zero);
  }
}

// Calls f(Stored()) with the one of the list that `dtype` is.
template <typename F>
absl::Status WithOneOf(ElementList<>, DLDataType dtype, const char* expected,
                       F&) {
  return RefuseType(dtype, expected);
}
template <typename E, typename... Rest, typename F>
absl::Status WithOneOf(ElementList<E, Rest...>, DLDataType dtype,
                       const char* expected, F& f) {
  if (dtype == E::kDType) return CallWith(f, typename E::Stored{});
  return WithOneOf(ElementList<Rest...>(), dtype, expected, f);
}

// Calls `f` with a value of the element type: WithType(t, [&](auto zero) {
// using T = decltype(zero); ... }), which returns a status or nothing.
template <typename F>
absl::Status WithFloat(DLDataType dtype, F&& f) {
  return WithOneOf(FloatElements(), dtype,
                   "a float of 16 to 64 bits or bfloat16", f);
}
template <typename F>
absl::Status WithInteger(DLDataType dtype, F&& f) {
  return WithOneOf(IntegerElements(), dtype, "an integer of 8 to 64 bits", f);
}
template <typename F>
absl::Status WithNumber(DLDataType dtype, F&& f) {
  if (IsFloat(dtype)) return WithFloat(dtype, f);
  return WithInteger(dtype, f);
}
template <typename F>
absl::Status WithType(DLDataType dtype, F&& f) {
  if (IsBool(dtype)) return CallWith(f, Bool{});
  return WithNumber(dtype, f);
}
// For operators that only move elements: calls `f` with a type of the same
// size.
template <typename F>
absl::Status WithSize(DLDataType dtype, F&& f) {
  switch (ElementBytes(dtype)) {
    case 1:
      return CallWith(f, uint8_t{});
    case 2:
      return CallWith(f, uint16_t{});
    case 4:
      return CallWith(f, uint32_t{});
    case 8:
      return CallWith(f, uint64_t{});
    default:
      return RefuseType(dtype, "elements of 1, 2, 4 or 8 bytes");
  }
}

inline int64_t CountOf(const NDArray& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape()) count *= size;
  return count;
}
// REQUIRES: `count` sizes do not overflow; Infer has seen them.
int64_t Product(absl::Span<const int64_t> sizes);
// Strides of a compact tensor, in elements.
std::vector<int64_t> StridesOf(absl::Span<const int64_t> shape);
absl::Span<const int64_t> Sizes(const NDArray& tensor);

// Splits [0, count) among threads where there is enough to do; `work` is
// roughly the number of nanoseconds that one of them takes. `f` gets [begin,
// end) and runs in several threads at once. What it writes must not depend on
// the split.
void ParallelFor(int64_t count, double work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> f);

// All elements as doubles, and back with one rounding each (FromDouble). What
// IsConverted() can be read and written too.
std::vector<double> ToDoubles(const NDArray& tensor);
// Makes a tensor of them, as many as the shape says.
absl::StatusOr<NDArray> FromDoubles(const std::vector<double>& numbers,
                                    absl::Span<const int64_t> shape,
                                    DLDataType dtype);
void LoadDoubles(const NDArray& tensor, int64_t begin, int64_t end, double* to);
void StoreDoubles(const double* from, int64_t begin, int64_t end,
                  const NDArray& tensor);

// to[i] = f(from[i]), which may be the same memory; calculated in double.
template <typename T, typename F>
void MapSpan(const T* from, int64_t n, T* to, F f) {
  const auto of = [&f](T x) { return FromDouble<T>(f(ToDouble(x))); };
  if (from == to) {
    // A loop of its own: compilers vectorise only what they can tell apart.
    for (int64_t i = 0; i < n; ++i) to[i] = of(to[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = of(from[i]);
  }
}

// How several tensors are read together under NumPy's broadcasting: the shape
// of the result, with sides joined where that changes nothing, and the strides
// of each input (0 where it is repeated).
struct Broadcast {
  // One number for each side; small tensors have no time for allocations.
  using Sides = absl::InlinedVector<int64_t, 6>;

  Sides shape;  // The result's shape.
  Sides sides;  // `shape` with neighbours joined; never empty.
  absl::InlinedVector<Sides, 3> strides;  // By input, by side.
  int64_t count = 0;
};
// Fails with kInvalidArgument if the shapes do not fit.
absl::StatusOr<Broadcast> MakeBroadcast(
    absl::Span<const absl::Span<const int64_t>> shapes);

// Calls f(out, offsets, n, steps) for runs of the innermost side: elements
// [out, out + n) of the result, input k from offsets[k] in steps of steps[k].
void ForEachRun(const Broadcast& plan, double work,
                absl::FunctionRef<void(int64_t out, const int64_t* offsets,
                                       int64_t n, const int64_t* steps)>
                    f);

// to[i] = f(to[i], b[i]), as below.
template <typename T, typename B, typename F>
void MapRunOver(T* __restrict to, const B* __restrict b, int64_t step_b,
                int64_t n, F f) {
  if (step_b == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = f(to[i], b[i]);
  } else if (step_b == 0) {
    const B y = *b;
    for (int64_t i = 0; i < n; ++i) to[i] = f(to[i], y);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = f(to[i], b[i * step_b]);
  }
}

// Element i at data[i * step].
template <typename T>
struct Strided {
  const T* data;
  int64_t step;
};
// For clang 14, which does not find it itself.
template <typename T>
Strided(const T*, int64_t) -> Strided<T>;

// to[i] = f(element i of a, of b) for i below n. The usual steps have loops of
// their own, which compilers vectorise.
template <typename A, typename B, typename Out, typename F>
void MapRun(Strided<A> a, Strided<B> b, int64_t n, Out* __restrict to, F f) {
  const A* const __restrict x = a.data;
  const B* const __restrict y = b.data;
  if (a.step == 1 && b.step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = f(x[i], y[i]);
  } else if (a.step == 1 && b.step == 0) {
    const B same = *y;
    for (int64_t i = 0; i < n; ++i) to[i] = f(x[i], same);
  } else if (a.step == 0 && b.step == 1) {
    const A same = *x;
    for (int64_t i = 0; i < n; ++i) to[i] = f(same, y[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = f(x[i * a.step], y[i * b.step]);
  }
}

// z = f(x, y), inputs 0 and 1 as `plan` lays them out; `In` and `Out` are
// element types.
template <typename In, typename Out, typename F>
absl::Status MapPairs(EvalArgs& args, const Broadcast& plan,
                      DLDataType out_type, F f) {
  auto z = args.MakeOutputOver(0, 0, plan.shape, out_type);
  if (!z.ok()) return z.status();
  const In* const x = args.in(0).As<In>();
  const In* const y = args.in(1).As<In>();
  Out* const to = z->template As<Out>();
  ForEachRun(
      plan, 2,
      [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
        if constexpr (std::is_same_v<In, Out>) {
          if (x == to) {
            MapRunOver(to + out, y + at[1], steps[1], n, f);
            return;
          }
        }
        MapRun(Strided{x + at[0], steps[0]}, Strided{y + at[1], steps[1]}, n,
               to + out, f);
      });
  return absl::OkStatus();
}
template <typename In, typename Out, typename F>
absl::Status MapPairs(EvalArgs& args, DLDataType out_type, F f) {
  const absl::Span<const int64_t> shapes[] = {args.shape(0), args.shape(1)};
  auto plan = MakeBroadcast(shapes);
  if (!plan.ok()) return plan.status();
  return MapPairs<In, Out>(args, *plan, out_type, f);
}

}  // namespace nodewise
