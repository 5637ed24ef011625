#include "nodewise/ops/linear_models.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/class_scores.h"
#include "contrib/ops/util/classic_rules.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

using ops::SvmKernel;
template <>
struct Words<SvmKernel> {
  static constexpr std::pair<SvmKernel, std::string_view> kAll[] = {
      {SvmKernel::kLinear, "LINEAR"},
      {SvmKernel::kPoly, "POLY"},
      {SvmKernel::kRbf, "RBF"},
      {SvmKernel::kSigmoid, "SIGMOID"}};
};

namespace {

// These models work in float32: features and attributes are such, and bounds
// are those of a kernel that calculates in it. A score carries its bounds with
// it, since what decides about a class is whether two scores are further apart
// than they may be off. A label that is closer than that may be any.

void AddTerm(double term, SumOfTerms* sum) {
  sum->terms += 1;
  sum->Add(term);
}

double Power(double x, double degree) { return std::pow(x, degree); }
double Exponential(double x, double /*unused*/) { return std::exp(x); }
double HyperbolicTangent(double x, double /*unused*/) { return std::tanh(x); }

// The square of the distance. The kernel of radial basis functions needs it; it
// is not taken from |x|^2 - 2 x y + |y|^2, which cancels for near vectors.
Approximate Distance(absl::Span<const double> x, absl::Span<const float> y) {
  SumOfTerms sum;
  double rounding = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double between = x[i] - static_cast<double>(y[i]);
    AddTerm(between * between, &sum);
    // The difference is rounded before it is squared.
    rounding += 3 * UnitRoundoff(kFloat32) * between * between;
  }
  Approximate distance = Approximate::FromSum(sum);
  distance.proved += rounding;
  distance.expected += rounding;
  return distance;
}

// x y + addend, as a kernel may calculate it in float32. An addend of 0 is no
// term, so that a product alone has the bound of a product.
Approximate DotProduct(absl::Span<const double> x, absl::Span<const float> y,
                       double addend) {
  SumOfTerms sum;
  for (size_t i = 0; i < y.size(); ++i) {
    AddTerm(x[i] * static_cast<double>(y[i]), &sum);
  }
  if (addend != 0) AddTerm(addend, &sum);
  return Approximate::FromSum(sum);
}

// The sum of products of numbers that are not exact themselves.
Approximate WeightedSum(absl::Span<const Approximate> x,
                        absl::Span<const float> weights, double addend) {
  SumOfTerms sum;
  Approximate carried;
  for (size_t i = 0; i < x.size(); ++i) {
    const Approximate term = Times(x[i], static_cast<double>(weights[i]));
    AddTerm(term.value, &sum);
    carried.proved += term.proved;
    carried.expected += term.expected;
  }
  if (addend != 0) AddTerm(addend, &sum);
  return Plus(Approximate::FromSum(sum), carried);
}

// kernel(x, y); each step that a kernel stores on its way rounds once more.
// REQUIRES: three parameters, or none.
Approximate KernelOf(const ops::SupportVectors& op, absl::Span<const double> x,
                     absl::Span<const float> y) {
  const auto parameter = [&op](size_t i) {
    return op.kernel_params.empty() ? 0.0
                                    : static_cast<double>(op.kernel_params[i]);
  };
  const double gamma = parameter(0);
  if (op.kernel_type == ops::SvmKernel::kRbf) {
    return ApplyWithError(&Exponential, 0,
                          Times(Distance(x, y), -gamma).Rounded(), 4);
  }
  const Approximate product = DotProduct(x, y, 0);
  if (op.kernel_type == ops::SvmKernel::kLinear) return product;
  const Approximate shifted =
      Plus(Times(product, gamma).Rounded(), {parameter(1), 0, 0}).Rounded();
  if (op.kernel_type == ops::SvmKernel::kPoly) {
    return ApplyWithError(&Power, parameter(2), shifted, 8);
  }
  return ApplyWithError(&HyperbolicTangent, 0, shifted, 8);
}

// The probabilities of classes, given those that class i, and not class j, is
// right: pairs[i * classes + j]. Uses the algorithm of libsvm, which stops
// where it is near enough, so that it cannot be said how far a kernel may be
// off.
std::vector<double> ProbabilitiesOf(absl::Span<const double> pairs,
                                    size_t classes) {
  constexpr int kMostSteps = 100;
  const size_t k = classes;
  // The matrix of the quadratic form that the probabilities minimize.
  std::vector<double> q(k * k, 0);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      const double other = pairs[j * k + i];
      q[i * k + i] += other * other;
      q[i * k + j] = -other * pairs[i * k + j];
    }
  }
  // All classes begin alike. Each step moves one probability to where the form
  // is least while the others stand, and scales all of them back to a sum of 1.
  std::vector<double> p(k, 1.0 / static_cast<double>(k));
  std::vector<double> qp(k);
  for (int step = 0; step < kMostSteps; ++step) {
    double pqp = 0;
    for (size_t i = 0; i < k; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < k; ++j) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    double error = 0;
    for (const double each : qp) error = std::max(error, std::fabs(each - pqp));
    // The tolerance is libsvm's. A stricter one would give other digits than
    // its users get.
    if (error < 0.005 / static_cast<double>(k)) break;
    for (size_t i = 0; i < k; ++i) {
      const double move = (pqp - qp[i]) / q[i * k + i];
      const double scale = 1 + move;
      pqp = (pqp + move * (move * q[i * k + i] + 2 * qp[i])) / scale / scale;
      p[i] += move;
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + move * q[i * k + j]) / scale;
        p[j] /= scale;
      }
    }
  }
  return p;
}

// `expected` says what the number follows from.
template <typename... Args>
absl::Status WrongCount(const char* attribute, size_t found,
                        fmt::format_string<Args...> expected, Args&&... args) {
  return WrongAttribute(attribute, "has {} elements, expected {}", found,
                        fmt::format(expected, std::forward<Args>(args)...));
}

// Attributes say how many features a row has; an input that does not fit them
// is refused as early as its sides are known.
absl::Status CheckFeatures(const Inputs& in, size_t features) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireClassic(in, 0), RequireRank(in, 0, 1, 2)));
  const TensorType& type = in.type(0);
  if (!type.has_rank()) return absl::OkStatus();
  const Dim& given = type.shape->back();
  if (!given.is_known() || given.size() == static_cast<int64_t>(features)) {
    return absl::OkStatus();
  }
  return WrongInput(0, "has {} features, expected {} as the attributes have",
                    given.size(), features);
}

// Kernels convert features of any type to float32 first.
class Rows {
 public:
  explicit Rows(const EvalArgs& args)
      : size_(RowsOf(args.shape(0))), x_(ToDoubles(args.in(0))) {
    for (double& x : x_) x = static_cast<double>(static_cast<float>(x));
  }
  int64_t count() const { return size_.rows; }
  absl::Span<const double> operator[](int64_t row) const {
    return {x_.data() + row * size_.features,
            static_cast<size_t>(size_.features)};
  }

 private:
  FeatureRows size_;
  std::vector<double> x_;
};

// Matrices among the attributes are lists, out of which rows are cut here.
absl::Span<const float> Line(const std::vector<float>& matrix, size_t line,
                             size_t length) {
  return absl::MakeConstSpan(matrix).subspan(line * length, length);
}

// Stores the label and the scores of each row: f(features, scores) fills in the
// scores and returns the winner.
template <typename F>
absl::Status ClassifyRows(EvalArgs& args, const std::vector<int64_t>& labels,
                          F f) {
  const Rows x(args);
  std::vector<Scores> all;
  std::vector<Winner> winners;
  for (int64_t row = 0; row < x.count(); ++row) {
    winners.push_back(f(x[row], &all.emplace_back()));
  }
  NODEWISE_RETURN_IF_ERROR(StoreLabels(args, 0, winners, labels));
  return StoreScores(args, 1, all);
}

// With one score and two labels it is a binary classifier, whose other score is
// made up from the one.
struct LinearClassifier : ops::LinearClassifier {
  static constexpr auto Fields() {
    using Class = ops::LinearClassifier;
    return FieldList(Field<&Class::classlabels_ints>("classlabels_ints"),
                     Field<&Class::classlabels_strings>("classlabels_strings"),
                     RequiredField<&Class::coefficients>("coefficients"),
                     Field<&Class::intercepts>("intercepts"),
                     Field<&Class::multi_class>("multi_class"),
                     Field<&Class::post_transform>("post_transform"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        RefuseStrings("classlabels_strings", classlabels_strings));
    const size_t classes = Classes();
    if (classes == 0) {
      return AttributeError("intercepts", "is missing, as classlabels_ints is");
    }
    if (classes > 1 && classlabels_ints.size() != classes) {
      return WrongCount("classlabels_ints", classlabels_ints.size(),
                        "{}, one for each of the intercepts", classes);
    }
    if (coefficients.size() % classes != 0) {
      return WrongCount("coefficients", coefficients.size(),
                        "a multiple of {}, the scores", classes);
    }
    return CheckFeatures(in, Features());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const size_t scores = HasOtherClass() ? 2 : Classes();
    return InferClasses(CountRows(in, 0), static_cast<int64_t>(scores));
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const Dim rows = CountRows(in, 0);
    return rows.is_known() ? 2.0 * static_cast<double>(rows.size()) *
                                 static_cast<double>(coefficients.size())
                           : 0;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    // Without labels a single score says 0 or 1.
    const std::vector<int64_t> usual = {0, 1};
    const bool has_labels = Classes() > 1 || HasOtherClass();
    return ClassifyRows(
        args, has_labels ? classlabels_ints : usual,
        [&](absl::Span<const double> x, Scores* scores) {
          for (size_t i = 0; i < Classes(); ++i) {
            const double intercept =
                intercepts.empty() ? 0 : static_cast<double>(intercepts[i]);
            scores->push_back(
                DotProduct(x, Line(coefficients, i, Features()), intercept));
          }
          const Winner winner =
              Classes() == 1 ? Above(0, (*scores)[0]) : Largest(*scores);
          if (HasOtherClass()) {
            TransformToTwo(post_transform, OtherClass::kComplement, scores);
          } else {
            Transform(post_transform, scores);
          }
          return winner;
        });
  }

 private:
  size_t Classes() const {
    return intercepts.empty() ? classlabels_ints.size() : intercepts.size();
  }
  size_t Features() const { return coefficients.size() / Classes(); }
  bool HasOtherClass() const {
    return Classes() == 1 && classlabels_ints.size() == 2;
  }
};

constexpr auto VectorFields() {
  using Class = ops::SupportVectors;
  return FieldList(Field<&Class::coefficients>("coefficients"),
                   Field<&Class::kernel_params>("kernel_params"),
                   Field<&Class::kernel_type>("kernel_type"),
                   Field<&Class::post_transform>("post_transform"),
                   Field<&Class::rho>("rho"),
                   Field<&Class::support_vectors>("support_vectors"));
}

// Checks the attributes that both support vector machines have, with `vectors`
// vectors. Lists are checked against each other before any of them is indexed.
absl::Status CheckVectors(const ops::SupportVectors& op, int64_t vectors) {
  if (vectors < 0) {
    return InvalidArgument("has {} support vectors, expected 0 or more",
                           vectors);
  }
  if (!op.kernel_params.empty() && op.kernel_params.size() != 3) {
    return WrongCount("kernel_params", op.kernel_params.size(), "3 or none");
  }
  if (op.coefficients.empty()) {
    return AttributeError("coefficients", "is missing, expected numbers");
  }
  if (op.rho.empty()) {
    return AttributeError("rho", "is missing, expected numbers");
  }
  const size_t size = op.support_vectors.size();
  if (vectors > 0 && size % static_cast<size_t>(vectors) != 0) {
    return WrongCount("support_vectors", size, "a multiple of {}, the vectors",
                      vectors);
  }
  return absl::OkStatus();
}

// The kernel of a row with each vector. Every pair of classes uses them, so
// they are calculated once for a row.
Scores KernelsOf(const ops::SupportVectors& op, absl::Span<const double> x,
                 size_t vectors) {
  Scores kernels;
  for (size_t i = 0; i < vectors; ++i) {
    kernels.push_back(KernelOf(op, x, Line(op.support_vectors, i, x.size())));
  }
  return kernels;
}

// No vectors mean a linear model, whose weights are the coefficients.
struct SVMRegressor : ops::SVMRegressor {
  static constexpr auto Fields() {
    using Class = ops::SVMRegressor;
    return JoinedFields(VectorFields(),
                        FieldList(Field<&Class::n_supports>("n_supports"),
                                  Field<&Class::one_class>("one_class")));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(CheckVectors(*this, n_supports));
    if (n_supports == 0) return CheckFeatures(in, coefficients.size());
    if (coefficients.size() != static_cast<size_t>(n_supports)) {
      return WrongCount("coefficients", coefficients.size(),
                        "{}, one for each vector", n_supports);
    }
    return CheckFeatures(
        in, support_vectors.size() / static_cast<size_t>(n_supports));
  }
  OutputInfos Infer(const Inputs& in) const {
    return {TensorType(kFloat32, Shape{CountRows(in, 0), 1})};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const Rows x(args);
    std::vector<Scores> all;
    for (int64_t row = 0; row < x.count(); ++row) {
      const auto addend = static_cast<double>(rho[0]);
      Approximate y =
          n_supports == 0
              ? DotProduct(x[row], coefficients, addend)
              : WeightedSum(
                    KernelsOf(*this, x[row], static_cast<size_t>(n_supports)),
                    coefficients, addend);
      if (one_class) {
        const Winner sign = Above(0, y);
        const double open = sign.is_open ? 2 : 0;
        y = {sign.index == 1 ? 1.0 : -1.0, open, open};
      }
      all.push_back({y});
    }
    return StoreScores(args, 0, all);
  }
};

// The layout of the attributes is libsvm's: vectors class by class, and for
// each vector one coefficient less than there are classes.
struct SVMClassifier : ops::SVMClassifier {
  static constexpr auto Fields() {
    using Class = ops::SVMClassifier;
    return JoinedFields(
        VectorFields(),
        FieldList(Field<&Class::classlabels_ints>("classlabels_ints"),
                  Field<&Class::classlabels_strings>("classlabels_strings"),
                  Field<&Class::prob_a>("prob_a"),
                  Field<&Class::prob_b>("prob_b"),
                  Field<&Class::vectors_per_class>("vectors_per_class")));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        RefuseStrings("classlabels_strings", classlabels_strings));
    if (Classes() < 2) {
      return WrongCount("classlabels_ints", Classes(), "2 or more");
    }
    constexpr int64_t kMost = int64_t{1} << 31;
    for (const int64_t each : vectors_per_class) {
      if (each >= 0 && each < kMost) continue;
      return WrongAttribute("vectors_per_class", "has {}, expected 0 or more",
                            each);
    }
    NODEWISE_RETURN_IF_ERROR(CheckVectors(*this, Vectors()));
    if (Vectors() > 0) {
      NODEWISE_RETURN_IF_ERROR(CheckPairs());
      return CheckFeatures(
          in, support_vectors.size() / static_cast<size_t>(Vectors()));
    }
    if (coefficients.size() % Classes() != 0) {
      return WrongCount("coefficients", coefficients.size(),
                        "a multiple of {}, the classes", Classes());
    }
    return CheckFeatures(in, coefficients.size() / Classes());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const bool has_pairs = Vectors() > 0 && prob_a.empty() && Classes() > 2;
    return InferClasses(CountRows(in, 0),
                        static_cast<int64_t>(has_pairs ? Pairs() : Classes()));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return ClassifyRows(args, classlabels_ints,
                        [&](absl::Span<const double> x, Scores* scores) {
                          return Vectors() > 0 ? Vote(x, scores)
                                               : Linear(x, scores);
                        });
  }

 private:
  size_t Classes() const { return classlabels_ints.size(); }
  size_t Pairs() const { return Classes() * (Classes() - 1) / 2; }
  int64_t Vectors() const {
    int64_t count = 0;
    for (const int64_t each : vectors_per_class) count += each;
    return count;
  }
  absl::Status CheckPairs() const {
    // So that the numbers below cannot overflow.
    if (Vectors() > static_cast<int64_t>(coefficients.size())) {
      return WrongCount("coefficients", coefficients.size(),
                        "{} or more, the vectors", Vectors());
    }
    if (vectors_per_class.size() != Classes()) {
      return WrongCount("vectors_per_class", vectors_per_class.size(),
                        "{}, one for each class", Classes());
    }
    const size_t weights = (Classes() - 1) * static_cast<size_t>(Vectors());
    if (coefficients.size() < weights) {
      return WrongCount("coefficients", coefficients.size(), "{} or more",
                        weights);
    }
    if (rho.size() < Pairs()) {
      return WrongCount("rho", rho.size(), "{}, one for each pair", Pairs());
    }
    if (prob_a.size() != prob_b.size() ||
        (!prob_a.empty() && prob_a.size() < Pairs())) {
      return WrongCount("prob_a", prob_a.size(), "{} as prob_b, or none",
                        Pairs());
    }
    return absl::OkStatus();
  }
  // A linear score for each class, all with the first number of rho.
  Winner Linear(absl::Span<const double> x, Scores* scores) const {
    for (size_t i = 0; i < Classes(); ++i) {
      scores->push_back(DotProduct(x, Line(coefficients, i, x.size()),
                                   static_cast<double>(rho[0])));
    }
    Winner winner = Largest(*scores);
    if (Classes() == 2) {
      // With two classes, the second one wins wherever the larger score is high
      // enough.
      const bool all_positive =
          std::all_of(coefficients.begin(), coefficients.end(),
                      [](float weight) { return weight >= 0; });
      const Winner high =
          Above(all_positive ? 0.5 : 0, (*scores)[winner.index]);
      winner = {high.index == 1 ? size_t{1} : winner.index,
                high.is_open || (high.index == 0 && winner.is_open)};
    }
    Transform(post_transform, scores);
    return winner;
  }
  // The class with most votes wins, the first one of several. A vote that is
  // open makes the winner open.
  Winner Vote(absl::Span<const double> x, Scores* scores) const {
    *scores = PairScores(x);
    std::vector<int> votes(Classes(), 0);
    Winner winner;
    size_t pair = 0;
    for (size_t i = 0; i + 1 < Classes(); ++i) {
      for (size_t j = i + 1; j < Classes(); ++j, ++pair) {
        const Winner first = Above(0, (*scores)[pair]);
        ++votes[first.index == 1 ? i : j];
        winner.is_open = winner.is_open || first.is_open;
      }
    }
    winner.index = static_cast<size_t>(
        std::max_element(votes.begin(), votes.end()) - votes.begin());
    FinishPairs(scores);
    return winner;
  }
  // What the classifier of each pair of classes says. The classifier of classes
  // i < j weighs the vectors of i with line j - 1 of the coefficients, and
  // those of j with line i.
  Scores PairScores(absl::Span<const double> x) const {
    const auto vectors = static_cast<size_t>(Vectors());
    const Scores kernels = KernelsOf(*this, x, vectors);
    std::vector<size_t> begins = {0};
    for (const int64_t each : vectors_per_class) {
      begins.push_back(begins.back() + static_cast<size_t>(each));
    }
    Scores pairs;
    for (size_t i = 0; i + 1 < Classes(); ++i) {
      for (size_t j = i + 1; j < Classes(); ++j) {
        Scores terms;
        std::vector<float> weights;
        const auto add = [&](size_t of, size_t line) {
          for (size_t k = begins[of]; k < begins[of + 1]; ++k) {
            terms.push_back(kernels[k]);
            weights.push_back(coefficients[line * vectors + k]);
          }
        };
        add(i, j - 1);
        add(j, i);
        pairs.push_back(WeightedSum(terms, weights,
                                    static_cast<double>(rho[pairs.size()])));
      }
    }
    return pairs;
  }
  // With prob_a and prob_b the scores are probabilities of classes, made of
  // those of the pairs by a sigmoid; how exact a kernel is there cannot be
  // said.
  void FinishPairs(Scores* scores) const {
    if (prob_a.empty()) {
      if (Classes() > 2) return Transform(post_transform, scores);
      return TransformToTwo(post_transform,
                            post_transform == PostTransform::kNone
                                ? OtherClass::kNegative
                                : OtherClass::kComplement,
                            scores);
    }
    // libsvm keeps probabilities this far from 0 and 1, where the algorithm
    // would divide by 0.
    constexpr double kLeast = 1e-7;
    std::vector<double> pairs(Classes() * Classes(), 0);
    size_t pair = 0;
    for (size_t i = 0; i + 1 < Classes(); ++i) {
      for (size_t j = i + 1; j < Classes(); ++j, ++pair) {
        const double logit =
            (*scores)[pair].value * static_cast<double>(prob_a[pair]) +
            static_cast<double>(prob_b[pair]);
        const double p =
            std::clamp(1 / (1 + std::exp(logit)), kLeast, 1 - kLeast);
        pairs[i * Classes() + j] = p;
        pairs[j * Classes() + i] = 1 - p;
      }
    }
    scores->clear();
    for (const double p : ProbabilitiesOf(pairs, Classes())) {
      scores->push_back({p, kUnknownError, kUnknownError});
    }
    Transform(post_transform, scores);
  }
};

constexpr OperatorDef kLinearModels[] = {
    ClassicRow<ops::LinearClassifier, LinearClassifier>(
        "LinearClassifier", 1, {"X"}, {"Y", "Z"}, kSum),
    ClassicRow<ops::SVMClassifier, SVMClassifier>("SVMClassifier", 1, {"X"},
                                                  {"Y", "Z"}, kSum),
    ClassicRow<ops::SVMRegressor, SVMRegressor>("SVMRegressor", 1, {"X"}, {"Y"},
                                                kSum),
};

}  // namespace

absl::Span<const OperatorDef> LinearModelOperators() { return kLinearModels; }

}  // namespace nodewise
