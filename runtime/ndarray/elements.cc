#include "nodewise/ndarray/elements.h"

#include <array>

#include "runtime/ndarray/short_float_values.h"

namespace nodewise {

constinit const std::array<float, 256> Float8E4M3::kValues =
    ShortFloatValues(kFormat);
constinit const std::array<float, 256> Float8E4M3Fnuz::kValues =
    ShortFloatValues(kFormat);
constinit const std::array<float, 256> Float8E5M2::kValues =
    ShortFloatValues(kFormat);
constinit const std::array<float, 256> Float8E5M2Fnuz::kValues =
    ShortFloatValues(kFormat);
constinit const std::array<float, 256> Float8E8M0::kValues =
    ShortFloatValues(kFormat);
constinit const std::array<float, 256> Float4E2M1::kValues =
    ShortFloatValues(kFormat);

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
