#include "nodewise/ops/reduce.h"

#include <functional>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/reduce_loops.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {

void Walk::Add(int64_t size, int64_t stride) {
  sizes.push_back(size);
  strides.push_back(stride);
  count *= size;
}

int64_t Walk::OffsetOf(int64_t i) const {
  int64_t offset = 0;
  for (size_t side = sizes.size(); side-- > 0;) {
    offset += i % sizes[side] * strides[side];
    i /= sizes[side];
  }
  return offset;
}

// Neighbouring sides that are all reduced, or all kept, are joined first, and
// sides of 1 are dropped: most reductions then have one or two sides left. The
// innermost group decides how elements are added up, the others are walked
// over.
ReducePlan MakeReducePlan(absl::Span<const int64_t> shape,
                          const std::vector<bool>& is_reduced) {
  struct Group {
    int64_t size;
    int64_t stride;
    bool is_reduced;
  };
  std::vector<Group> groups;
  const std::vector<int64_t> strides = StridesOf(shape);
  ReducePlan plan;
  for (size_t i = 0; i < shape.size(); ++i) {
    (is_reduced[i] ? plan.terms : plan.count) *= shape[i];
    if (shape[i] == 1) continue;
    if (!groups.empty() && groups.back().is_reduced == is_reduced[i]) {
      groups.back().size *= shape[i];
      groups.back().stride = strides[i];
    } else {
      groups.push_back({shape[i], strides[i], is_reduced[i]});
    }
  }
  if (plan.terms == 0) {
    // No strides matter any more, and no row is ever read.
    plan.rows.count = 0;
    plan.inner = plan.count;
    return plan;
  }
  if (!groups.empty()) {
    (groups.back().is_reduced ? plan.run : plan.inner) = groups.back().size;
    groups.pop_back();
  }
  for (const Group& group : groups) {
    (group.is_reduced ? plan.rows : plan.kept).Add(group.size, group.stride);
  }
  return plan;
}

// The split among threads may cut a row of results anywhere; slices end where
// the row does.
void ForEachSlice(const ReducePlan& plan, double work,
                  absl::FunctionRef<void(const Slice& slice)> f) {
  const double work_of_one =
      work * static_cast<double>(std::max<int64_t>(plan.terms, 1));
  ParallelFor(plan.count, work_of_one, [&](int64_t begin, int64_t end) {
    for (int64_t out = begin; out < end;) {
      const int64_t inside = out % plan.inner;
      const int64_t n = std::min({kSliceMost, plan.inner - inside, end - out});
      f({out, n, plan.kept.OffsetOf(out / plan.inner) + inside});
      out += n;
    }
  });
}

namespace {

// A reduction goes slice by slice: up to kSliceMost results that lie side by
// side, so that their totals stay in the first cache while the rows of the
// input are added to them one after the other. Where the elements of one result
// lie side by side instead, a slice is one result and is added up in several
// lanes. An operator is a Kind: what it adds up, and what it makes of the sum.

using ops::ReduceAttributes;

// Sides may be numbers, or dimensions of which some are unknown.
template <typename Side>
std::vector<Side> Remaining(absl::Span<const Side> shape,
                            const std::vector<bool>& is_reduced,
                            bool keepdims) {
  std::vector<Side> remaining;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!is_reduced[i]) {
      remaining.push_back(shape[i]);
    } else if (keepdims) {
      remaining.emplace_back(1);
    }
  }
  return remaining;
}

// Infers the shape for axes that are not known yet. A side of 1 stays 1 whether
// it is reduced or not. Without keepdims only the number of axes tells the
// rank, as long as there is at least one: an empty list means all axes or none.
std::optional<Shape> AnyAxes(const Inputs& in, const ReduceAttributes& rule) {
  const Shape& shape = *in.type(0).shape;
  if (rule.keepdims) {
    Shape any = UnknownShape(in.type(0).rank());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == Dim(1)) any[i] = 1;
    }
    return any;
  }
  const TensorType& axes = in.type(1);
  if (!axes.has_rank() || axes.rank() != 1 || !(*axes.shape)[0].is_known()) {
    return std::nullopt;
  }
  const int64_t count = (*axes.shape)[0].size();
  if (count <= 0 || count > in.type(0).rank()) return std::nullopt;
  return UnknownShape(in.type(0).rank() - static_cast<int>(count));
}

std::optional<std::vector<int64_t>> KnownAxes(const Inputs& in) {
  if (!in.has(1)) return std::vector<int64_t>();
  return in.Ints(1);
}

absl::StatusOr<std::vector<bool>> ReducedSides(absl::Span<const int64_t> axes,
                                               int rank,
                                               const ReduceAttributes& rule) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> from_front,
                            Axes(axes, rank));
  const bool all = axes.empty() && !rule.noop_with_empty_axes;
  std::vector<bool> is_reduced(static_cast<size_t>(rank), all);
  for (const int axis : from_front) {
    is_reduced[static_cast<size_t>(axis)] = true;
  }
  return is_reduced;
}

// Axes that are data are checked again when they are known.
absl::Status CheckReduce(const Inputs& in, const ReduceAttributes& rule) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1)));
  const auto axes = KnownAxes(in);
  if (!axes.has_value() || !in.type(0).has_rank()) return absl::OkStatus();
  const auto sides = ReducedSides(*axes, in.type(0).rank(), rule);
  if (sides.ok()) return absl::OkStatus();
  return AtInput(1, sides.status());
}

absl::StatusOr<OutputInfos> InferReduce(const Inputs& in,
                                        const ReduceAttributes& rule) {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return OutputInfos{type};
  const auto axes = KnownAxes(in);
  if (!axes.has_value()) {
    type.shape = AnyAxes(in, rule);
    return OutputInfos{type};
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_reduced,
                            ReducedSides(*axes, in.type(0).rank(), rule));
  type.shape = Remaining<Dim>(*in.type(0).shape, is_reduced, rule.keepdims);
  // A side of 0 may have hidden an overflow of the others.
  return Countable(OutputInfos{std::move(type)});
}

// What a reduction adds up for one slice of its results; `x` is the whole
// input.
template <typename T>
struct Part {
  const ReducePlan& plan;
  const Slice& slice;
  const T* x;

  template <typename Total, typename Step>
  void Sum(Total* totals, Step step) const {
    FoldSum(plan, slice, x, totals, step);
  }
  double terms() const { return static_cast<double>(plan.terms); }
};

double Square(double x) { return x * x; }

// What the bounds of a sum need of its terms. FoldSum() adds these up as it
// does numbers, lane by lane.
struct TermSums {
  double absolute = 0;
  double squares = 0;
  double plain = 0;

  TermSums operator+(const TermSums& b) const {
    return {absolute + b.absolute, squares + b.squares, plain + b.plain};
  }
};

// Error bounds of sums, from the terms that a kernel adds up: Term() of each.
template <typename Kind>
void BoundSlice(const Part<double>& part, DLDataType dtype,
                const double* results, Bounds* bounds) {
  TermSums sums[kSliceMost];
  double shifts[kSliceMost] = {};
  Kind::Shifts(part, shifts);
  part.Sum(sums, [&](double x, int64_t j) {
    const double term = Kind::Term(x, shifts[j]);
    return TermSums{std::fabs(term), Square(term), term};
  });
  for (int64_t j = 0; j < part.slice.n; ++j) {
    const TermSums& terms = sums[j];
    const SumBound sum = BoundSum(
        dtype, {part.terms(), terms.absolute, terms.squares, terms.plain});
    const auto out = static_cast<size_t>(part.slice.out + j);
    const double rounding = 2 * HalfUlp(dtype, results[j]);
    const auto bound = [&](double error) {
      return Kind::Error(error, terms.plain, part.terms(), dtype) + rounding;
    };
    SumBound{bound(sum.proved), bound(sum.expected)}.SetAt(out, bounds);
  }
}

// The common part of the kinds below: terms that are added up, and a function
// of their sum. Error() gives the result's error for an error of the sum.
// Integers are calculated with 64 bits; results that do not fit their own type
// lose the upper bits, or become the nearest number if kSaturates.
template <typename Kind>
struct AddedKind {
  static constexpr bool kSaturates = false;
  template <typename T>
  static void Shifts(const Part<T>&, double*) {}
  static double Term(double x, double) { return x; }
  static double Result(double sum, double) { return sum; }
  static double Error(double error, double, double, DLDataType) {
    return error;
  }
  template <typename T>
  static uint64_t IntegerTerm(T x) {
    return Bits(x);
  }

  template <typename T>
  static void Floats(const Part<T>& part, double* y) {
    part.Sum(y, [](double x, int64_t) { return Kind::Term(x, 0); });
    for (int64_t j = 0; j < part.slice.n; ++j) {
      y[j] = Kind::Result(y[j], part.terms());
    }
  }
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    uint64_t totals[kSliceMost];
    part.Sum(totals, [](T x, int64_t) { return Kind::IntegerTerm(x); });
    for (int64_t j = 0; j < part.slice.n; ++j) y[j] = Wrapped<T>(totals[j]);
  }
};

struct SumKind : AddedKind<SumKind> {
  static Dim Element(const Dim& a, const Dim& b) { return Plus(a, b); }
};

struct MeanKind : AddedKind<MeanKind> {
  static double Result(double sum, double terms) { return sum / terms; }
  // Truncated; 0 for the mean of no elements, which is undefined.
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    __int128 totals[kSliceMost];
    part.Sum(totals, [](T x, int64_t) { return static_cast<__int128>(x); });
    const int64_t terms = std::max<int64_t>(part.plan.terms, 1);
    for (int64_t j = 0; j < part.slice.n; ++j) {
      y[j] = static_cast<T>(totals[j] / terms);
    }
  }
  static double Error(double error, double, double terms, DLDataType) {
    return error / terms;
  }
};

struct SumSquare : AddedKind<SumSquare> {
  static double Term(double x, double) { return x * x; }
  template <typename T>
  static uint64_t IntegerTerm(T x) {
    return Bits(x) * Bits(x);
  }
};

template <typename T>
uint64_t SizeOf(T x) {
  return x < 0 ? 0 - Bits(x) : Bits(x);
}

struct L1 : AddedKind<L1> {
  static double Term(double x, double) { return std::fabs(x); }
  template <typename T>
  static uint64_t IntegerTerm(T x) {
    return SizeOf(x);
  }
};

struct L2 : AddedKind<L2> {
  static double Term(double x, double) { return x * x; }
  static double Result(double sum, double) { return std::sqrt(sum); }
  // The largest integer whose square is not above the sum.
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    using Wide = unsigned __int128;
    Wide totals[kSliceMost];
    part.Sum(totals, [](T x, int64_t) {
      return static_cast<Wide>(SizeOf(x)) * SizeOf(x);
    });
    for (int64_t j = 0; j < part.slice.n; ++j) {
      // The squares of larger ones do not fit; sums that did not have wrapped.
      constexpr Wide kMost = std::numeric_limits<uint64_t>::max();
      const auto estimate = std::sqrt(static_cast<long double>(totals[j]));
      Wide root = std::min(static_cast<Wide>(estimate), kMost);
      while (root * root > totals[j]) --root;
      while (root < kMost && (root + 1) * (root + 1) <= totals[j]) ++root;
      y[j] = static_cast<T>(root);
    }
  }
  static double Error(double error, double sum, double, DLDataType) {
    return sum > 0 ? error / std::sqrt(sum) : std::sqrt(error);
  }
};

// Kinds that reduce integers by way of double, as their results are small.
template <typename Kind>
struct LogarithmKind : AddedKind<Kind> {
  static constexpr bool kSaturates = true;
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    double results[kSliceMost];
    Kind::Floats(part, results);
    for (int64_t j = 0; j < part.slice.n; ++j) y[j] = FromDouble<T>(results[j]);
  }
};

// -log(1 - r) is not above r / (1 - r). The sum itself may overflow.
double LogarithmError(double relative, double sum, DLDataType dtype) {
  if (OverflowRule(dtype)(std::fabs(sum))) return kAnyError;
  if (!(relative < 0.5)) return kUnknownError;
  return relative / (1 - relative) + 8 * HalfUlp(dtype, std::log(sum));
}

struct LogSum : LogarithmKind<LogSum> {
  static double Result(double sum, double) { return std::log(sum); }
  static double Error(double error, double sum, double, DLDataType dtype) {
    return LogarithmError(error / sum, sum, dtype);
  }
};

// max(a, b), where NaN is larger than all numbers.
struct Larger {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
struct Smaller {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
// A total may be of a wider type than the elements, which are converted
// exactly.
template <typename Choice, typename T, typename Total>
void Choose(const Part<T>& part, Total first, Total* y) {
  std::fill(y, y + part.slice.n, first);
  Fold(
      part.plan, part.slice, part.x, y,
      [](Total a, auto b, int64_t) {
        return Choice()(a, static_cast<Total>(b));
      },
      Choice());
}

// The largest element is subtracted first, so that no exponential overflows.
struct LogSumExp : LogarithmKind<LogSumExp> {
  // From an infinite shift the differences would be NaN, so it is 0 then.
  template <typename T>
  static void Shifts(const Part<T>& part, double* shifts) {
    Choose<Larger>(part, -std::numeric_limits<double>::infinity(), shifts);
    for (int64_t j = 0; j < part.slice.n; ++j) {
      if (std::isinf(shifts[j])) shifts[j] = 0;
    }
  }
  static double Term(double x, double shift) { return std::exp(x - shift); }
  template <typename T>
  static void Floats(const Part<T>& part, double* y) {
    double shifts[kSliceMost];
    Shifts(part, shifts);
    part.Sum(y, [&](double x, int64_t j) { return std::exp(x - shifts[j]); });
    for (int64_t j = 0; j < part.slice.n; ++j) {
      y[j] = std::log(y[j]) + shifts[j];
    }
  }
  // Terms that matter are e^-20 or more; the rounding of such an argument and
  // of the exponential itself is another 24 roundings of the sum.
  static double Error(double error, double sum, double, DLDataType dtype) {
    return LogarithmError(error / sum + 24 * UnitRoundoff(dtype), sum, dtype);
  }
};

// The largest or smallest. With no elements, the value that any other replaces.
// Comparisons are exact, so there are no bounds but for NaN, of which ONNX does
// not say where it goes.
template <typename Choice, bool kLargest>
struct ExtremeKind {
  static constexpr bool kSaturates = true;
  static Dim Element(const Dim& a, const Dim& b) {
    if (!a.is_known() || !b.is_known()) return Dim();
    return Choice()(a.size(), b.size());
  }
  template <typename T>
  static void Floats(const Part<T>& part, double* y) {
    const double end = std::numeric_limits<double>::infinity();
    Choose<Choice>(part, kLargest ? -end : end, y);
  }
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    using Ends = std::numeric_limits<T>;
    Choose<Choice>(part, kLargest ? Ends::lowest() : Ends::max(), y);
  }
};
using MaxKind = ExtremeKind<Larger, true>;
using MinKind = ExtremeKind<Smaller, false>;

struct Prod {
  static constexpr bool kSaturates = false;
  static Dim Element(const Dim& a, const Dim& b) { return Times(a, b); }
  template <typename T>
  static void Floats(const Part<T>& part, double* y) {
    std::fill(y, y + part.slice.n, 1);
    Fold(
        part.plan, part.slice, part.x, y,
        [](double a, double x, int64_t) { return a * x; }, std::multiplies<>());
  }
  template <typename T>
  static void Integers(const Part<T>& part, T* y) {
    uint64_t totals[kSliceMost];
    std::fill(totals, totals + part.slice.n, uint64_t{1});
    Fold(
        part.plan, part.slice, part.x, totals,
        [](uint64_t a, T x, int64_t) { return a * Bits(x); },
        std::multiplies<>());
    for (int64_t j = 0; j < part.slice.n; ++j) y[j] = Wrapped<T>(totals[j]);
  }
};

// The numbers that a product may reach on its way, in any order, decide whether
// it has errors other than roundings. The logarithms of the factors above 1 and
// of those below 1 are added up apart: these are the ends of what any order of
// multiplying can reach.
void BoundProducts(const Part<double>& part, DLDataType dtype,
                   const double* results, Bounds* bounds) {
  double large[kSliceMost];
  double small[kSliceMost];
  part.Sum(large, [](double x, int64_t) {
    return std::max(std::log2(std::fabs(x)), 0.0);
  });
  part.Sum(small, [](double x, int64_t) {
    return x == 0 ? 0 : std::min(std::log2(std::fabs(x)), 0.0);
  });
  const double u = UnitRoundoff(dtype);
  const double lowest = std::log2(HalfUlp(dtype, 0) / u) + 2;
  for (int64_t j = 0; j < part.slice.n; ++j) {
    const auto out = static_cast<size_t>(part.slice.out + j);
    const bool is_safe = large[j] < -lowest && small[j] > lowest;
    const bool overflows = large[j] >= -lowest && std::isfinite(large[j]);
    const double size = is_safe     ? std::fabs(results[j])
                        : overflows ? kAnyError
                                    : kUnknownError;
    bounds->proved[out] = 1.01 * u * part.terms() * size;
    bounds->expected[out] =
        kExpectedFactor * u * std::sqrt(part.terms()) * size;
  }
}

template <typename W>
void Saturate(DLDataType dtype, int64_t n, W* x) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::clamp(x[i], LeastOf<W>(dtype), LargestOf<W>(dtype));
  }
}

template <typename Kind>
concept HasElement = requires(const Dim& a) {
  Kind::Element(a, a);
};

// The axes were an attribute until opset 13 or 18; importers make it an input.
template <typename Class, typename Kind>
struct Reduce : Class {
  using Class::keepdims;
  using Class::noop_with_empty_axes;

  static constexpr auto Fields() {
    return FieldList(
        Field<&Class::keepdims>("keepdims"),
        Field<&Class::noop_with_empty_axes>("noop_with_empty_axes"));
  }
  static constexpr bool kIsExtreme =
      std::is_same_v<Kind, MaxKind> || std::is_same_v<Kind, MinKind>;
  // The extreme of no Bools.
  static constexpr uint8_t kOfNoBools = std::is_same_v<Kind, MinKind> ? 1 : 0;

  absl::Status Check(const Inputs& in) const {
    const bool may_be_bool = kIsExtreme && IsBool(in.type(0).dtype);
    if (!may_be_bool) NODEWISE_RETURN_IF_ERROR(RequireNumber(in, 0));
    return CheckReduce(in, *this);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(OutputInfos out, InferReduce(in, *this));
    if constexpr (HasElement<Kind>) out[0].elements = Elements(in);
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    std::vector<int64_t> axes;
    if (args.has(1)) {
      NODEWISE_ASSIGN_OR_RETURN(axes, args.Ints(1));
    }
    const absl::Span<const int64_t> shape = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<bool> is_reduced,
        ReducedSides(axes, static_cast<int>(shape.size()), *this));
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray y,
        args.MakeOutput(0, Remaining<int64_t>(shape, is_reduced, keepdims),
                        args.dtype(0)));
    NODEWISE_RETURN_IF_ERROR(Run(args, MakeReducePlan(shape, is_reduced), y));
    if (kIsExtreme) AllowAnyForNan(args);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return CountOf(OutputInfo(in.type(0)));
  }

 private:
  // Returns the number of elements if the input is a shape that is multiplied
  // up. Networks calculate with shapes; without this, every side that depends
  // on such a product would be unknown.
  std::optional<Shape> Elements(const Inputs& in) const {
    const Shape* const elements = in[0].elements;
    if (elements == nullptr || elements->empty() || in.has(1) ||
        in.type(0).dtype != kInt64) {
      return std::nullopt;
    }
    if (noop_with_empty_axes) return *elements;
    Dim total = (*elements)[0];
    for (size_t i = 1; i < elements->size(); ++i) {
      total = Kind::Element(total, (*elements)[i]);
    }
    return Shape{total};
  }

  static absl::Status Run(EvalArgs& args, const ReducePlan& plan,
                          const NDArray& y) {
    Bounds* const bounds = args.bounds(0);
    SetAllBounds(plan.count, 0, bounds);
    if (args.dtype(0) == kFloat32 && bounds == nullptr) {
      RunFloats(args.in(0).As<float>(), plan, y, nullptr);
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      using W = decltype(zero);
      std::vector<W> copy;
      const W* const x = WideElements(args.in(0), &copy);
      if constexpr (std::is_same_v<W, double>) {
        RunFloats(x, plan, y, bounds);
      } else {
        RunIntegers(x, plan, y);
      }
      // No Bool is as small as the double that stands for no elements.
      if (IsBool(y.dtype()) && plan.terms == 0) {
        std::fill_n(y.As<uint8_t>(), plan.count, kOfNoBools);
      }
    });
  }
  // float32 without bounds, the usual case, is read and written in place.
  template <typename T>
  static void RunFloats(const T* x, const ReducePlan& plan, const NDArray& y,
                        Bounds* bounds) {
    ForEachSlice(plan, 1, [&](const Slice& slice) {
      const Part<T> part{plan, slice, x};
      double results[kSliceMost];
      Kind::Floats(part, results);
      if constexpr (std::is_same_v<T, float>) {
        float* const to = y.As<float>() + slice.out;
        for (int64_t j = 0; j < slice.n; ++j) {
          to[j] = static_cast<float>(results[j]);
        }
      } else {
        StoreDoubles(results, slice.out, slice.out + slice.n, y);
        if (bounds == nullptr) return;
        if constexpr (std::is_same_v<Kind, Prod>) {
          BoundProducts(part, y.dtype(), results, bounds);
        } else if constexpr (!kIsExtreme) {
          BoundSlice<Kind>(part, y.dtype(), results, bounds);
        }
      }
    });
  }
  // Shorter integers come as 64 bits, and lose their upper bits when they are
  // stored.
  template <typename T>
  static void RunIntegers(const T* x, const ReducePlan& plan,
                          const NDArray& y) {
    ForEachSlice(plan, 1, [&](const Slice& slice) {
      T results[kSliceMost];
      Kind::Integers(Part<T>{plan, slice, x}, results);
      if (Kind::kSaturates) Saturate(y.dtype(), slice.n, results);
      StoreWide(results, slice.out, slice.out + slice.n, y);
    });
  }
};

template <typename Class, typename Kind>
constexpr OperatorDef ReduceRow(std::string_view name, int axes_until,
                                const OperatorTraits& traits = {
                                    .form = "reduction"}) {
  return Row<Class, Reduce<Class, Kind>>({.name = name,
                                          .inputs = {"data", Optional("axes")},
                                          .outputs = {"reduced"},
                                          .moved = {{"axes", 1, axes_until}},
                                          .bound = kSum,
                                          .traits = traits});
}

constexpr OperatorDef kReduceOperators[] = {
    ReduceRow<ops::ReduceMean, MeanKind>("ReduceMean", 18),
    ReduceRow<ops::ReduceSum, SumKind>("ReduceSum", 13),
    ReduceRow<ops::ReduceMax, MaxKind>("ReduceMax", 18),
    ReduceRow<ops::ReduceMin, MinKind>("ReduceMin", 18),
    ReduceRow<ops::ReduceProd, Prod>("ReduceProd", 18),
    ReduceRow<ops::ReduceL1, L1>("ReduceL1", 18),
    ReduceRow<ops::ReduceL2, L2>("ReduceL2", 18),
    ReduceRow<ops::ReduceSumSquare, SumSquare>("ReduceSumSquare", 18),
    ReduceRow<ops::ReduceLogSumExp, LogSumExp>("ReduceLogSumExp", 18),
    ReduceRow<ops::ReduceLogSum, LogSum>("ReduceLogSum", 18, {}),
};

}  // namespace

absl::Span<const OperatorDef> ReduceOperators() { return kReduceOperators; }

}  // namespace nodewise
