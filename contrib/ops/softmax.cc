#include "nodewise/ops/softmax.h"

#include <climits>
#include <map>
#include <type_traits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/kernels/vector_math.h"

namespace nodewise {

using ops::LossAttributes;
using ops::Reduction;
template <>
struct Words<Reduction> {
  static constexpr std::pair<Reduction, std::string_view> kAll[] = {
      {Reduction::kNone, "none"},
      {Reduction::kSum, "sum"},
      {Reduction::kMean, "mean"}};
};

namespace {

// Softmax, its logarithm, Hardmax and the losses that are made of them are all
// calculated from distances to the largest element: no exponential overflows
// then, and the largest is exactly 1. Elements of a distribution are copied
// into a buffer of doubles, worked on in place and rounded once on their way
// out, so that y may be the memory of x.

// Columns that are worked on together where elements of one distribution do not
// lie side by side.
constexpr int64_t kColumns = 64;

// There is one distribution for each outer and inner place of an AxisSplit.
// Softmax along a side in the middle has distributions whose elements are
// `inner` apart.

// From opset 13 on the axis is one side.
struct OneSide {
  static absl::Status Check(int64_t axis, int rank) {
    return Axis(axis, rank).status();
  }
  static AxisSplit LayoutAlong(absl::Span<const int64_t> shape, int axis) {
    return SplitAt(shape, axis);
  }
};
// Before opset 13, all sides from the axis on were one; the axis may lie after
// the last side, which leaves distributions of one element.
struct SidesFrom {
  static absl::Status Check(int64_t axis, int rank) {
    if (axis == rank) return absl::OkStatus();
    return Axis(axis, rank).status();
  }
  static AxisSplit LayoutAlong(absl::Span<const int64_t> shape, int axis) {
    const auto side = static_cast<size_t>(axis);
    return {Product(shape.first(side)), Product(shape.subspan(side))};
  }
};

// One distribution, or some side by side: element i of column j is x[i * step +
// j], its result y[i * columns + j].
struct Block {
  int64_t size;
  int64_t columns;
};

// On the stack: there is one for each of the few columns of a block.
struct Peaks {
  double values[kColumns];
};

// Partial results of one distribution whose elements lie side by side.
// Compilers vectorise them because they are independent.
constexpr int64_t kLanes = 8;
// NaN is not larger. It makes the exponential of its own distance NaN, and
// thereby the sum.
double LargerOf(double peak, double x) { return x > peak ? x : peak; }
template <typename F>
double FoldLanes(const double* x, int64_t size, double first, F f) {
  double lanes[kLanes];
  std::fill_n(lanes, kLanes, first);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = f(lanes[k], x[i + k]);
  }
  for (; i < size; ++i) lanes[0] = f(lanes[0], x[i]);
  double total = first;
  for (const double lane : lanes) total = f(total, lane);
  return total;
}

Peaks PeaksOf(const double* x, const Block& block) {
  Peaks peaks;
  if (block.columns == 1) {
    peaks.values[0] = FoldLanes(
        x, block.size, -std::numeric_limits<double>::infinity(),
        [](double peak, double number) { return LargerOf(peak, number); });
    return peaks;
  }
  std::fill(peaks.values, peaks.values + block.columns,
            -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < block.size; ++i) {
    const double* const row = x + i * block.columns;
    for (int64_t j = 0; j < block.columns; ++j) {
      peaks.values[j] = LargerOf(peaks.values[j], row[j]);
    }
  }
  return peaks;
}

// x = f(x, number of its column) for all elements.
template <typename F>
void Replace(const Block& block, double* x, F f) {
  if (block.columns == 1) {
    for (int64_t i = 0; i < block.size; ++i) x[i] = f(x[i], 0);
    return;
  }
  for (int64_t i = 0; i < block.size; ++i) {
    double* const row = x + i * block.columns;
    for (int64_t j = 0; j < block.columns; ++j) row[j] = f(row[j], j);
  }
}

// Replaces the elements by exponentials of their distance from the largest.
// Returns the sums. ExpAll() takes the whole block, which is what its speed
// comes from.
Peaks Exponentiate(const Peaks& peaks, const Block& block, double* x) {
  Replace(block, x, [&](double y, int64_t j) { return y - peaks.values[j]; });
  ExpAll(x, block.size * block.columns);
  Peaks sums{};
  if (block.columns == 1) {
    sums.values[0] = FoldLanes(x, block.size, 0, [](double sum, double number) {
      return sum + number;
    });
    return sums;
  }
  for (int64_t i = 0; i < block.size; ++i) {
    const double* const row = x + i * block.columns;
    for (int64_t j = 0; j < block.columns; ++j) sums.values[j] += row[j];
  }
  return sums;
}

// The argument of an exponential is rounded in proportion to its distance from
// the largest element, so the bounds of the sum depend on these distances.
struct Spread {
  double distance = 0;  // Average distance from the largest element.
  double squares = 0;   // The sum of the squared probabilities.
};
// Both follow from the logarithms of the probabilities, so that the bounds need
// no second pass over the input.
std::vector<Spread> SpreadsOf(const std::vector<double>& logs,
                              const Block& block) {
  std::vector<Spread> spreads(static_cast<size_t>(block.columns));
  for (int64_t i = 0; i < block.size; ++i) {
    for (int64_t j = 0; j < block.columns; ++j) {
      const double log = logs[static_cast<size_t>(i * block.columns + j)];
      const double probability = std::exp(log);
      Spread& spread = spreads[static_cast<size_t>(j)];
      if (probability > 0) spread.distance -= probability * log;
      spread.squares += probability * probability;
    }
  }
  return spreads;
}

// An exponential and a logarithm are off by as many roundings.
constexpr double kFunctionRoundings = 8;

// Errors of the sum of exponentials, relative to it.
SumBound SumErrors(const Spread& spread, double terms, DLDataType dtype) {
  const double u = UnitRoundoff(dtype);
  const double common =
      u * (spread.distance + kFunctionRoundings) + terms * HalfUlp(dtype, 0);
  return {u * terms + common, kExpectedFactor * u * std::sqrt(terms) *
                                      (1 + std::sqrt(spread.squares)) +
                                  common};
}

struct Softmax {
  static void Run(const Block& block, double* x) {
    const Peaks sums = Exponentiate(PeaksOf(x, block), block, x);
    Replace(block, x, [&](double y, int64_t j) { return y / sums.values[j]; });
  }
  // Returns the error of a probability e^log.
  static double Error(double log, double of_sum, DLDataType dtype) {
    const double u = UnitRoundoff(dtype);
    const double y = std::exp(log);
    const double distance = y > 0 ? -log : 0;
    const double relative = of_sum + u * (distance + kFunctionRoundings);
    return 1.01 * y * relative + 2 * HalfUlp(dtype, y) + 8 * HalfUlp(dtype, 0);
  }
  // In the relative error, distances are 0 or more. That y is rounded, and may
  // be subnormal, is within the hundredth and the terms behind it.
  static double LeastBound(double terms) {
    constexpr double kMost = 1024;
    return std::min(kMost, std::min(terms, kExpectedFactor * std::sqrt(terms)) +
                               2 * kFunctionRoundings);
  }
};

struct LogSoftmax {
  static void Run(const Block& block, double* x) {
    std::vector<double> shifted(x, x + block.size * block.columns);
    const Peaks peaks = PeaksOf(x, block);
    const Peaks sums = Exponentiate(peaks, block, shifted.data());
    double logs[kColumns];
    for (int64_t j = 0; j < block.columns; ++j) {
      logs[j] = std::log(sums.values[j]);
    }
    Replace(block, x, [&](double y, int64_t j) {
      return (y - peaks.values[j]) - logs[j];
    });
  }
  static double Error(double log, double of_sum, DLDataType dtype) {
    // The distance and the logarithm of the sum are rounded, their difference
    // too.
    const double u = UnitRoundoff(dtype);
    return 1.01 * of_sum + 4 * u * std::fabs(log) +
           kFunctionRoundings * u * std::max(1.0, std::fabs(log));
  }
  // Error() has 4 + kFunctionRoundings roundings of the logarithm; one is left
  // out, since the logarithm that it is given is rounded itself.
  static double LeastBound(double) { return 3 + kFunctionRoundings; }
};

// 1 for the first of the largest elements (NaN is larger than all), 0 for the
// others.
struct Hardmax {
  static void Run(const Block& block, double* x) {
    Peaks peaks = PeaksOf(x, block);
    for (int64_t i = 0; i < block.size * block.columns; ++i) {
      if (std::isnan(x[i])) peaks.values[i % block.columns] = x[i];
    }
    bool is_found[kColumns] = {};
    for (int64_t i = 0; i < block.size; ++i) {
      for (int64_t j = 0; j < block.columns; ++j) {
        double& y = x[i * block.columns + j];
        const double peak = peaks.values[j];
        const bool is_peak = y == peak || (std::isnan(y) && std::isnan(peak));
        y = is_peak && !is_found[j] ? 1 : 0;
        is_found[j] |= is_peak;
      }
    }
  }
  static double LeastBound(double) { return 0; }
};

// `Kind` is what is calculated and how far it may be off, `Rule` which sides
// are one distribution: six operators from three kinds and two rules.
template <typename Class, typename Kind, typename Rule>
struct Distribution : Class {
  using Class::axis;

  static constexpr auto Fields() {
    return FieldList(Field<&Class::axis>("axis"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RequireFloat(in, 0));
    if (!in.type(0).has_rank()) return absl::OkStatus();
    return Rule::Check(axis, in.type(0).rank());
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray y,
        args.MakeOutputOver(0, 0, args.shape(0), args.dtype(0)));
    const AxisSplit layout = LayoutOf(args);
    Bounds* const bounds = args.bounds(0);
    SetAllBounds(CountOf(y), 0, bounds);
    if (CountOf(y) == 0) return absl::OkStatus();
    // Blocks take neighbouring columns together where a distribution does not
    // lie in a row: reading it element by element would load a line of the
    // cache for each.
    const int64_t columns = std::min(layout.inner, kColumns);
    const int64_t blocks = (layout.inner + columns - 1) / columns;
    const double work = 6 * static_cast<double>(layout.size * columns);
    ParallelFor(layout.outer * blocks, work, [&](int64_t begin, int64_t end) {
      std::vector<double> buffer(static_cast<size_t>(layout.size * columns));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % blocks * columns;
        const Block block{layout.size, std::min(columns, layout.inner - first)};
        const int64_t at = i / blocks * layout.size * layout.inner + first;
        Load(args.in(0), at, layout.inner, block, buffer.data());
        if (bounds != nullptr) {
          FillBounds(buffer, at, layout.inner, block, args.dtype(0), bounds);
        }
        Kind::Run(block, buffer.data());
        Store(buffer.data(), at, layout.inner, block, y);
      }
    });
    return absl::OkStatus();
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 4 * CountOf(out[0]);
  }
  double LeastBound(const EvalArgs& args) const {
    const AxisSplit layout = LayoutOf(args);
    return Kind::LeastBound(static_cast<double>(layout.size));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    ResizeBounds(static_cast<int64_t>(elements.size()), bounds);
    const AxisSplit layout = LayoutOf(args);
    const int64_t inner = layout.inner;
    // The elements of each distribution, by their places in the list. They come
    // in the order of the output, in which distributions along an outer side
    // are interleaved.
    std::map<int64_t, std::vector<size_t>> places;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t first =
          elements[i] / (layout.size * inner) * layout.size * inner +
          elements[i] % inner;
      places[first].push_back(i);
    }
    const Block block{layout.size, 1};
    std::vector<double> logs(static_cast<size_t>(layout.size));
    for (const auto& [first, of_one] : places) {
      Load(args.in(0), first, inner, block, logs.data());
      const Spread spread = LogarithmsOf(block, &logs)[0];
      for (const size_t i : of_one) {
        const auto at = static_cast<size_t>((elements[i] - first) / inner);
        BoundOf(logs[at], spread, layout.size, output.dtype()).SetAt(i, bounds);
      }
    }
    return absl::OkStatus();
  }

 private:
  AxisSplit LayoutOf(const EvalArgs& args) const {
    const auto rank = static_cast<int64_t>(args.shape(0).size());
    return Rule::LayoutAlong(args.shape(0),
                             static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  static void Load(const NDArray& x, int64_t at, int64_t step,
                   const Block& block, double* to) {
    if (step == 1) return LoadDoubles(x, at, at + block.size, to);
    for (int64_t i = 0; i < block.size; ++i) {
      const int64_t row = at + i * step;
      LoadDoubles(x, row, row + block.columns, to + i * block.columns);
    }
  }
  static void Store(const double* from, int64_t at, int64_t step,
                    const Block& block, const NDArray& y) {
    if (step == 1) return StoreDoubles(from, at, at + block.size, y);
    for (int64_t i = 0; i < block.size; ++i) {
      const int64_t row = at + i * step;
      StoreDoubles(from + i * block.columns, row, row + block.columns, y);
    }
  }
  static void FillBounds(std::vector<double> logs, int64_t at, int64_t step,
                         const Block& block, DLDataType dtype, Bounds* bounds) {
    const std::vector<Spread> spreads = LogarithmsOf(block, &logs);
    for (int64_t i = 0; i < block.size; ++i) {
      for (int64_t j = 0; j < block.columns; ++j) {
        const SumBound bound =
            BoundOf(logs[static_cast<size_t>(i * block.columns + j)],
                    spreads[static_cast<size_t>(j)], block.size, dtype);
        bound.SetAt(static_cast<size_t>(at + i * step + j), bounds);
      }
    }
  }
  // Replaces the inputs by the logarithms of their probabilities.
  static std::vector<Spread> LogarithmsOf(const Block& block,
                                          std::vector<double>* x) {
    if (std::is_same_v<Kind, Hardmax>) {
      return std::vector<Spread>(static_cast<size_t>(block.columns));
    }
    LogSoftmax::Run(block, x->data());
    return SpreadsOf(*x, block);
  }
  static SumBound BoundOf(double log, const Spread& spread, int64_t size,
                          DLDataType dtype) {
    if constexpr (std::is_same_v<Kind, Hardmax>) {
      return {0, 0};
    } else {
      const SumBound sum = SumErrors(spread, static_cast<double>(size), dtype);
      return {Kind::Error(log, sum.proved, dtype),
              Kind::Error(log, sum.expected, dtype)};
    }
  }
};

template <typename Class, typename Kind, typename Rule>
constexpr OperatorDef SoftmaxRow(const char* name, int since,
                                 const OperatorTraits& traits = {
                                     .form = "softmax"}) {
  return Row<Class, Distribution<Class, Kind, Rule>>(name, since, {"input"},
                                                     {"output"}, kSum, traits);
}

constexpr auto LossFields() {
  return FieldList(Field<&LossAttributes::ignore_index>("ignore_index"),
                   Field<&LossAttributes::reduction>("reduction"));
}

absl::Status CheckLoss(const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireIndex(in, 1), RequireFloat(in, 2),
          RequireRank(in, 0, 2, INT_MAX), RequireRank(in, 2, 1)));
  const auto scores = in.type(0).sizes();
  const auto labels = in.type(1).sizes();
  const auto weights = in.type(2).sizes();
  if (scores.has_value() && labels.has_value()) {
    std::vector<int64_t> expected = *scores;
    expected.erase(expected.begin() + 1);
    if (*labels != expected) {
      return InputError(1, "has another shape than input 0 without side 1");
    }
  }
  if (scores.has_value() && in.has(2) && weights.has_value() &&
      (*weights)[0] != (*scores)[1]) {
    return InputError(2, "has not one number for each class of input 0");
  }
  return absl::OkStatus();
}

OutputInfo InferLoss(const Inputs& in, Reduction reduction) {
  TensorType loss(in.type(0).dtype);
  if (reduction != Reduction::kNone) {
    loss.shape = Shape();
  } else if (in.type(1).has_rank()) {
    loss.shape = in.type(1).shape;
  } else if (in.type(0).has_rank()) {
    loss.shape = in.type(0).shape;
    loss.shape->erase(loss.shape->begin() + 1);
  }
  return loss;
}

// Logarithms of probabilities, with how far each may be off.
// NegativeLogLikelihoodLoss is given logarithms that are exact by definition;
// SoftmaxCrossEntropyLoss calculates them, and their errors go into its loss.
struct LogProbabilities {
  std::vector<double> values;
  Bounds bounds;  // Empty unless they are wanted.
};

struct Losses {
  std::vector<double> values;   // By label.
  std::vector<double> weights;  // By label; 0 where it is ignored.
  Bounds bounds;                // Likewise.
};

// Labels are data and are checked here: one that is out of range would read
// beyond a row. A label that is ignored has a loss and a weight of 0, so that
// neither a sum nor a mean counts it.
absl::StatusOr<Losses> LossesOf(const EvalArgs& args,
                                const LogProbabilities& logs,
                                const LossAttributes& rule) {
  const absl::Span<const int64_t> shape = args.shape(0);
  const int64_t classes = shape[1];
  const int64_t inner = Product(shape.subspan(2));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, args.Ints(1));
  const std::vector<double> weights = GivenDoubles(args, 2);
  Losses losses;
  losses.values.resize(labels.size());
  losses.weights.resize(labels.size());
  ResizeBounds(static_cast<int64_t>(labels.size()), &losses.bounds);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (rule.ignore_index == labels[i]) continue;
    if (labels[i] < 0 || labels[i] >= classes) {
      return WrongInput(1, "label {} is {}, expected 0 to {}", i, labels[i],
                        classes - 1);
    }
    const auto place = static_cast<int64_t>(i);
    const auto at = static_cast<size_t>(
        (place / inner * classes + labels[i]) * inner + place % inner);
    const double weight =
        weights.empty() ? 1 : weights[static_cast<size_t>(labels[i])];
    losses.weights[i] = weight;
    losses.values[i] = -logs.values[at] * weight;
    if (logs.bounds.proved.empty()) continue;
    SumBound{logs.bounds.proved[at] * std::fabs(weight),
             logs.bounds.expected[at] * std::fabs(weight)}
        .SetAt(i, &losses.bounds);
  }
  return losses;
}

// Reduces all losses to one number, with its bound. A mean is weighted: it
// divides by the sum of the weights, not by the number of labels.
void StoreReduced(EvalArgs& args, const Losses& losses, bool is_mean,
                  const NDArray& y) {
  SumOfTerms sum{static_cast<double>(losses.values.size())};
  double proved = 0;
  double expected = 0;
  double weight = 0;
  for (size_t i = 0; i < losses.values.size(); ++i) {
    sum.Add(losses.values[i]);
    weight += losses.weights[i];
    proved += losses.bounds.proved[i];
    expected += losses.bounds.expected[i];
  }
  const double divisor = is_mean ? weight : 1;
  const double result = sum.result / divisor;
  StoreDoubles(&result, 0, 1, y);
  Bounds* const bounds = args.bounds(0);
  if (bounds == nullptr) return;
  const SumBound bound = BoundSum(y.dtype(), sum);
  // The divisor is a sum too.
  const double u = UnitRoundoff(y.dtype()) * std::fabs(result);
  const double root = kExpectedFactor * std::sqrt(sum.terms);
  const double rounding = 4 * HalfUlp(y.dtype(), result);
  const double size = std::fabs(divisor);
  bounds->proved = {(bound.proved + proved) / size + rounding +
                    (is_mean ? 1.01 * u * sum.terms : 0)};
  bounds->expected = {(bound.expected + expected) / size + rounding +
                      (is_mean ? u * std::min(root, sum.terms) : 0)};
}

absl::Status StoreLoss(EvalArgs& args, const LogProbabilities& logs,
                       const LossAttributes& rule) {
  NODEWISE_ASSIGN_OR_RETURN(const Losses losses, LossesOf(args, logs, rule));
  const bool is_reduced = rule.reduction != Reduction::kNone;
  const absl::Span<const int64_t> shape =
      is_reduced ? absl::Span<const int64_t>() : args.shape(1);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, shape, args.dtype(0)));
  if (is_reduced) {
    StoreReduced(args, losses, rule.reduction == Reduction::kMean, y);
    return absl::OkStatus();
  }
  StoreDoubles(losses.values.data(), 0, CountOf(y), y);
  if (Bounds* const bounds = args.bounds(0)) {
    *bounds = losses.bounds;
    for (size_t i = 0; i < losses.values.size(); ++i) {
      const double rounding = 4 * HalfUlp(y.dtype(), losses.values[i]);
      bounds->proved[i] += rounding;
      bounds->expected[i] += rounding;
    }
  }
  return absl::OkStatus();
}

struct NegativeLogLikelihoodLoss : ops::NegativeLogLikelihoodLoss {
  static constexpr auto Fields() { return LossFields(); }
  absl::Status Check(const Inputs& in) const { return CheckLoss(in); }
  OutputInfos Infer(const Inputs& in) const {
    return {InferLoss(in, reduction)};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    LogProbabilities logs;
    logs.values = ToDoubles(args.in(0));
    return StoreLoss(args, logs, *this);
  }
};

struct SoftmaxCrossEntropyLoss : ops::SoftmaxCrossEntropyLoss {
  static constexpr auto Fields() { return LossFields(); }
  absl::Status Check(const Inputs& in) const { return CheckLoss(in); }
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const {
    OutputInfos infos{InferLoss(in, reduction), in.type(0)};
    infos.resize(num_outputs);
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const LogProbabilities logs = LogSoftmaxOf(args);
    NODEWISE_RETURN_IF_ERROR(StoreLoss(args, logs, *this));
    if (!args.wants(1)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(1, args.shape(0), args.dtype(0)));
    StoreDoubles(logs.values.data(), 0, CountOf(y), y);
    if (Bounds* const bounds = args.bounds(1)) *bounds = logs.bounds;
    return absl::OkStatus();
  }

 private:
  static LogProbabilities LogSoftmaxOf(EvalArgs& args) {
    const absl::Span<const int64_t> shape = args.shape(0);
    const int64_t inner = Product(shape.subspan(2));
    const int64_t step = shape[1] * inner;
    LogProbabilities logs;
    logs.values = ToDoubles(args.in(0));
    if (step == 0) return logs;
    for (int64_t place = 0; place < shape[0] * inner; ++place) {
      double* const x =
          logs.values.data() + place / inner * step + place % inner;
      ReplaceByLogs(x, shape[1], inner);
    }
    if (args.bounds(0) == nullptr) return logs;
    // A sum of exponentials, and two subtractions, like LogSoftmax.
    const double u = UnitRoundoff(args.dtype(0));
    const auto classes = static_cast<double>(shape[1]);
    const double root = std::min(classes, kExpectedFactor * std::sqrt(classes));
    for (const double log : logs.values) {
      const double common = 32 * u * std::max(1.0, std::fabs(log));
      SumBound{1.01 * u * classes + common, 2 * u * root + common}.AppendTo(
          &logs.bounds);
    }
    return logs;
  }
  // NaN becomes the largest, so that a row with one is NaN throughout, as it is
  // for kernels.
  static void ReplaceByLogs(double* x, int64_t classes, int64_t step) {
    double peak = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < classes; ++c) {
      peak = x[c * step] > peak || std::isnan(x[c * step]) ? x[c * step] : peak;
    }
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c * step] - peak);
    const double log = std::log(sum);
    for (int64_t c = 0; c < classes; ++c) {
      x[c * step] = x[c * step] - peak - log;
    }
  }
};

constexpr OperatorDef kSoftmaxOperators[] = {
    SoftmaxRow<ops::Softmax1, Softmax, SidesFrom>("Softmax", 1),
    SoftmaxRow<ops::Softmax, Softmax, OneSide>("Softmax", 13),
    SoftmaxRow<ops::LogSoftmax1, LogSoftmax, SidesFrom>("LogSoftmax", 1),
    SoftmaxRow<ops::LogSoftmax, LogSoftmax, OneSide>("LogSoftmax", 13),
    SoftmaxRow<ops::Hardmax1, Hardmax, SidesFrom>("Hardmax", 1, {}),
    SoftmaxRow<ops::Hardmax, Hardmax, OneSide>("Hardmax", 13, {}),
    Row<ops::NegativeLogLikelihoodLoss, NegativeLogLikelihoodLoss>(
        "NegativeLogLikelihoodLoss", 12,
        {"input", "target", Optional("weight")}, {"loss"}, kSum),
    Row<ops::SoftmaxCrossEntropyLoss, SoftmaxCrossEntropyLoss>(
        "SoftmaxCrossEntropyLoss", 12,
        {"scores", "labels", Optional("weights")},
        {"output", Optional("log_prob")}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> SoftmaxOperators() { return kSoftmaxOperators; }

}  // namespace nodewise
