#include "nodewise/kernels/vector_math.h"

#include <bit>
#include <cmath>
#include <cstddef>

#include "nodewise/support/machine.h"

// No branches and no calls, so that compilers vectorise the loops at the end.
#define NODEWISE_INLINE inline __attribute__((always_inline))

namespace nodewise::vector_math {
namespace {

template <size_t i = 0, size_t n>
NODEWISE_INLINE double Polynomial(const double (&c)[n], double x) {
  if constexpr (i + 1 == n) {
    return c[i];
  } else {
    return c[i] + x * Polynomial<i + 1>(c, x);
  }
}

// Added to a number below 2^51, it leaves the nearest integer in the last bits.
constexpr double kRounder = 0x1.8p52;
constexpr int kSignificandBits = 52;
constexpr uint64_t kExponentOfOne = 1023;

// 2^n, where `rounded` is kRounder + n, for n of a normal number.
NODEWISE_INLINE double PowerOfTwo(double rounded) {
  return std::bit_cast<double>(
      (std::bit_cast<uint64_t>(rounded) + kExponentOfOne) << kSignificandBits);
}

// (e^r - 1 - r) / r^2 for |r| up to ln(2) / 2, to within 2e-17 of e^r.
constexpr double kExp[] = {
    0.5000000000000001,     0.16666666666666669,    0.04166666666662413,
    0.008333333333330062,   0.0013888888917213717,  0.00019841269863053618,
    2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
    2.510038549551032e-08,
};
constexpr double kPerLn2 = 1.4426950408889634;
// The upper part has so few bits that its products with exponents are exact.
constexpr double kLn2Upper = 6.93147180369123816490e-01;
constexpr double kLn2Lower = 1.90821492927058770002e-10;
// Beyond these all results are infinite or 0.
constexpr double kLargestExponent = 720;
constexpr double kSmallestExponent = -760;

NODEWISE_INLINE double Exp(double x) {
  // Both comparisons let NaN pass.
  x = x > kLargestExponent ? kLargestExponent : x;
  x = x < kSmallestExponent ? kSmallestExponent : x;
  const double n = (x * kPerLn2 + kRounder) - kRounder;
  const double r = (x - n * kLn2Upper) - n * kLn2Lower;
  const double power = 1 + (r + r * r * Polynomial(kExp, r));
  // In two steps: the first is exact, and the second overflows or loses digits
  // only where the result does.
  const double first = n * 0.5 + kRounder;
  const double second = (n - (first - kRounder)) + kRounder;
  return power * PowerOfTwo(first) * PowerOfTwo(second);
}

// erf(x) / x - 1 for x below 1, by powers of x^2.
constexpr double kErfSmall[] = {
    0.1283791670955126,      -0.3761263890318375,     0.11283791670954879,
    -0.026866170645076792,   0.0052239776248180145,   -0.000854832698083379,
    0.0001205533111164271,   -1.4925595266831182e-05, 1.6461000484121368e-06,
    -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
    5.957176147748911e-11,
};
// (1 - erf(x)) e^(x^2) for x from 1 to 6, by powers of what is -1 at one end
// and 1 at the other: 14.4 / (x + 3) - 2.6.
constexpr double kErfLarge[] = {
    0.20798329133342885,    0.15436117429436919,     0.04969844540339464,
    0.012713147695692198,   0.002479314697078186,    0.0003316029605764125,
    1.9563583246137112e-05, -2.4255574719050315e-06, -5.541274478467714e-07,
    4.526700764248741e-09,  1.1339538061744706e-08,  2.6381508985080735e-10,
    -2.571511429603255e-10, -6.047405945991704e-12,  6.0857915906870915e-12,
};
constexpr double kErfIsOne = 6;  // erf(x) is 1 from here on, in a double.

NODEWISE_INLINE double Erf(double x) {
  double size = std::fabs(x);
  size = size > kErfIsOne ? kErfIsOne : size;
  const double square = size * size;
  const double small = size + size * Polynomial(kErfSmall, square);
  // The error of e^(-x^2) matters little, since the product is taken from 1.
  const double place = 14.4 / (size + 3) - 2.6;
  const double large = 1 - Exp(-square) * Polynomial(kErfLarge, place);
  return std::copysign(size < 1 ? small : large, x);
}

constexpr double kTanhIsOne = 20;  // tanh(x) is 1 from here on, in a double.

// (e^t - 1) / (e^t + 1) for t = -2 |x|, of which e^t - 1 must not be taken from
// e^t where that is near 1.
NODEWISE_INLINE double Tanh(double x) {
  constexpr double kNear = -0.34;  // kExp reaches a little further.
  double size = std::fabs(x);
  size = size > kTanhIsOne ? kTanhIsOne : size;
  const double t = -2 * size;
  const double near = t + t * t * Polynomial(kExp, t);
  const double far = Exp(t) - 1;
  const double less = t > kNear ? near : far;
  return std::copysign(-less / (2 + less), x);
}

// A function's target cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define NODEWISE_LOOPS(name, target)                   \
  target void ExpAll_##name(double* x, int64_t n) {    \
    for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i]);  \
  }                                                    \
  target void ErfAll_##name(double* x, int64_t n) {    \
    for (int64_t i = 0; i < n; ++i) x[i] = Erf(x[i]);  \
  }                                                    \
  target void TanhAll_##name(double* x, int64_t n) {   \
    for (int64_t i = 0; i < n; ++i) x[i] = Tanh(x[i]); \
  }
// NOLINTEND(bugprone-macro-parentheses)

NODEWISE_LOOPS(baseline, )
#if defined(__x86_64__)
NODEWISE_LOOPS(v3, __attribute__((target("avx2,fma"))))
NODEWISE_LOOPS(v4, __attribute__((target("avx2,fma,avx512f,avx512dq"))))
#endif

constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"x86-64-v4",
     [] {
       return __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("fma");
     },
     &ExpAll_v4, &ErfAll_v4, &TanhAll_v4},
    {"x86-64-v3",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
     },
     &ExpAll_v3, &ErfAll_v3, &TanhAll_v3},
#endif
    {"baseline", [] { return true; }, &ExpAll_baseline, &ErfAll_baseline,
     &TanhAll_baseline},
};

const Level& BestLevel() {
  static const Level* const best = FirstSupported(AllLevels());
  return *best;
}

}  // namespace

absl::Span<const Level> AllLevels() { return kLevels; }

}  // namespace nodewise::vector_math

namespace nodewise {

void ExpAll(double* x, int64_t n) { vector_math::BestLevel().exp_all(x, n); }
void ErfAll(double* x, int64_t n) { vector_math::BestLevel().erf_all(x, n); }
void TanhAll(double* x, int64_t n) { vector_math::BestLevel().tanh_all(x, n); }

}  // namespace nodewise
