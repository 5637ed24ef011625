#include "nodewise/ops/loss.h"

#include <climits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"

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
struct LogProbabilities {
  std::vector<double> values;
  std::vector<double> proved;  // Empty unless bounds are wanted.
  std::vector<double> expected;
};

struct Losses {
  std::vector<double> values;   // By label.
  std::vector<double> weights;  // By label; 0 where it is ignored.
  std::vector<double> proved;
  std::vector<double> expected;
};

absl::StatusOr<Losses> LossesOf(const EvalArgs& args,
                                const LogProbabilities& logs,
                                const LossAttributes& rule) {
  const absl::Span<const int64_t> shape = args.shape(0);
  const int64_t classes = shape[1];
  const int64_t inner = Product(shape.subspan(2));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, args.Ints(1));
  const std::vector<double> weights =
      args.has(2) ? ToDoubles(args.in(2)) : std::vector<double>();
  Losses losses;
  losses.values.resize(labels.size());
  losses.weights.resize(labels.size());
  losses.proved.resize(labels.size());
  losses.expected.resize(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (rule.ignore_index == labels[i]) continue;
    if (labels[i] < 0 || labels[i] >= classes) {
      return InputError(1, fmt::format("label {} is {}, expected 0 to {}", i,
                                       labels[i], classes - 1));
    }
    const auto place = static_cast<int64_t>(i);
    const auto at = static_cast<size_t>(
        (place / inner * classes + labels[i]) * inner + place % inner);
    const double weight =
        weights.empty() ? 1 : weights[static_cast<size_t>(labels[i])];
    losses.weights[i] = weight;
    losses.values[i] = -logs.values[at] * weight;
    if (logs.proved.empty()) continue;
    losses.proved[i] = logs.proved[at] * std::fabs(weight);
    losses.expected[i] = logs.expected[at] * std::fabs(weight);
  }
  return losses;
}

// Reduces all losses to one number, with its bound.
void StoreReduced(EvalArgs& args, const Losses& losses, bool is_mean,
                  const NDArray& y) {
  SumOfTerms sum{static_cast<double>(losses.values.size())};
  double proved = 0;
  double expected = 0;
  double weight = 0;
  for (size_t i = 0; i < losses.values.size(); ++i) {
    sum.absolute += std::fabs(losses.values[i]);
    sum.squares += losses.values[i] * losses.values[i];
    sum.result += losses.values[i];
    weight += losses.weights[i];
    proved += losses.proved[i];
    expected += losses.expected[i];
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
    bounds->proved = losses.proved;
    bounds->expected = losses.expected;
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
    if (Bounds* const bounds = args.bounds(1)) {
      bounds->proved = logs.proved;
      bounds->expected = logs.expected;
    }
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
      logs.proved.push_back(1.01 * u * classes + common);
      logs.expected.push_back(2 * u * root + common);
    }
    return logs;
  }
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

constexpr OperatorDef kLossOperators[] = {
    Row<ops::NegativeLogLikelihoodLoss, NegativeLogLikelihoodLoss>(
        {.name = "NegativeLogLikelihoodLoss",
         .since = 12,
         .inputs = {"input", "target", Optional("weight")},
         .outputs = {"loss"},
         .bound = kSum}),
    Row<ops::SoftmaxCrossEntropyLoss, SoftmaxCrossEntropyLoss>(
        {.name = "SoftmaxCrossEntropyLoss",
         .since = 12,
         .inputs = {"scores", "labels", Optional("weights")},
         .outputs = {"output", Optional("log_prob")},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> LossOperators() { return kLossOperators; }

}  // namespace nodewise
