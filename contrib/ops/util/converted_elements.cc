#include "contrib/ops/util/converted_elements.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/util/wide_elements.h"

namespace nodewise {
namespace {

template <typename E>
struct IsShortFloatElement
    : std::bool_constant<ShortFloatElement<typename E::Stored>> {};
using ShortFloatElements = ElementsWhere<IsShortFloatElement>;

}  // namespace

bool IsShortInteger(DLDataType dtype) {
  return IsConverted(dtype) && !IsShortFloat(dtype);
}

bool IsShortFloat(DLDataType dtype) {
  return dtype.lanes == 1 &&
         VisitOneOf(ShortFloatElements(), dtype, [](auto) {});
}

ShortFloat ShortFormatOf(DLDataType dtype) {
  ShortFloat format{};
  VisitOneOf(ShortFloatElements(), dtype, [&format](auto element) {
    format = decltype(element)::Stored::kFormat;
  });
  return format;
}

void LoadIntegers(const NDArray& tensor, int64_t begin, int64_t end,
                  int64_t* to) {
  const DLDataType dtype = tensor.dtype();
  if (!IsShortInteger(dtype)) return LoadWide(tensor, begin, end, to);
  if (dtype.code == kDLInt) {
    std::copy_n(tensor.As<int8_t>() + begin, end - begin, to);
  } else {
    std::copy_n(tensor.As<uint8_t>() + begin, end - begin, to);
  }
}

void StoreIntegers(const int64_t* from, int64_t begin, int64_t end,
                   const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  if (!IsShortInteger(dtype)) return StoreWide(from, begin, end, tensor);
  const int64_t values = int64_t{1} << dtype.bits;
  const int64_t sign = dtype.code == kDLInt ? values / 2 : 0;
  auto* const to = tensor.As<uint8_t>();
  for (int64_t i = begin; i < end; ++i) {
    // The sign's bit goes through all upper bits.
    const int64_t low = from[i - begin] & (values - 1);
    to[i] = static_cast<uint8_t>((low ^ sign) - sign);
  }
}

void StoreShortFloats(const double* from, int64_t begin, int64_t end,
                      const NDArray& tensor, ShortRounding rounding) {
  const ShortFloat format = ShortFormatOf(tensor.dtype());
  auto* const to = tensor.As<uint8_t>();
  for (int64_t i = begin; i < end; ++i) {
    to[i] = EncodeShortFloat(format, from[i - begin], rounding);
  }
}

double ShortStep(DLDataType dtype, uint8_t pattern) {
  // Patterns of one sign are in the order of their sizes.
  const uint8_t around[] = {static_cast<uint8_t>(pattern - 1), pattern,
                            static_cast<uint8_t>(pattern + 1)};
  double values[3] = {};
  DecodeToDoubles(dtype, around, 3, values);
  if (!std::isfinite(values[1])) return 0;
  double step = 0;
  for (const double value : {values[0], values[2]}) {
    const bool is_neighbour =
        std::isfinite(value) && std::signbit(value) == std::signbit(values[1]);
    if (is_neighbour) step = std::max(step, std::fabs(value - values[1]));
  }
  return step;
}

}  // namespace nodewise
