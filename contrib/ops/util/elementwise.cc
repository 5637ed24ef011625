#include "contrib/ops/util/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "contrib/ops/util/inputs.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// As integers, the bits of positive doubles sort as the numbers do, those of
// negative ones the other way round. So the sign bit of positive ones is
// flipped, which puts them behind, and all bits of negative ones.
uint64_t SortKey(double x) {
  if (std::isnan(x)) return std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);  // -0 becomes 0.
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
// The smallest integer becomes 0.
uint64_t SortKey(int64_t x) {
  return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
}
uint64_t SortKey(uint64_t x) { return x; }

// The short floats among all element types, so that a new one needs no change
// here.
template <typename E>
struct IsShortFloatElement
    : std::bool_constant<ShortFloatElement<typename E::Stored>> {};
using ShortFloatElements = ElementsWhere<IsShortFloatElement>;

// Shapes, and what is calculated with them, are of these types.
bool IsIndex(DLDataType dtype) { return dtype == kInt32 || dtype == kInt64; }

Dim Fitting(Dim element, DLDataType dtype) {
  if (!element.is_known() || dtype == kInt64) return element;
  const bool fits = element.size() >= std::numeric_limits<int32_t>::min() &&
                    element.size() <= std::numeric_limits<int32_t>::max();
  return fits ? element : Dim();
}

}  // namespace

void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, double* to) {
  LoadDoubles(tensor, begin, end, to);
}
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, int64_t* to) {
  (void)WithInteger(tensor.dtype(), [&](auto zero) {
    const auto* const from = tensor.As<decltype(zero)>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) {
      to[i] = static_cast<int64_t>(from[i]);
    }
  });
}
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, uint64_t* to) {
  // The signed type may stand for the unsigned one.
  LoadWide(tensor, begin, end, reinterpret_cast<int64_t*>(to));
}

void StoreWide(const double* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  StoreDoubles(from, begin, end, tensor);
}
// Upper bits are dropped, which is the same for both signs: only the size of
// the type matters.
void StoreWide(const uint64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  // A byte of a Bool is 0 or 1, and nothing else is stored.
  if (IsBool(tensor.dtype())) {
    auto* const to = tensor.As<uint8_t>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = from[i] != 0 ? 1 : 0;
    return;
  }
  (void)WithSize(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = tensor.As<T>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = static_cast<T>(from[i]);
  });
}
void StoreWide(const int64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  StoreWide(reinterpret_cast<const uint64_t*>(from), begin, end, tensor);
}

std::vector<uint64_t> SortKeys(const NDArray& tensor) {
  const int64_t count = CountOf(tensor);
  // Types that are not calculated with get keys of 0, all the same.
  std::vector<uint64_t> keys(static_cast<size_t>(count));
  (void)WithWide(tensor.dtype(), [&](auto zero) {
    using W = decltype(zero);
    ParallelFor(count, 2, [&](int64_t begin, int64_t end) {
      W block[kWideBlock];
      for (int64_t at = begin; at < end; at += kWideBlock) {
        const int64_t n = std::min(kWideBlock, end - at);
        LoadWide(tensor, at, at + n, block);
        for (int64_t i = 0; i < n; ++i) {
          keys[static_cast<size_t>(at + i)] = SortKey(block[i]);
        }
      }
    });
  });
  return keys;
}

// The templates below are instantiated here for the three wide types: their
// loops are the same for all operators, which pass the difference as a function
// that is called once for a block.
template <typename W>
absl::Status MapBlocks(EvalArgs& args, double work, BlockFunction<W> f) {
  const NDArray& x = args.in(0);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutputOver(0, 0, x.shape(), x.dtype()));
  // `y` may be `x`: a block is read to its end before it is written.
  ParallelFor(CountOf(x), work, [&](int64_t begin, int64_t end) {
    W block[kWideBlock];
    for (int64_t at = begin; at < end; at += kWideBlock) {
      const int64_t next = std::min(at + kWideBlock, end);
      LoadWide(x, at, next, block);
      f(block, next - at);
      StoreWide(block, at, next, y);
    }
  });
  return absl::OkStatus();
}
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<double>);
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<int64_t>);
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<uint64_t>);

template <typename W>
absl::Status MapPairBlocks(EvalArgs& args, const Broadcast& plan,
                           DLDataType out_type, double work,
                           PairFunction<W> f) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray z,
                            args.MakeOutputOver(0, 0, plan.shape, out_type));
  const NDArray& x = args.in(0);
  const NDArray& y = args.in(1);
  ForEachRun(
      plan, work,
      [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
        W left[kWideBlock];
        W right[kWideBlock];
        for (int64_t i = 0; i < n; i += kWideBlock) {
          const int64_t m = std::min(kWideBlock, n - i);
          LoadWideSteps(x, at[0] + i * steps[0], steps[0], m, left);
          LoadWideSteps(y, at[1] + i * steps[1], steps[1], m, right);
          f(left, right, m);
          StoreWide(left, out + i, out + i + m, z);
        }
      });
  return absl::OkStatus();
}
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<double>);
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<int64_t>);
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<uint64_t>);

bool IsShortInteger(DLDataType dtype) {
  return IsConverted(dtype) && !IsShortFloat(dtype);
}

bool IsShortFloat(DLDataType dtype) {
  return dtype.lanes == 1 &&
         VisitOneOf(ShortFloatElements(), dtype, [](auto) {});
}

ShortFloat ShortFormatOf(DLDataType dtype) {
  ShortFloat format{};
  VisitOneOf(ShortFloatElements(), dtype, [&format](auto element) {
    format = decltype(element)::Stored::kFormat;
  });
  return format;
}

void LoadIntegers(const NDArray& tensor, int64_t begin, int64_t end,
                  int64_t* to) {
  const DLDataType dtype = tensor.dtype();
  if (!IsShortInteger(dtype)) return LoadWide(tensor, begin, end, to);
  if (dtype.code == kDLInt) {
    std::copy_n(tensor.As<int8_t>() + begin, end - begin, to);
  } else {
    std::copy_n(tensor.As<uint8_t>() + begin, end - begin, to);
  }
}

void StoreIntegers(const int64_t* from, int64_t begin, int64_t end,
                   const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  if (!IsShortInteger(dtype)) return StoreWide(from, begin, end, tensor);
  const int64_t values = int64_t{1} << dtype.bits;
  const int64_t sign = dtype.code == kDLInt ? values / 2 : 0;
  auto* const to = tensor.As<uint8_t>();
  for (int64_t i = begin; i < end; ++i) {
    // This copies the sign's bit to all bits above it.
    const int64_t low = from[i - begin] & (values - 1);
    to[i] = static_cast<uint8_t>((low ^ sign) - sign);
  }
}

void StoreShortFloats(const double* from, int64_t begin, int64_t end,
                      const NDArray& tensor, ShortRounding rounding) {
  const ShortFloat format = ShortFormatOf(tensor.dtype());
  auto* const to = tensor.As<uint8_t>();
  for (int64_t i = begin; i < end; ++i) {
    to[i] = EncodeShortFloat(format, from[i - begin], rounding);
  }
}

double ShortStep(DLDataType dtype, uint8_t pattern) {
  // Patterns of one sign are in the order of their sizes.
  const uint8_t around[] = {static_cast<uint8_t>(pattern - 1), pattern,
                            static_cast<uint8_t>(pattern + 1)};
  double values[3] = {};
  DecodeToDoubles(dtype, around, 3, values);
  if (!std::isfinite(values[1])) return 0;
  // A neighbour of the other sign is the other zero, or the far end of the
  // patterns.
  double step = 0;
  for (const double value : {values[0], values[2]}) {
    const bool is_neighbour =
        std::isfinite(value) && std::signbit(value) == std::signbit(values[1]);
    if (is_neighbour) step = std::max(step, std::fabs(value - values[1]));
  }
  return step;
}

// In double, since the product may be larger than any integer.
double CountOf(const OutputInfo& output) {
  const auto sizes = output.type.sizes();
  if (!sizes.has_value()) return 0;
  double count = 1;
  for (const int64_t size : *sizes) count *= static_cast<double>(size);
  return count;
}

absl::StatusOr<OutputInfos> Countable(absl::StatusOr<OutputInfos> outputs) {
  // An error is passed on, so that calls can be nested.
  if (!outputs.ok()) return outputs;
  for (const OutputInfo& output : *outputs) {
    const auto sizes = output.type.sizes();
    if (!sizes.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return outputs;
}

std::optional<Shape> PairElements(const Inputs& in,
                                  Dim (*f)(const Dim&, const Dim&)) {
  const DLDataType dtype = SharedType(in);
  // Elements are known for integers only, those of shapes and indices.
  if (f == nullptr || in[0].elements == nullptr || in[1].elements == nullptr ||
      !IsIndex(dtype)) {
    return std::nullopt;
  }
  const Shape& a = *in[0].elements;
  const Shape& b = *in[1].elements;
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) {
    return std::nullopt;
  }
  // A single element is repeated, as by NumPy.
  const size_t count = a.size() == 1 ? b.size() : a.size();
  Shape result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(
        Fitting(f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]), dtype));
  }
  return result;
}

std::optional<Shape> MapElements(const Inputs& in, Dim (*f)(const Dim&)) {
  if (in[0].elements == nullptr || !IsIndex(in.type(0).dtype)) {
    return std::nullopt;
  }
  Shape result;
  for (const Dim& element : *in[0].elements) {
    result.push_back(Fitting(f(element), in.type(0).dtype));
  }
  return result;
}

void FillScaledBounds(const NDArray& x, const NDArray& y, Bounds* bounds,
                      absl::FunctionRef<double(double x, double y)> scale) {
  const std::vector<double> in = ToDoubles(x);
  const std::vector<double> out = ToDoubles(y);
  bounds->proved.resize(out.size());
  // The error of a few units in the last place is relative to the result or to
  // the scale, the larger of both.
  const HalfUlps half_ulp(y.dtype());
  for (size_t i = 0; i < out.size(); ++i) {
    // An infinite scale says that any finite result is right; times a unit in
    // the last place it would be NaN.
    const double size = scale(in[i], out[i]);
    bounds->proved[i] =
        std::isinf(size) && std::isfinite(out[i])
            ? size
            : kScaledUlps * 2 * half_ulp(std::max(std::fabs(out[i]), size));
  }
  bounds->expected = bounds->proved;
}

absl::StatusOr<Broadcast> BroadcastPair(const EvalArgs& args) {
  const absl::Span<const int64_t> shapes[] = {args.shape(0), args.shape(1)};
  return MakeBroadcast(shapes);
}

// The sides of `y` go with those of `x` from some axis on, the last ones by
// default; in front and behind they are filled up with 1.
absl::StatusOr<std::vector<int64_t>> AlignTo(absl::Span<const int64_t> x,
                                             absl::Span<const int64_t> y,
                                             const ops::AxisBroadcast& rule) {
  const auto misfit = [&](const char* expected) {
    return WrongInput(1, "has shape [{}] beside one of [{}], expected {}",
                      absl::StrJoin(y, ", "), absl::StrJoin(x, ", "), expected);
  };
  if (!rule.broadcast) {
    if (x == y) return std::vector<int64_t>(y.begin(), y.end());
    return misfit("the same (attribute broadcast is not set)");
  }
  // One number goes with every shape, and its axis does not count.
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(y));
  if (count == 1) return std::vector<int64_t>(x.size(), 1);
  if (y.size() > x.size()) return misfit("no more sides");
  size_t first = x.size() - y.size();
  if (rule.axis.has_value()) {
    const int rank = static_cast<int>(x.size());
    NODEWISE_ASSIGN_OR_RETURN(const int axis, Axis(*rule.axis, rank));
    first = static_cast<size_t>(axis);
  }
  if (first + y.size() > x.size()) return misfit("fewer sides from axis on");
  std::vector<int64_t> aligned(x.size(), 1);
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] != x[first + i] && y[i] != 1) return misfit("sides that agree");
    aligned[first + i] = y[i];
  }
  return aligned;
}

absl::Status CheckAligned(const Inputs& in, const ops::AxisBroadcast& rule) {
  const auto x = in.type(0).sizes();
  const auto y = in.type(1).sizes();
  if (!x.has_value() || !y.has_value()) return absl::OkStatus();
  return AlignTo(*x, *y, rule).status();
}

absl::StatusOr<Broadcast> AlignedPair(const EvalArgs& args,
                                      const ops::AxisBroadcast& rule) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> y,
                            AlignTo(args.shape(0), args.shape(1), rule));
  const absl::Span<const int64_t> shapes[] = {args.shape(0), y};
  return MakeBroadcast(shapes);
}

DLDataType SharedType(const Inputs& in) {
  return in.type(0).has_dtype() ? in.type(0).dtype : in.type(1).dtype;
}

void AllowAny(EvalArgs& args, size_t output,
              absl::FunctionRef<bool(int64_t element)> is_open) {
  Bounds* const bounds = args.bounds(output);
  if (bounds == nullptr || !args.wants(output)) return;
  ResizeBounds(CountOf(args.outputs()[output]), bounds);
  for (size_t i = 0; i < bounds->proved.size(); ++i) {
    if (!is_open(static_cast<int64_t>(i))) continue;
    constexpr double kAny = std::numeric_limits<double>::infinity();
    SumBound{kAny, kAny}.SetAt(i, bounds);
  }
}

void AllowAnyForNan(EvalArgs& args) {
  if (args.bounds(0) == nullptr || !IsFloat(args.outputs()[0].dtype())) return;
  // The result is NaN where an input was, or where none can be given.
  const std::vector<double> values = ToDoubles(args.outputs()[0]);
  const auto is_nan = [&](int64_t element) {
    return std::isnan(values[static_cast<size_t>(element)]);
  };
  AllowAny(args, 0, is_nan);
  // Output 1 holds places of what output 0 holds, such as those of largest
  // numbers.
  if (args.num_outputs() > 1) AllowAny(args, 1, is_nan);
}

}  // namespace nodewise
