#include "contrib/ops/util/random_numbers.h"

#include <array>
#include <cmath>
#include <limits>

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

}  // namespace nodewise
