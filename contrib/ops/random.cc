#include "nodewise/ops/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/random_numbers.h"
#include "contrib/ops/util/tensor_moves.h"

// This file must be compiled with -ffp-contract=off: fused multiply-adds would
// make other numbers on machines that have them.

namespace nodewise {

namespace {

// Factors of a polynomial, from the constant term on.
using Factors = std::array<double, 8>;

// Factors of Wichura's approximation of the quantile (Applied Statistics 37,
// 1988, algorithm AS 241, PPND16): in the middle, in the tails, and far out in
// them.
constexpr Factors kMiddle[] = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2,
     1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4,
     3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2,
     5.3941960214247511077e+3, 2.1213794301586595867e+4,
     3.9307895800092710610e+4, 2.8729085735721942674e+4,
     5.2264952788528545610e+3}};
constexpr Factors kTail[] = {
    {1.42343711074968357734e0, 4.63033784615654529590e0,
     5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
     6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9}};
constexpr Factors kFarTail[] = {
    {6.65790464350110377720e0, 5.46378491116411436990e0,
     1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
     1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15}};

// The quotient of two polynomials of r, each by Horner's rule from its highest
// power on.
double Quotient(const Factors (&factors)[2], double r) {
  double sums[2] = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = factors[i].size(); k-- > 0;) {
      sums[i] = sums[i] * r + factors[i][k];
    }
  }
  return sums[0] / sums[1];
}

constexpr double kLn2 = 0x1.62E42FEFA39EFp-1;
// ln 2 in two parts; multiples of the first are exact.
constexpr double kLn2High = 0x1.62E42FEEp-1;
constexpr double kLn2Low = 0x1.A39EF35793C76p-33;

// By the series of the inverse hyperbolic tangent: ln x = 2 artanh((x - 1) /
// (x + 1)). With x near 1, between the square roots of 1/2 and 2, s is at most
// 0.172, and the terms beyond its 41st power are far below a double's last bit.
// REQUIRES: 0 < x.
double LogOf(double x) {
  int exponent = 0;
  double part = std::frexp(x, &exponent);
  if (part < 0.70710678118654752) {
    part *= 2;
    --exponent;
  }
  const double s = (part - 1) / (part + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 41; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * kLn2;
}

}  // namespace

RandomNumbers::RandomNumbers(uint64_t seed, std::string_view stream)
    : source_(seed, stream) {}

// The upper 53 bits, as many as a double has.
double RandomNumbers::Uniform() {
  return static_cast<double>(source_.Next() >> 11) * 0x1p-53;
}

double RandomNumbers::Normal() {
  // In the middle of the step, so that neither 0 nor 1 is reached.
  return NormalQuantile((static_cast<double>(source_.Next() >> 12) + 0.5) *
                        0x1p-52);
}

double NormalQuantile(double p) {
  // The limits, and the numbers taken away from r, are those of the algorithm.
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) return q * Quotient(kMiddle, 0.180625 - q * q);
  const double r = std::sqrt(-LogOf(q < 0 ? p : 1 - p));
  const double size =
      r <= 5 ? Quotient(kTail, r - 1.6) : Quotient(kFarTail, r - 5);
  return q < 0 ? -size : size;
}

double ReproducibleExp(double x) {
  if (std::isnan(x)) return x;
  // Beyond these the result is below the smallest double, or above the largest.
  if (x < -745.2) return 0;
  if (x > 709.8) return std::numeric_limits<double>::infinity();
  // e^x = 2^k e^r, where r is at most ln 2 / 2: 20 terms of its series suffice.
  const double k = std::nearbyint(x / kLn2);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1;
  for (int i = 20; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

namespace {

RandomNumbers NumbersOf(const std::optional<float>& seed,
                        std::string_view stream) {
  // A seed that is not given is another one than any that is.
  constexpr uint64_t kNone = uint64_t{1} << 32;
  return RandomNumbers(
      seed.has_value() ? std::bit_cast<uint32_t>(*seed) : kNone, stream);
}

// The type may still be unknown, if it is that of the input.
absl::Status RequireFloatType(DLDataType dtype) {
  if (dtype.bits == 0 || IsFloat(dtype)) return absl::OkStatus();
  return At("attribute dtype", RefuseType(dtype, "a float of 16 to 64 bits"));
}

// Sets elements [begin, end) to the numbers that `draw` returns, in their
// order, which decides what each of them gets: so there are no threads here.
template <typename F>
void DrawRange(const NDArray& y, int64_t begin, int64_t end, F& draw) {
  double block[kWideBlock];
  for (int64_t at = begin; at < end; at += kWideBlock) {
    const int64_t next = std::min(at + kWideBlock, end);
    std::generate(block, block + (next - at), std::ref(draw));
    StoreDoubles(block, at, next, y);
  }
}
template <typename F>
absl::Status Draw(EvalArgs& args, F draw) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  DrawRange(y, 0, CountOf(y), draw);
  return absl::OkStatus();
}

absl::Status CheckSizes(const std::vector<int64_t>& sizes, DLDataType dtype) {
  const auto bytes = TensorBytes(sizes, dtype);
  if (bytes.ok()) return absl::OkStatus();
  return WrongAttribute("shape", "{}", MessageOf(bytes.status()));
}

// Distributions. Their parameters are attributes of the class `Op`, whose
// fields are in alphabetical order: NamedAttrsOf() gives them as they are
// listed.
struct Normally {
  static constexpr std::string_view kStream = "RandomNormal";
  template <typename Op>
  static constexpr auto Fields() {
    return FieldList(Field<&Op::dtype>("dtype"), Field<&Op::mean>("mean"),
                     Field<&Op::scale>("scale"), Field<&Op::seed>("seed"));
  }
  template <typename Op>
  static auto DrawerOf(const Op& op, RandomNumbers& numbers) {
    return [&op, &numbers] {
      return double{op.mean} + double{op.scale} * numbers.Normal();
    };
  }
};
struct Evenly {
  static constexpr std::string_view kStream = "RandomUniform";
  template <typename Op>
  static constexpr auto Fields() {
    return FieldList(Field<&Op::dtype>("dtype"), Field<&Op::high>("high"),
                     Field<&Op::low>("low"), Field<&Op::seed>("seed"));
  }
  template <typename Op>
  static auto DrawerOf(const Op& op, RandomNumbers& numbers) {
    const double width = double{op.high} - double{op.low};
    return [&op, &numbers, width] {
      return double{op.low} + width * numbers.Uniform();
    };
  }
};

template <typename Class, typename Distribution>
absl::Status DrawFrom(const Class& op, EvalArgs& args) {
  RandomNumbers numbers = NumbersOf(op.seed, Distribution::kStream);
  return Draw(args, Distribution::DrawerOf(op, numbers));
}

// The shape is an attribute, the last one.
template <typename Class, typename Distribution>
struct DrawnOfShape : Class {
  static constexpr auto Fields() {
    return JoinedFields(Distribution::template Fields<Class>(),
                        FieldList(RequiredField<&Class::shape>("shape")));
  }
  absl::Status Check(const Inputs&) const {
    return All(RequireFloatType(this->dtype),
               CheckSizes(this->shape, this->dtype));
  }
  OutputInfos Infer(const Inputs&) const {
    return OneOutput(this->dtype,
                     Shape(this->shape.begin(), this->shape.end()));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawFrom<Class, Distribution>(*this, args);
  }
};

// The shape is that of the input, and so is the type if none is given. One seed
// draws the numbers that it draws of an attribute's shape.
template <typename Class, typename Distribution>
struct DrawnLikeInput : Class {
  static constexpr auto Fields() {
    return Distribution::template Fields<Class>();
  }
  absl::Status Check(const Inputs& in) const {
    return RequireFloatType(this->dtype.value_or(in.type(0).dtype));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, this->dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawFrom<Class, Distribution>(*this, args);
  }
};

struct Bernoulli : ops::Bernoulli {
  static constexpr auto Fields() {
    return FieldList(Field<&Bernoulli::dtype>("dtype"),
                     Field<&Bernoulli::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    if (dtype.has_value() && !IsFloat(*dtype) && !IsInteger(*dtype) &&
        !IsBool(*dtype)) {
      return AttributeError("dtype", "is neither a number nor bool");
    }
    return RequireFloat(in, 0);
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    RandomNumbers numbers = NumbersOf(seed, "Bernoulli");
    const std::vector<double> chances = ToDoubles(args.in(0));
    // One number for each element, in their order.
    size_t i = 0;
    return Draw(args,
                [&] { return numbers.Uniform() < chances[i++] ? 1.0 : 0.0; });
  }
};

// An index of one row of logarithms of probabilities is drawn by where a number
// up to the sum of all probabilities lies among their running sums. The largest
// logarithm is taken away from all, so that none overflows.
std::vector<double> RunningSums(absl::Span<const double> logarithms) {
  const double largest = *std::ranges::max_element(logarithms);
  std::vector<double> sums;
  double sum = 0;
  for (const double x : logarithms) {
    // A row of nothing but minus infinity is as if all were the same.
    sum +=
        std::isinf(largest) && x == largest ? 1 : ReproducibleExp(x - largest);
    sums.push_back(sum);
  }
  return sums;
}
double IndexAt(const std::vector<double>& sums, double uniform) {
  const double at = uniform * sums.back();
  const auto above = std::ranges::upper_bound(sums, at);
  const auto last = static_cast<double>(sums.size() - 1);
  return std::min(static_cast<double>(above - sums.begin()), last);
}

// A row of the input makes a row of the output. An index takes one number, so
// that each row's numbers follow those of the row before.
struct Multinomial : ops::Multinomial {
  static constexpr auto Fields() {
    return FieldList(Field<&Multinomial::dtype>("dtype"),
                     Field<&Multinomial::sample_size>("sample_size"),
                     Field<&Multinomial::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    if (!(dtype == kInt32) && !(dtype == kInt64)) {
      return AttributeError("dtype", "is neither int32 nor int64");
    }
    if (sample_size < 0) return AttributeError("sample_size", "is negative");
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    Shape shape{SideOf(in, 0, 0), Dim(sample_size)};
    return CheckedOutput(dtype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    RandomNumbers numbers = NumbersOf(seed, "Multinomial");
    const std::vector<double> x = ToDoubles(args.in(0));
    const auto classes = static_cast<size_t>(args.shape(0)[1]);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    if (CountOf(y) == 0) return absl::OkStatus();
    if (classes == 0) return InputError(0, "has no classes");
    for (int64_t row = 0; row < y.shape()[0]; ++row) {
      const std::vector<double> sums =
          RunningSums(absl::MakeConstSpan(x).subspan(row * classes, classes));
      const auto draw = [&] { return IndexAt(sums, numbers.Uniform()); };
      DrawRange(y, row * sample_size, (row + 1) * sample_size, draw);
    }
    return absl::OkStatus();
  }
};

template <typename Class, typename Distribution>
constexpr OperatorDef OfShapeRow(const char* name) {
  return Row<Class, DrawnOfShape<Class, Distribution>>(name, 1, {}, {"output"},
                                                       kSum);
}
template <typename Class, typename Rules>
constexpr OperatorDef OfInputRow(const char* name, int since) {
  return Row<Class, Rules>(name, since, {"input"}, {"output"}, kSum);
}

constexpr OperatorDef kRandomRows[] = {
    OfShapeRow<ops::RandomNormal, Normally>("RandomNormal"),
    OfInputRow<ops::RandomNormalLike,
               DrawnLikeInput<ops::RandomNormalLike, Normally>>(
        "RandomNormalLike", 1),
    OfShapeRow<ops::RandomUniform, Evenly>("RandomUniform"),
    OfInputRow<ops::RandomUniformLike,
               DrawnLikeInput<ops::RandomUniformLike, Evenly>>(
        "RandomUniformLike", 1),
    OfInputRow<ops::Bernoulli, Bernoulli>("Bernoulli", 15),
    OfInputRow<ops::Multinomial, Multinomial>("Multinomial", 7),
};

}  // namespace

absl::Span<const OperatorDef> RandomOperators() { return kRandomRows; }

}  // namespace nodewise
