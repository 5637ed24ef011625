#include "contrib/emit_c/helpers.h"

#include "contrib/emit_c/c_text.h"

namespace nodewise::emit_c {
namespace {

// The structs are those of TVM 0.6 to 0.19 (runtime/func/packed_abi.h); the
// file that is written includes no header of TVM's.
constexpr std::string_view kPrologue =
    R"c(#if defined(__GNUC__) && !defined(__clang__)
/* GCC 12 makes vectors of few loops at -O2. */
#pragma GCC optimize("O3")
#endif

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define NW_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define NW_EXPORT __attribute__((visibility("default")))
#else
#define NW_EXPORT
#endif

/* Functions for several nodes are compiled once, not once for each caller. */
#if defined(__clang__)
#define NW_SHARED __attribute__((noinline))
#elif defined(__GNUC__)
#define NW_SHARED __attribute__((noinline, noclone))
#else
#define NW_SHARED
#endif

/* What TVM passes to a packed function. */
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
} TVMValue;

/* A runtime that finds these variables sets them to its own functions; without
 * them errors go nowhere, and memory comes from C. */
NW_EXPORT extern void (*__TVMAPISetLastError)(const char* message);
void (*__TVMAPISetLastError)(const char* message) = 0;
)c";

// The check is in the file once and not in each function, of which quantised
// models have hundreds. Its messages have at most 320 bytes: a symbol has about
// 200, and what is wrong with an argument is short, so nothing is cut off.
constexpr std::string_view kArgumentCheck = R"c(
static int nw_fail(const char* message) {
  if (__TVMAPISetLastError != 0) __TVMAPISetLastError(message);
  return -1;
}

/* What a function expects of an argument. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  int32_t ndim;
  const int64_t* shape;
} nw_type;

static int nw_bad_argument(const char* function, int i, const char* what) {
  char message[320];
  snprintf(message, sizeof(message), "%s: argument %d: %s", function, i, what);
  return nw_fail(message);
}

/* Fills in where the elements of each argument begin. */
NW_SHARED static int nw_arguments(const char* function, const TVMValue* args,
                        const int* codes, int num_args, int expected,
                        const nw_type* types, char** data) {
  if (num_args != expected) {
    return nw_bad_argument(function, num_args, "the number is wrong");
  }
  for (int i = 0; i < num_args; ++i) {
    const nw_type* type = &types[i];
    const DLTensor* tensor = (const DLTensor*)args[i].v_handle;
    int64_t stride = 1;
    /* kTVMDLTensorHandle, kTVMNDArrayHandle */
    if ((codes[i] != 7 && codes[i] != 13) || tensor == 0) {
      return nw_bad_argument(function, i, "is not a tensor");
    }
    if (tensor->device.device_type != 1) {
      return nw_bad_argument(function, i, "is not on the CPU");
    }
    if (tensor->dtype.code != type->code || tensor->dtype.bits != type->bits ||
        tensor->dtype.lanes != 1) {
      return nw_bad_argument(function, i, "is of another element type");
    }
    if (tensor->ndim != type->ndim) {
      return nw_bad_argument(function, i, "has another number of sides");
    }
    for (int side = type->ndim - 1; side >= 0; --side) {
      const int64_t size = type->shape[side];
      if (tensor->shape[side] != size) {
        return nw_bad_argument(function, i, "has another shape");
      }
      if (tensor->strides != 0 && size > 1 && tensor->strides[side] != stride) {
        return nw_bad_argument(function, i, "is not compact");
      }
      stride *= size;
    }
    if (tensor->data == 0 && stride != 0) {
      return nw_bad_argument(function, i, "has no data");
    }
    data[i] = (char*)tensor->data + (stride == 0 ? 0 : tensor->byte_offset);
  }
  return 0;
}
)c";

// Functions that the code of operations calls, with an empty line in front of
// each function and none inside. Those that others call stand in front of them.
//
// Floats of 16 bits are converted by their bits. The exponent of a half is
// biased by 15 and that of a float by 127, so 112 is added (0x38000000 is 112
// << 23); halves below 2^-14 are multiples of 2^-24, and an exponent of 31
// stands for infinity and NaN. On the way back from a double, whose bias is
// 1023, 1008 is taken off the exponent and 42 bits of the fraction are cut off;
// half of the last place, less one, plus the last bit that stays is added
// before, so that ties go to even. 65520 is the first number that is rounded to
// infinity. A bfloat has the exponent of a float and loses 45 bits, hence 896
// and its limit; below 2^-126 it is a multiple of 2^-133.
//
// Dots have several sums, since C keeps the order of a sum of floats and
// compilers could not make vectors of a single one: eight floats or four
// doubles are 32 bytes.
constexpr std::string_view kHelpers = R"c(
static float nw_from_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  uint32_t bits = sign | ((rest << 13) + 0x38000000u);
  float x;
  if (rest < 0x400u) {
    x = (float)rest * 5.9604644775390625e-8f;
    return sign != 0 ? -x : x;
  }
  if (rest >= 0x7c00u) bits |= 0x7f800000u;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

static float nw_from_bfloat(uint16_t bfloat) {
  const uint32_t bits = (uint32_t)bfloat << 16;
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

/* A double's bits, rounded to those of a float of 16 bits, ties to even. */
static uint16_t nw_to_half(double x) {
  const double size = fabs(x);
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  uint64_t bits;
  if (size != size) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520.0) return (uint16_t)(sign | 0x7c00);
  if (size < 6.103515625e-5) {
    return (uint16_t)(sign | (uint16_t)nearbyint(size * 16777216.0));
  }
  memcpy(&bits, &size, sizeof(bits));
  bits -= UINT64_C(1008) << 52;
  bits += (UINT64_C(1) << 41) - 1 + ((bits >> 42) & 1);
  return (uint16_t)(sign | (bits >> 42));
}

/* A double's bits, rounded to those of a float of 16 bits, ties to even. */
static uint16_t nw_to_bfloat(double x) {
  const double size = fabs(x);
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  uint64_t bits;
  if (size != size) return (uint16_t)(sign | 0x7fc0);
  if (size >= 3.39617752923046e+38) return (uint16_t)(sign | 0x7f80);
  if (size < 1.1754943508222875e-38) {
    return (uint16_t)(sign | (uint16_t)nearbyint(size * 1.0889035741470031e+40));
  }
  memcpy(&bits, &size, sizeof(bits));
  bits -= UINT64_C(896) << 52;
  bits += (UINT64_C(1) << 44) - 1 + ((bits >> 45) & 1);
  return (uint16_t)(sign | (bits >> 45));
}

static float nw_as_half(double x) { return nw_from_half(nw_to_half(x)); }

static float nw_as_bfloat(double x) { return nw_from_bfloat(nw_to_bfloat(x)); }

/* NaN is larger than all numbers. */
static double nw_max(double a, double b) { return a != a || a > b ? a : b; }

/* NaN is smaller than all numbers. */
static double nw_min(double a, double b) { return a != a || a < b ? a : b; }

static int64_t nw_integer_max(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t nw_integer_min(int64_t a, int64_t b) { return a < b ? a : b; }

static double nw_clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

static double nw_saturated(double x, double low, double high) {
  if (x != x) return 0;
  return x < low ? low : x > high ? high : x;
}

/* The scale and zero point of numbers from low to high and 0. */
static float nw_dynamic_scale(float low, float high, double* zero) {
  const float least = low < 0 ? low : 0;
  const float scale = ((high > 0 ? high : 0) - least) / 255.0f;
  const float middle = scale == 0 ? 0 : 0 - least / scale;
  *zero = nearbyint(nw_saturated(middle, 0, 255));
  return scale;
}

static double nw_dynamic_quantized(float x, float scale, double zero) {
  const float quotient = scale == 0 ? 0 : x / scale;
  return nw_saturated(nearbyint(quotient) + zero, 0, 255);
}

/* The exponential must not overflow: inf / inf is NaN. */
static double nw_sigmoid(double x) {
  const double small = exp(-fabs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

static double nw_softplus(double x) {
  return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

static double nw_mish(double x) {
  const double gate = tanh(nw_softplus(x));
  return gate == 0 ? -0.0 : x * gate;
}

static double nw_leaky(double x, double alpha) {
  return x < 0 ? alpha * x : x;
}

static double nw_threshold(double x, double alpha) {
  return x <= alpha ? 0 : x;
}

static double nw_elu(double x, double alpha) {
  return x < 0 ? alpha * expm1(x) : x;
}

static double nw_cell_softsign(double x) { return x / (1 + fabs(x)); }

static double nw_softsign(double x) {
  return isinf(x) ? (x > 0 ? 1 : -1) : x / (1 + fabs(x));
}

static double nw_hard_swish(double x) {
  if (x <= -3) return isinf(x) ? -0.0 : x * 0;
  return x >= 3 ? x : x * (x / 6 + 0.5);
}

/* x times the normal distribution; the formula would make NaN of -inf. */
static double nw_gelu(double x) {
  if (isinf(x) && x < 0) return -0.0;
  return 0.5 * x * erfc(-x / 1.4142135623730951);
}

static double nw_gelu_tanh(double x) {
  const double inner = 0.79788456080286541 * (x + 0.044715 * x * x * x);
  if (isinf(x) && x < 0) return -0.0;
  return x * nw_sigmoid(2 * inner);
}

static double nw_swish(double x, double alpha) {
  const double gate = nw_sigmoid(alpha * x);
  return gate == 0 ? -0.0 : x * gate;
}

static int64_t nw_to_integer(double x, double low, double high) {
  if (x != x) return 0;
  return (int64_t)(x <= low ? low : x >= high ? high : x);
}

static int64_t nw_to_int64(double x) {
  if (x != x) return 0;
  if (x <= -9223372036854775808.0) return INT64_MIN;
  return x >= 9223372036854775808.0 ? INT64_MAX : (int64_t)x;
}

static uint64_t nw_to_uint64(double x) {
  if (!(x > 0)) return 0;
  return x >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)x;
}

/* As in C, but 0 where C says nothing. */
static int64_t nw_remainder(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

/* With the sign of the divisor, as in Python. */
static int64_t nw_modulo(int64_t a, int64_t b) {
  const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double nw_float_modulo(double a, double b) {
  const double rest = fmod(a, b);
  if (rest == 0) return copysign(rest, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/* All bits are moved out by too many places, and by less than none. */
static int64_t nw_shift_right(int64_t x, int64_t by, int64_t bits) {
  const int64_t places = by < 0 || by >= bits ? 63 : by;
  return x < 0 ? ~(~x >> places) : x >> places;
}

static uint64_t nw_integer_power(int64_t base, int64_t exponent) {
  uint64_t power = 1;
  uint64_t square = (uint64_t)base;
  if (exponent < 0) {
    if (base == -1) return exponent % 2 == 0 ? 1 : (uint64_t)base;
    return base == 1 ? 1 : 0;
  }
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power *= square;
    square *= square;
  }
  return power;
}

/* Eight sums at once, which compilers make vectors of. */
static float nw_dot_float(const float* a, const float* b, int64_t count) {
  float part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const int64_t whole = count - count % 8;
  for (int64_t i = 0; i < whole; i += 8) {
    for (int k = 0; k < 8; ++k) part[k] += a[i + k] * b[i + k];
  }
  for (int64_t i = whole; i < count; ++i) part[0] += a[i] * b[i];
  return ((part[0] + part[4]) + (part[1] + part[5])) +
         ((part[2] + part[6]) + (part[3] + part[7]));
}

/* Sums in double: of weights and inputs, and of weights and states. */
static double nw_dot_floats(const float* a, const float* b, int64_t count) {
  double part[4] = {0, 0, 0, 0};
  const int64_t whole = count - count % 4;
  for (int64_t i = 0; i < whole; i += 4) {
    for (int k = 0; k < 4; ++k) part[k] += (double)a[i + k] * (double)b[i + k];
  }
  for (int64_t i = whole; i < count; ++i) part[0] += (double)a[i] * (double)b[i];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

static double nw_dot_mixed(const float* a, const double* b, int64_t count) {
  double part[4] = {0, 0, 0, 0};
  const int64_t whole = count - count % 4;
  for (int64_t i = 0; i < whole; i += 4) {
    for (int k = 0; k < 4; ++k) part[k] += (double)a[i + k] * (double)b[i + k];
  }
  for (int64_t i = whole; i < count; ++i) part[0] += (double)a[i] * (double)b[i];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

static double nw_dot_double(const double* a, const double* b, int64_t count) {
  double part[4] = {0, 0, 0, 0};
  const int64_t whole = count - count % 4;
  for (int64_t i = 0; i < whole; i += 4) {
    for (int k = 0; k < 4; ++k) part[k] += (double)a[i + k] * (double)b[i + k];
  }
  for (int64_t i = whole; i < count; ++i) part[0] += (double)a[i] * (double)b[i];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

/* How many of the taps of a window that begins at `first` lie from `least` to
 * before `end`. */
static int64_t nw_taps(int64_t first, int64_t taps, int64_t dilation,
                       int64_t least, int64_t end) {
  const int64_t low =
      least > first ? (least - first + dilation - 1) / dilation : 0;
  int64_t high = end > first ? (end - first + dilation - 1) / dilation : 0;
  if (high > taps) high = taps;
  return high > low ? high - low : 0;
}

/* What lies at place i of a side of n elements that goes on with a constant; -1
 * for the constant. */
static int64_t nw_pad_constant(int64_t i, int64_t n) {
  return i >= 0 && i < n ? i : -1;
}

static int64_t nw_pad_edge(int64_t i, int64_t n) {
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static int64_t nw_pad_wrap(int64_t i, int64_t n) {
  const int64_t rest = i % n;
  return rest < 0 ? rest + n : rest;
}

static int64_t nw_pad_reflect(int64_t i, int64_t n) {
  const int64_t period = n > 1 ? 2 * (n - 1) : 1;
  const int64_t rest = i % period;
  const int64_t at = rest < 0 ? rest + period : rest;
  return at >= n ? period - at : at;
}

/* Negative indices count from the end; -1 for one that is out of range. */
static int64_t nw_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? -1 : index;
}
)c";

}  // namespace

std::string_view Prologue() { return kPrologue; }
std::string_view ArgumentCheck() { return kArgumentCheck; }

// From the last function to the first, since what is wanted calls others that
// stand in front of it.
std::string HelpersOf(std::string_view code) {
  std::string all(code);
  std::string helpers;
  for (std::string_view rest = kHelpers; !rest.empty();) {
    const size_t gap = rest.rfind("\n\n");
    const size_t begin = gap == std::string_view::npos ? 0 : gap + 1;
    const std::string_view text = rest.substr(begin);
    rest = rest.substr(0, begin);
    // No comment names a function, so the first name is that of this one.
    const size_t name = text.find("nw_");
    if (!HasWord(all, text.substr(name, text.find('(', name) - name))) continue;
    all += text;
    helpers.insert(0, text);
  }
  return helpers;
}

}  // namespace nodewise::emit_c
