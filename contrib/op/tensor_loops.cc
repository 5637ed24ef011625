#include "nodewise/op/tensor_loops.h"

#include <bit>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

// Starting a thread for less work than this, in nanoseconds, costs more time
// than it saves.
constexpr double kWorthAThread = 50'000;

struct FloatFormat {
  double roundoff;      // Half a step of the numbers from 1 to 2.
  double least_normal;  // The steps of smaller numbers are as large as its own.
};

constexpr FloatFormat FormatOf(float) { return {0x1p-24, 0x1p-126}; }
constexpr FloatFormat FormatOf(double) { return {0x1p-53, 0x1p-1022}; }
constexpr FloatFormat FormatOf(Half) { return {0x1p-11, 0x1p-14}; }
constexpr FloatFormat FormatOf(Bfloat) { return {0x1p-8, 0x1p-126}; }

// REQUIRES: `dtype` is a float.
FloatFormat FormatOf(DLDataType dtype) {
  FloatFormat format{};
  VisitOneOf(FloatElements(), dtype, [&format](auto element) {
    format = FormatOf(typename decltype(element)::Stored());
  });
  return format;
}

template <typename E>
struct IsConvertedElement
    : std::bool_constant<E::kHasNumbers && !E::kIsCalculated> {};
using ConvertedElements = ElementsWhere<IsConvertedElement>;

// The ends of the range of an integer of less than a byte, which is stored in a
// type of more bits.
template <typename E, typename T = typename E::Stored>
constexpr T LeastOfBits() {
  return std::is_signed_v<T> ? static_cast<T>(-(1 << (E::kDType.bits - 1))) : 0;
}
template <typename E, typename T = typename E::Stored>
constexpr T LargestOfBits() {
  return static_cast<T>(LeastOfBits<E>() + (1 << E::kDType.bits) - 1);
}

// Converts as FromDouble() does, but cuts integers off at the ends of the range
// that their bits have.
template <typename E>
void StoreConverted(const double* from, int64_t begin, int64_t end,
                    const NDArray& tensor) {
  using T = typename E::Stored;
  T* const to = tensor.As<T>();
  for (int64_t i = begin; i < end; ++i) {
    to[i] = FromDouble<T>(from[i - begin]);
    if constexpr (std::is_integral_v<T>) {
      to[i] = std::clamp(to[i], LeastOfBits<E>(), LargestOfBits<E>());
    }
  }
}

template <typename List>
bool IsScalarOf(List list, DLDataType dtype) {
  return dtype.lanes == 1 && VisitOneOf(list, dtype, [](auto) {});
}

// Appends a side, or joins it with the one before if all inputs continue across
// them.
void AddSide(int64_t size, const Broadcast::Sides& strides, Broadcast* plan) {
  if (size == 1) return;
  if (!plan->sides.empty()) {
    bool joins = true;
    for (size_t k = 0; k < strides.size(); ++k) {
      joins &= plan->strides[k].back() == strides[k] * size;
    }
    if (joins) {
      plan->sides.back() *= size;
      for (size_t k = 0; k < strides.size(); ++k) {
        plan->strides[k].back() = strides[k];
      }
      return;
    }
  }
  plan->sides.push_back(size);
  for (size_t k = 0; k < strides.size(); ++k) {
    plan->strides[k].push_back(strides[k]);
  }
}

// All inputs are of this shape: they are read from end to end.
Broadcast WithoutRepeats(absl::Span<const int64_t> shape, size_t inputs) {
  Broadcast plan;
  plan.shape.assign(shape.begin(), shape.end());
  plan.count = Product(shape);
  plan.sides.assign(1, plan.count);
  plan.strides.assign(inputs, {1});
  return plan;
}

}  // namespace

uint16_t DoubleToBfloat(double x) {
  float near = static_cast<float>(x);
  if (std::isfinite(near) && static_cast<double>(near) != x) {
    // Rounded to odd: what is lost leaves a bit that breaks ties the right way.
    auto bits = std::bit_cast<uint32_t>(near);
    if ((bits & 1) == 0) {
      const bool is_too_large =
          std::fabs(static_cast<double>(near)) > std::fabs(x);
      bits += is_too_large ? -1 : 1;
      near = std::bit_cast<float>(bits);
    }
  }
  return FloatToBfloat(near);
}

bool IsFloat(DLDataType dtype) { return IsScalarOf(FloatElements(), dtype); }
bool IsBool(DLDataType dtype) { return dtype == kBool; }
bool IsInteger(DLDataType dtype) {
  return IsScalarOf(IntegerElements(), dtype);
}
bool IsConverted(DLDataType dtype) {
  return IsScalarOf(ConvertedElements(), dtype);
}
bool IsUnsigned(DLDataType dtype) {
  return IsInteger(dtype) && dtype.code == kDLUInt;
}

// Types that are not floats keep zeros, which makes every bound 0.
HalfUlps::HalfUlps(DLDataType dtype) {
  if (!IsFloat(dtype)) return;
  const FloatFormat format = FormatOf(dtype);
  roundoff_ = format.roundoff;
  // For a double, least_normal_ times the roundoff would underflow to 0; with
  // this limit the product is the smallest double at least.
  least_normal_ =
      std::max(format.least_normal,
               std::numeric_limits<double>::denorm_min() / format.roundoff);
}

double HalfUlp(DLDataType dtype, double x) { return HalfUlps(dtype)(x); }

double LargestOf(DLDataType dtype) {
  if (dtype == kFloat32) return std::numeric_limits<float>::max();
  if (dtype == kFloat16) return 65504;
  if (dtype == kBfloat16) return BfloatToFloat(0x7F7F);
  return std::numeric_limits<double>::max();
}

double UnitRoundoff(DLDataType dtype) {
  return IsFloat(dtype) ? FormatOf(dtype).roundoff : 0;
}

absl::Status RefuseType(DLDataType dtype, const char* expected) {
  return InvalidArgument("is of type {}, expected {}", ToString(dtype),
                         expected);
}

int64_t Product(absl::Span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<int64_t>());
}

std::vector<int64_t> StridesOf(absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

absl::Span<const int64_t> Sizes(const NDArray& tensor) {
  return tensor.shape();
}

// Each thread gets one piece of equal length: the loops here do as much for
// each element, and what they write must not depend on the split.
void ParallelFor(int64_t count, double work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> f) {
  const double total = static_cast<double>(count) * work;
  const int most =
      static_cast<int>(std::min<double>(NumThreads(), total / kWorthAThread));
  if (most < 2) {
    if (count > 0) f(0, count);
    return;
  }
  const auto part = [&](int task) { return count * task / most; };
  const absl::Status status = ParallelRun(most, [&](int task, TaskGroup&) {
    f(part(task), part(task + 1));
    return absl::OkStatus();
  });
  // If no threads can be started, this one does the work.
  if (!status.ok()) f(0, count);
}

std::vector<double> ToDoubles(const NDArray& tensor) {
  const int64_t count = CountOf(tensor);
  std::vector<double> values(static_cast<size_t>(count));
  LoadDoubles(tensor, 0, count, values.data());
  return values;
}

absl::StatusOr<NDArray> FromDoubles(const std::vector<double>& numbers,
                                    absl::Span<const int64_t> shape,
                                    DLDataType dtype) {
  auto tensor = NDArray::Empty(shape, dtype, kCpu);
  if (tensor.ok()) {
    StoreDoubles(numbers.data(), 0, CountOf(*tensor), *tensor);
  }
  return tensor;
}

void LoadDoubles(const NDArray& tensor, int64_t begin, int64_t end,
                 double* to) {
  const auto offset = static_cast<size_t>(begin) * ElementBytes(tensor.dtype());
  DecodeToDoubles(tensor.dtype(), tensor.As<uint8_t>() + offset,
                  static_cast<size_t>(end - begin), to);
}

// Types that no operator calculates with have loops of their own: integers of a
// few bits must be cut off at the ends of their range.
void StoreDoubles(const double* from, int64_t begin, int64_t end,
                  const NDArray& tensor) {
  if (IsConverted(tensor.dtype())) {
    VisitOneOf(ConvertedElements(), tensor.dtype(), [&](auto element) {
      StoreConverted<decltype(element)>(from, begin, end, tensor);
    });
    return;
  }
  (void)WithType(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = tensor.As<T>();
    for (int64_t i = begin; i < end; ++i)
      to[i] = FromDouble<T>(from[i - begin]);
  });
}

// Sides that all inputs read without a gap or a repeat become one, so that
// most operations have a single long run for their innermost loop.
absl::StatusOr<Broadcast> MakeBroadcast(
    absl::Span<const absl::Span<const int64_t>> shapes) {
  // The usual case, and small tensors have no time for allocations.
  const auto is_first = [&](auto shape) { return shape == shapes[0]; };
  if (!shapes.empty() && std::ranges::all_of(shapes, is_first)) {
    return WithoutRepeats(shapes[0], shapes.size());
  }
  size_t rank = 0;
  for (const auto& shape : shapes) rank = std::max(rank, shape.size());
  Broadcast plan;
  plan.shape.assign(rank, 1);
  plan.strides.resize(shapes.size());
  std::vector<std::vector<int64_t>> compact;
  for (const auto& shape : shapes) {
    compact.push_back(StridesOf(shape));
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& side = plan.shape[rank - shape.size() + i];
      if (side == 1) side = shape[i];
      if (shape[i] == side || shape[i] == 1) continue;
      return InvalidArgument(
          "shapes do not fit: a side of {} against one of {}", shape[i], side);
    }
  }
  Broadcast::Sides strides(shapes.size());
  for (size_t i = 0; i < rank; ++i) {
    for (size_t k = 0; k < shapes.size(); ++k) {
      const size_t skipped = rank - shapes[k].size();
      const bool repeats = i < skipped || shapes[k][i - skipped] == 1;
      strides[k] = repeats ? 0 : compact[k][i - skipped];
    }
    AddSide(plan.shape[i], strides, &plan);
  }
  plan.count = Product(plan.shape);
  if (plan.sides.empty()) {
    plan.sides.push_back(1);
    for (auto& of_input : plan.strides) of_input.push_back(0);
  }
  return plan;
}

// Threads begin at any element of the result, so that the place of each input
// is worked out once for each run, from the number of its first element.
void ForEachRun(const Broadcast& plan, double work,
                absl::FunctionRef<void(int64_t out, const int64_t* offsets,
                                       int64_t n, const int64_t* steps)>
                    f) {
  if (plan.count == 0) return;
  const size_t inputs = plan.strides.size();
  const size_t last = plan.sides.size() - 1;
  const int64_t run = plan.sides[last];
  absl::InlinedVector<int64_t, 4> steps(inputs);
  for (size_t k = 0; k < inputs; ++k) steps[k] = plan.strides[k][last];
  ParallelFor(plan.count, work, [&](int64_t begin, int64_t end) {
    absl::InlinedVector<int64_t, 4> offsets(inputs);
    for (int64_t out = begin; out < end;) {
      int64_t rest = out / run;
      const int64_t inside = out % run;
      for (size_t k = 0; k < inputs; ++k) offsets[k] = inside * steps[k];
      for (size_t side = last; side-- > 0;) {
        const int64_t at = rest % plan.sides[side];
        rest /= plan.sides[side];
        for (size_t k = 0; k < inputs; ++k) {
          offsets[k] += at * plan.strides[k][side];
        }
      }
      const int64_t n = std::min(run - inside, end - out);
      f(out, offsets.data(), n, steps.data());
      out += n;
    }
  });
}

}  // namespace nodewise
