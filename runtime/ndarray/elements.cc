#include "nodewise/ndarray/elements.h"

#include <cmath>
#include <limits>

namespace nodewise {

float DecodeElement(Float8E4M3 x) {
  const int exponent = x.bits >> 3 & 0xF;
  const int fraction = x.bits & 7;
  float magnitude = 0;
  if ((x.bits & 0x7F) == 0x7F) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -9);
  } else {
    magnitude = std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  }
  return std::copysign(magnitude, (x.bits & 0x80) != 0 ? -1.0F : 1.0F);
}

bool DecodeToDoubles(DLDataType dtype, const void* elements, size_t count,
                     double* to) {
  bool has_numbers = false;
  VisitElementType(dtype, [&](auto element) {
    using T = typename decltype(element)::Stored;
    if constexpr (DecodableElement<T>) {
      has_numbers = true;
      for (size_t i = 0; i < count; ++i) {
        to[i] = static_cast<double>(DecodeElement(LoadElement<T>(elements, i)));
      }
    }
  });
  return has_numbers;
}

}  // namespace nodewise
