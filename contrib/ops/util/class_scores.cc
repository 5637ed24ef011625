#include "contrib/ops/util/class_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/util/elementwise.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Bounds travel with the scores through each transform. Where kernels are known
// to differ, in the approximation of a function or in what they leave unset,
// the bound is widened rather than one of them declared right.

// onnxruntime takes smaller scores for 0.
constexpr double kZero = 1e-7;

double Logistic(double x, double /*unused*/) { return 1 / (1 + std::exp(-x)); }

// The inverse of the error function as onnxruntime approximates it: the formula
// of Winitzki with the constant 0.147.
double InverseErf(double x) {
  constexpr double kConstant = 0.147;
  constexpr double kPi = 3.14159;
  const double log = std::log((1 - x) * (1 + x));
  const double half = 2 / (kPi * kConstant) + log / 2;
  const double root =
      std::sqrt(std::sqrt(half * half - log / kConstant) - half);
  return x < 0 ? -root : root;
}
double Probit(double x, double /*unused*/) {
  return std::sqrt(2.0) * InverseErf(2 * x - 1);
}

// Kernels may use the exact function or another approximation.
Approximate OpenProbit(const Approximate& x) {
  constexpr double kRelative = 0.005;
  constexpr double kNearZero = 0.002;
  // 2 x - 1 is rounded where it is next to -1 or 1.
  const double u = UnitRoundoff(kFloat32);
  Approximate y =
      ApplyWithError(&Probit, 0, {x.value, x.proved + u, x.expected + u}, 4);
  const double open = kRelative * std::fabs(y.value) + kNearZero;
  y.proved += open;
  y.expected += open;
  return y;
}

// A kernel may calculate 1 - y where y is nearly 1.
Approximate LogisticOf(const Approximate& x) {
  Approximate y = ApplyWithError(&Logistic, 0, x, 8);
  y.proved += UnitRoundoff(kFloat32) * 2;
  y.expected += UnitRoundoff(kFloat32) * 2;
  return y;
}

// The maximum begins with the lowest float, not with minus infinity, so that
// scores of minus infinity alone do not give NaN.
double LargestValue(const Scores& scores) {
  double largest = -static_cast<double>(std::numeric_limits<float>::max());
  for (const Approximate& score : scores) {
    if (score.value > largest) largest = score.value;
  }
  return largest;
}

// A score x becomes e^(x - largest) over the sum of all such. With `zero` above
// 0, scores of at most that size are left out of the sum, and become x
// e^-largest over it.
void Softmax(double zero, Scores* scores) {
  const double largest = LargestValue(*scores);
  double sum = 0;
  Approximate most;
  bool is_open = false;
  for (const Approximate& score : *scores) {
    most.proved = std::max(most.proved, score.proved);
    most.expected = std::max(most.expected, score.expected);
    const double size = std::fabs(score.value);
    if (zero > 0 && std::fabs(size - zero) <= score.proved) is_open = true;
    if (size > zero || zero == 0) sum += std::exp(score.value - largest);
  }
  const double steps =
      static_cast<double>(scores->size() + 8) * 2 * UnitRoundoff(kFloat32);
  for (Approximate& score : *scores) {
    const bool counts = std::fabs(score.value) > zero || zero == 0;
    const double y = counts ? std::exp(score.value - largest) / sum
                            : score.value * std::exp(-largest) / sum;
    const auto bound = [&](double error, double own) {
      const double near = std::fabs(y) * (std::expm1(2 * error) + steps);
      const double zeros = counts ? 0 : own * std::exp(-largest + error) / sum;
      return is_open ? kAnyError : near + zeros + HalfUlp(kFloat32, y);
    };
    score = {y, bound(most.proved, score.proved),
             bound(most.expected, score.expected)};
  }
}

}  // namespace

Approximate Approximate::FromSum(const SumOfTerms& sum) {
  const SumBound bound = BoundSum(kFloat32, sum);
  return {sum.result, bound.proved, bound.expected};
}

Approximate Approximate::Rounded() const {
  const double half = HalfUlp(kFloat32, value);
  return {value, proved + half, expected + half};
}

Approximate Plus(const Approximate& a, const Approximate& b) {
  return {a.value + b.value, a.proved + b.proved, a.expected + b.expected};
}

Approximate Times(const Approximate& a, double factor) {
  const double size = std::fabs(factor);
  return {a.value * factor, a.proved * size, a.expected * size};
}

// Both ends of the range of x are tried: for a monotonous function nothing
// between them is further off.
Approximate ApplyWithError(double (*f)(double x, double parameter),
                           double parameter, const Approximate& x,
                           double ulps) {
  const double y = f(x.value, parameter);
  const auto bound = [&](double error) {
    const double up = std::fabs(f(x.value + error, parameter) - y);
    const double down = std::fabs(f(x.value - error, parameter) - y);
    // The bound is NaN where either difference is.
    const double most = up > down || std::isnan(up) ? up : down;
    return most + ulps * 2 * HalfUlp(kFloat32, y);
  };
  return {y, bound(x.proved), bound(x.expected)};
}

void Transform(PostTransform transform, Scores* scores) {
  const bool is_alone = scores->size() == 1;
  if (transform == PostTransform::kProbit) {
    for (Approximate& score : *scores) score = OpenProbit(score);
  }
  if (is_alone) return;
  if (transform == PostTransform::kLogistic) {
    for (Approximate& score : *scores) score = LogisticOf(score);
  }
  if (transform == PostTransform::kSoftmax) Softmax(0, scores);
  if (transform == PostTransform::kSoftmaxZero) Softmax(kZero, scores);
}

void TransformToTwo(PostTransform transform, OtherClass other, Scores* scores) {
  const Approximate score = (*scores)[0];
  const Approximate negative = Times(score, -1);
  Approximate complement = Plus({1, 0, 0}, negative).Rounded();
  if (transform == PostTransform::kLogistic) {
    *scores = {LogisticOf(negative), LogisticOf(score)};
  } else if (transform == PostTransform::kProbit) {
    // onnxruntime leaves the score of the other class uninitialized.
    complement = OpenProbit(complement);
    *scores = {complement, OpenProbit(score)};
    for (Approximate& each : *scores) each.proved = each.expected = kAnyError;
  } else if (other == OtherClass::kComplement) {
    *scores = {complement, score};
  } else {
    *scores = {negative, score};
  }
}

// Two scores that may be off by more than lies between them leave the class
// open.
Winner Largest(const Scores& scores) {
  Winner winner;
  for (size_t i = 1; i < scores.size(); ++i) {
    if (scores[i].value > scores[winner.index].value) winner.index = i;
  }
  const Approximate& best = scores[winner.index];
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i == winner.index) continue;
    const double between = best.value - scores[i].value;
    // Written so that NaN is open.
    if (!(between > best.proved + scores[i].proved)) winner.is_open = true;
  }
  return winner;
}

Winner Above(double threshold, const Approximate& score) {
  const double between = score.value - threshold;
  return {between > 0 ? size_t{1} : size_t{0},
          std::isnan(between) ||
              (std::fabs(between) <= score.proved && score.proved > 0)};
}

absl::StatusOr<OutputInfos> InferClasses(const Dim& rows, const Dim& scores) {
  return Countable(OutputInfos{TensorType(kInt64, Shape{rows}),
                               TensorType(kFloat32, Shape{rows, scores})});
}

absl::Status StoreScores(EvalArgs& args, size_t i,
                         absl::Span<const Scores> rows) {
  if (!args.wants(i)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray z, args.MakeOutput(i));
  Bounds* const bounds = args.bounds(i);
  std::vector<double> values;
  for (const Scores& row : rows) {
    for (const Approximate& score : row) {
      values.push_back(score.value);
      if (bounds == nullptr) continue;
      score.bound().AppendTo(bounds);
    }
  }
  StoreDoubles(values.data(), 0, CountOf(z), z);
  return absl::OkStatus();
}

absl::Status StoreLabels(EvalArgs& args, size_t i,
                         absl::Span<const Winner> winners,
                         absl::Span<const int64_t> labels) {
  if (!args.wants(i)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(i));
  auto* const to = y.As<int64_t>();
  for (size_t row = 0; row < winners.size(); ++row) {
    to[row] = labels[winners[row].index];
  }
  AllowAny(args, i, [&](int64_t row) {
    return winners[static_cast<size_t>(row)].is_open;
  });
  return absl::OkStatus();
}

}  // namespace nodewise
