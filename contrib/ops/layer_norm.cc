#include "nodewise/ops/layer_norm.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/norm_rows.h"
#include "contrib/ops/util/reduce_loops.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {
namespace {

// Scale and bias may be repeated over X, but not the other way round. If the
// list were the larger one, Y would not have the shape of X.
absl::Status CheckSpread(const Inputs& in, size_t i) {
  const TensorType& x = in.type(0);
  const TensorType& list = in.type(i);
  if (!in.has(i) || !x.has_rank() || !list.has_rank()) return absl::OkStatus();
  const Shape shapes[] = {*x.shape, *list.shape};
  const auto both = BroadcastShapes(shapes);
  if (both.ok() && AreCompatible(TensorType(x.dtype, *both), x)) {
    return absl::OkStatus();
  }
  return WrongInput(i,
                    "has shape {}, expected one that can be repeated over {}",
                    ToString(*list.shape), ToString(*x.shape));
}

// How scale or bias (input `i`) lies on the rows of X.
struct SpreadList {
  std::vector<double> values;
  bool is_single = false;  // One number for all.
  bool by_row = false;     // Has the size of X; else one row.
};
// The lists are mostly as long as a row, and are used as they are then.
// Anything else that broadcasts is written out to the size of X, which costs
// memory but keeps the loop over rows free of cases.
absl::StatusOr<SpreadList> SpreadOver(const EvalArgs& args, size_t i,
                                      int64_t run) {
  SpreadList list{ToDoubles(args.in(i))};
  const absl::Span<const int64_t> shape = args.shape(i);
  list.is_single = list.values.size() == 1;
  if (list.is_single) return list;
  // Rows are the last sides of X: a list with as many elements as a row, and no
  // more sides than a row has except sides of 1 in front, fits it unchanged.
  const absl::Span<const int64_t> x = args.shape(0);
  const absl::Span<const int64_t> shapes[] = {x, shape};
  NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, MakeBroadcast(shapes));
  bool is_row = static_cast<int64_t>(list.values.size()) == run;
  int64_t stride = 1;
  for (size_t k = 0; is_row && k < shape.size() && stride < run; ++k) {
    const int64_t side = shape[shape.size() - 1 - k];
    is_row = side == x[x.size() - 1 - k];
    stride *= side;
  }
  if (is_row) return list;
  std::vector<double> all(static_cast<size_t>(plan.count));
  ForEachRun(
      plan, 1,
      [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
        for (int64_t j = 0; j < n; ++j) {
          all[static_cast<size_t>(out + j)] =
              list.values[static_cast<size_t>(at[1] + j * steps[1])];
        }
      });
  list.values = std::move(all);
  list.by_row = true;
  return list;
}

// Returns a list of the length that the rule wants. Scale and bias may come in
// different forms. Both take the longer one, since a row is scaled and shifted
// in one loop.
std::vector<double> Stretched(SpreadList list, const NormRows& rule) {
  const auto size = static_cast<size_t>(rule.parts * rule.period);
  if (list.values.size() == size) return std::move(list.values);
  std::vector<double> stretched(size);
  for (size_t i = 0; i < size; ++i) {
    stretched[i] = list.values[i % list.values.size()];
  }
  return stretched;
}

// The sides before the axis count the rows, the others are the elements of a
// row.
absl::StatusOr<NormRows> RowsFrom(const EvalArgs& args, int64_t axis) {
  const absl::Span<const int64_t> shape = args.shape(0);
  NODEWISE_ASSIGN_OR_RETURN(const size_t side, FrontAxis(shape, axis));
  NormRows rule;
  rule.rows = Product(shape.first(side));
  rule.run = Product(shape.subspan(side));
  if (rule.rows * rule.run == 0) {
    rule.scale = {1};
    return rule;
  }
  NODEWISE_ASSIGN_OR_RETURN(SpreadList scale, SpreadOver(args, 1, rule.run));
  SpreadList bias;
  bias.is_single = true;
  if (args.has(2)) {
    NODEWISE_ASSIGN_OR_RETURN(bias, SpreadOver(args, 2, rule.run));
  }
  const bool is_single = scale.is_single && bias.is_single;
  rule.parts = is_single ? 1 : rule.run;
  rule.period = scale.by_row || bias.by_row ? rule.rows : 1;
  rule.scale = Stretched(std::move(scale), rule);
  if (args.has(2)) rule.bias = Stretched(std::move(bias), rule);
  return rule;
}

DLDataType StashTypeOf(DLDataType stash_type) { return stash_type; }
DLDataType StashTypeOf(int64_t stash_type) { return StashType(stash_type); }

// The rules of operators that normalize over all sides from an axis on. Single
// elements need the moments of their row only, so their bounds can be had
// without all others.
template <typename Class, int kFlops>
struct RowNorm : NormRules<Class, kFlops> {
  static constexpr auto Fields() {
    return FieldList(Field<&Class::axis>("axis"),
                     Field<&Class::epsilon>("epsilon"),
                     Field<&Class::stash_type>("stash_type"));
  }
  double LeastBound(const EvalArgs&) const { return LeastBoundOfNormalized(); }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    NODEWISE_ASSIGN_OR_RETURN(const NormRows rule, RuleOf(args));
    BoundNormalizedAt(args, rule, output, elements, bounds);
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<NormRows> RuleOf(const EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(NormRows rule, RowsFrom(args, this->axis));
    rule.epsilon = this->epsilon;
    rule.stash_type = StashTypeOf(this->stash_type);
    rule.is_centred = std::is_same_v<Class, ops::LayerNormalization>;
    return rule;
  }
};

// Mean and deviation are outputs of the type that a kernel calculates in, even
// where X is shorter.
struct LayerNormalization : RowNorm<ops::LayerNormalization, 6> {
  absl::Status Check(const Inputs& in) const {
    if (!IsFloat(stash_type)) {
      return AttributeError("stash_type", "is not a float, expected one");
    }
    return All(RequireFloat(in, 0), RequireAxis(in, axis), RequireSameType(in),
               CheckSpread(in, 1), CheckSpread(in, 2));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    TensorType statistics(stash_type);
    if (in.type(0).has_rank()) {
      NODEWISE_ASSIGN_OR_RETURN(const int side, Axis(axis, in.type(0).rank()));
      statistics.shape = in.type(0).shape;
      std::fill(statistics.shape->begin() + side, statistics.shape->end(), 1);
    }
    OutputInfos infos{in.type(0), statistics, statistics};
    infos.resize(outputs);
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NormRows rule, RuleOf(args));
    RowStatistics statistics;
    NODEWISE_RETURN_IF_ERROR(
        NormalizeRows(args, rule, args.dtype(0), &statistics));
    NODEWISE_RETURN_IF_ERROR(
        MakeStatistics(args, rule.rows, 1, statistics.mean));
    return MakeStatistics(args, rule.rows, 2, statistics.inverse_deviation);
  }

 private:
  absl::Status MakeStatistics(EvalArgs& args, int64_t rows, size_t output,
                              const std::vector<double>& values) const {
    if (!args.wants(output)) return absl::OkStatus();
    const auto x = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(const size_t side, FrontAxis(x, axis));
    std::vector<int64_t> shape(x.size(), 1);
    std::copy_n(x.begin(), side, shape.begin());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made,
                              args.MakeOutput(output, shape, stash_type));
    StoreDoubles(values.data(), 0, rows, made);
    // A sum and a function of it: no closer bound is needed.
    SetAllBounds(static_cast<int64_t>(values.size()), kUnknownError,
                 args.bounds(output));
    return absl::OkStatus();
  }
};

struct RMSNormalization : RowNorm<ops::RMSNormalization, 4> {
  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 0), RequireAxis(in, axis), RequireFloat(in, 1),
               CheckSpread(in, 1));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, in.type(1).dtype);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NormRows rule, RuleOf(args));
    return NormalizeRows(args, rule, args.dtype(1));
  }
};

// Calls f(i, j) with the place of each element of a slice; j counts the results
// of the reduction. The layout is that of the sums: results side by side, or
// one at a time.
template <typename F>
void ForEachReducedElement(const ReducePlan& plan, const Slice& slice, F f) {
  ForEachRow(plan, slice, [&](int64_t begin) {
    const int64_t n = plan.run == 1 ? slice.n : plan.run;
    for (int64_t i = 0; i < n; ++i) f(begin + i, plan.run == 1 ? i : 0);
  });
}

template <typename T, typename F>
void Rewrite(const ReducePlan& plan, const Slice& slice, const T* x, T* y,
             F f) {
  ForEachReducedElement(plan, slice, [&](int64_t i, int64_t j) {
    y[i] = FromDouble<T>(f(ToDouble(x[i]), j));
  });
}

// Sets the bounds of a slice's elements: f(x, j, n) is the effect of n
// roundings on an element; `expected` uses their square root.
template <typename T, typename F>
void BoundRewritten(const ReducePlan& plan, const Slice& slice, const T* x,
                    Bounds* bounds, F f) {
  const auto n = static_cast<double>(plan.terms);
  const double expected = std::min(n, kExpectedFactor * std::sqrt(n));
  ForEachReducedElement(plan, slice, [&](int64_t i, int64_t j) {
    const double value = ToDouble(x[i]);
    SumBound{f(value, j, n), f(value, j, expected)}.SetAt(
        static_cast<size_t>(i), bounds);
  });
}

// Makes output 0 like input 0, and calls f(plan, slice, x, y, bounds) for the
// slices of a reduction over some sides. Elements are floats or doubles.
// LpNormalization and MeanVarianceNormalization go over sides that need not be
// the last ones, so they use the plans of reductions: each slice is summed up
// first and rewritten afterwards.
template <typename F>
absl::Status ForEachReduced(EvalArgs& args, const std::vector<bool>& is_reduced,
                            F f) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, args.shape(0), args.dtype(0)));
  Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
  if (CountOf(y) == 0) return absl::OkStatus();
  const ReducePlan plan = MakeReducePlan(args.shape(0), is_reduced);
  const auto run = [&](const auto* from, auto* to) {
    ForEachSlice(plan, 3,
                 [&](const Slice& slice) { f(plan, slice, from, to, bounds); });
  };
  if (args.dtype(0) == kFloat32) {
    run(args.in(0).As<float>(), y.As<float>());
    return absl::OkStatus();
  }
  std::vector<double> copy;
  std::vector<double> results;
  run(WideElements(args.in(0), &copy), WideOutput(y, &results));
  StoreOutput(results, y);
  return absl::OkStatus();
}

// A row whose norm is 0 consists of zeros and stays as it is; by the formula it
// would be NaN.
struct LpNormalization : NormRules<ops::LpNormalization, 3> {
  static constexpr auto Fields() {
    return FieldList(Field<&LpNormalization::axis>("axis"),
                     Field<&LpNormalization::p>("p"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p != 1 && p != 2) {
      return WrongAttribute("p", "is {}, expected 1 or 2", p);
    }
    return All(RequireFloat(in, 0), RequireAxis(in, axis));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const size_t side,
                              FrontAxis(args.shape(0), axis));
    std::vector<bool> is_reduced(args.shape(0).size());
    is_reduced[side] = true;
    const DLDataType dtype = args.dtype(0);
    const bool squares = p == 2;
    return ForEachReduced(
        args, is_reduced,
        [&](const ReducePlan& plan, const Slice& slice, const auto* x, auto* y,
            Bounds* bounds) {
          double norms[kSliceMost];
          FoldSum(plan, slice, x, norms, [squares](double value, int64_t) {
            return squares ? value * value : std::fabs(value);
          });
          for (int64_t j = 0; j < slice.n; ++j) {
            if (squares) norms[j] = std::sqrt(norms[j]);
          }
          const auto normal = [&](double value, int64_t j) {
            return norms[j] == 0 ? 0 : value / norms[j];
          };
          Rewrite(plan, slice, x, y, normal);
          if (bounds == nullptr) return;
          // The sum may overflow in the type of a kernel although the quotient
          // would be small. If its squares underflow, relative errors have no
          // limit.
          const OverflowRule overflows(dtype);
          const auto n = static_cast<double>(plan.terms);
          BoundRewritten(
              plan, slice, x, bounds,
              [&](double value, int64_t j, double roundings) {
                const double result = normal(value, j);
                const double sum = squares ? norms[j] * norms[j] : norms[j];
                if (overflows(sum)) return kAnyError;
                // Squares may be subnormal, or underflow to 0.
                const double lost =
                    squares ? 2 * n * HalfUlp(dtype, 0) / sum : 0;
                if (lost >= 1) return kAnyError;
                return (1.01 * UnitRoundoff(dtype) * (roundings + 4) +
                        lost / (1 - lost)) *
                           std::fabs(result) +
                       2 * HalfUlp(dtype, result);
              });
        });
  }
};

struct MeanVarianceNormalization
    : NormRules<ops::MeanVarianceNormalization, 6> {
  // Keeps the deviation from being 0; it stands only in the standard's function
  // body.
  static constexpr double kTiny = 1e-9f;

  static constexpr auto Fields() {
    return FieldList(Field<&MeanVarianceNormalization::axes>("axes"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RequireFloat(in, 0));
    if (!in.type(0).has_rank()) return absl::OkStatus();
    return Axes(axes, in.type(0).rank()).status();
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const size_t rank = args.shape(0).size();
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                              Axes(axes, static_cast<int>(rank)));
    std::vector<bool> is_reduced(rank, axes.empty());
    for (const int side : sides) is_reduced[static_cast<size_t>(side)] = true;
    const DLDataType dtype = args.dtype(0);
    return ForEachReduced(
        args, is_reduced,
        [&](const ReducePlan& plan, const Slice& slice, const auto* x, auto* y,
            Bounds* bounds) { Run(plan, slice, x, y, dtype, bounds); });
  }

 private:
  template <typename T>
  static void Run(const ReducePlan& plan, const Slice& slice, const T* x, T* y,
                  DLDataType dtype, Bounds* bounds) {
    const auto n = static_cast<double>(plan.terms);
    double means[kSliceMost];
    double deviations[kSliceMost];
    FoldSum(plan, slice, x, means, [](double value, int64_t) { return value; });
    for (int64_t j = 0; j < slice.n; ++j) means[j] /= n;
    FoldSum(plan, slice, x, deviations, [&](double value, int64_t j) {
      return (value - means[j]) * (value - means[j]);
    });
    for (int64_t j = 0; j < slice.n; ++j) {
      deviations[j] = std::sqrt(deviations[j] / n);
    }
    Rewrite(plan, slice, x, y, [&](double value, int64_t j) {
      return (value - means[j]) / (deviations[j] + kTiny);
    });
    if (bounds == nullptr) return;
    // The variance is a difference of mean squares. A kernel may calculate it
    // so, and then loses digits where the mean is large. Beyond a relative
    // error of one half nothing can be said.
    const double u = UnitRoundoff(dtype);
    const double tiny = HalfUlp(dtype, 0);
    const OverflowRule overflows(dtype);
    BoundRewritten(
        plan, slice, x, bounds, [&](double value, int64_t j, double roundings) {
          const double variance = deviations[j] * deviations[j];
          const double squares = variance + means[j] * means[j];
          if (overflows(n * squares)) return kAnyError;
          const double of_mean =
              u * (roundings + 1) * std::sqrt(squares) + 2 * tiny;
          const double relative = (2 * u * (roundings + 4) * squares +
                                   of_mean * of_mean + (roundings + 4) * tiny) /
                                  variance;
          if (!(relative < 0.5)) return kUnknownError;
          const double distance = std::fabs(value - means[j]);
          return 1.01 * (of_mean + distance * (relative + 4 * u)) /
                     deviations[j] +
                 2 * HalfUlp(dtype, distance / deviations[j]);
        });
  }
};

constexpr OperatorDef kLayerNormOperators[] = {
    Row<ops::LayerNormalization, LayerNormalization>(
        "LayerNormalization", 17, {"X", "Scale", Optional("B")},
        {"Y", Optional("Mean"), Optional("InvStdDev")}, kSum),
    Row<ops::RMSNormalization, RMSNormalization>("RMSNormalization", 23,
                                                 {"X", "scale"}, {"Y"}, kSum),
    Row<ops::LpNormalization, LpNormalization>("LpNormalization", 1, {"input"},
                                               {"output"}, kSum),
    Row<ops::MeanVarianceNormalization, MeanVarianceNormalization>(
        "MeanVarianceNormalization", 9, {"X"}, {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> LayerNormOperators() {
  return kLayerNormOperators;
}

}  // namespace nodewise
