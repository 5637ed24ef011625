#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dlpack/dlpack.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/short_float.h"

// Every element type there is, named once: ElementTypes. Code that handles
// elements by their type is written once, as a visitor, or asks for doubles:
//
//   VisitElementType(tensor.dtype(), [&](auto element) {
//     using Stored = typename decltype(element)::Stored;
//     ...
//   });
namespace nodewise {

// Elements as they lie in memory, where C++ has no type of its own for them.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
// 0 is false, all else true; what nodewise itself writes is 0 or 1.
struct Bool {
  uint8_t bits;
};
// A float of a byte or less, of this format; the bits above its own mean
// nothing. `kValues` has the number of each of the 256 patterns.
template <uint8_t width, uint8_t exponent, uint8_t fraction, uint8_t bias,
          ShortSpecials specials>
struct ShortFloatOf {
  static constexpr ShortFloat kFormat{width, exponent, fraction, bias,
                                      specials};
  static const std::array<float, 256> kValues;
  uint8_t bits;
};
// All that there are, by what DLPack and ONNX call them.
using Float8E4M3 = ShortFloatOf<8, 4, 3, 7, ShortSpecials::kLastIsNan>;
using Float8E4M3Fnuz = ShortFloatOf<8, 4, 3, 8, ShortSpecials::kOneNan>;
using Float8E5M2 = ShortFloatOf<8, 5, 2, 15, ShortSpecials::kIeee>;
using Float8E5M2Fnuz = ShortFloatOf<8, 5, 2, 16, ShortSpecials::kOneNan>;
using Float8E8M0 = ShortFloatOf<8, 8, 0, 127, ShortSpecials::kPowers>;
using Float4E2M1 = ShortFloatOf<4, 2, 1, 1, ShortSpecials::kNone>;
// Made in elements.cc.
extern template struct ShortFloatOf<8, 4, 3, 7, ShortSpecials::kLastIsNan>;
extern template struct ShortFloatOf<8, 4, 3, 8, ShortSpecials::kOneNan>;
extern template struct ShortFloatOf<8, 5, 2, 15, ShortSpecials::kIeee>;
extern template struct ShortFloatOf<8, 5, 2, 16, ShortSpecials::kOneNan>;
extern template struct ShortFloatOf<8, 8, 0, 127, ShortSpecials::kPowers>;
extern template struct ShortFloatOf<4, 2, 1, 1, ShortSpecials::kNone>;

template <typename T>
concept ShortFloatElement = requires {
  T::kFormat;
  T::kValues;
};

template <typename T>
struct Complex {
  using Part = T;
  T real;
  T imaginary;
};

// Return an element as the number it is, exactly. Complex numbers have no
// overload.
template <typename T>
requires std::is_arithmetic_v<T>
constexpr T DecodeElement(T x) { return x; }
inline float DecodeElement(Half x) { return HalfToFloat(x.bits); }
inline float DecodeElement(Bfloat x) { return BfloatToFloat(x.bits); }
constexpr bool DecodeElement(Bool x) { return x.bits != 0; }
template <ShortFloatElement T>
float DecodeElement(T x) {
  return T::kValues[x.bits];
}

template <typename T>
concept DecodableElement = requires(T x) {
  DecodeElement(x);
};

// Reads element `index` of an array, which may lie at any address.
template <typename T>
T LoadElement(const void* array, size_t index) {
  T element;
  std::memcpy(&element, static_cast<const uint8_t*>(array) + index * sizeof(T),
              sizeof(T));
  return element;
}

// The ways in which the elements of a type can be used.
enum class ElementUse {
  kNumbers,    // Statistics and operators calculate with them.
  kConverted,  // Statistics do; operators make them of other numbers and back.
  kStorage,    // They are stored, moved and shown.
};

// One element type: its C++ type and its numbers in DLDataType.
template <typename T, uint8_t code, uint8_t bits,
          ElementUse use = ElementUse::kNumbers>
struct Element {
  using Stored = T;
  static constexpr DLDataType kDType{code, bits, 1};
  static constexpr bool kHasNumbers = use != ElementUse::kStorage;
  static constexpr bool kIsCalculated = use == ElementUse::kNumbers;

  static constexpr bool Is(DLDataType dtype) {
    return dtype.code == code && dtype.bits == bits;
  }
};

template <typename... E>
struct ElementList {};

// Calls f(Element<...>()) with the one of the list whose code and width `dtype`
// has; returns false if none has.
template <typename... E, typename F>
bool VisitOneOf(ElementList<E...>, DLDataType dtype, F&& f) {
  return ((E::Is(dtype) && (f(E{}), true)) || ...);
}

namespace internal {

template <typename... Lists>
struct Joined;
template <typename... A>
struct Joined<ElementList<A...>> {
  using List = ElementList<A...>;
};
template <typename... A, typename... B, typename... Lists>
struct Joined<ElementList<A...>, ElementList<B...>, Lists...>
    : Joined<ElementList<A..., B...>, Lists...> {};

template <template <typename> typename Keep, typename List>
struct Filtered;
template <template <typename> typename Keep, typename... E>
struct Filtered<Keep, ElementList<E...>>
    : Joined<ElementList<>, std::conditional_t<Keep<E>::value, ElementList<E>,
                                               ElementList<>>...> {};

}  // namespace internal

// An element of less than a byte takes a whole one, and all of it is read.
// Frequent types come first.
using ElementTypes = ElementList<
    Element<float, kDLFloat, 32>, Element<int8_t, kDLInt, 8>,
    Element<uint8_t, kDLUInt, 8>, Element<Half, kDLFloat, 16>,
    Element<Bfloat, kDLBfloat, 16>, Element<int32_t, kDLInt, 32>,
    Element<int64_t, kDLInt, 64>, Element<Bool, kDLUInt, 1>,
    Element<Bool, kDTypeBool, 8>, Element<double, kDLFloat, 64>,
    Element<int16_t, kDLInt, 16>, Element<uint16_t, kDLUInt, 16>,
    Element<uint32_t, kDLUInt, 32>, Element<uint64_t, kDLUInt, 64>,
    Element<int8_t, kDLInt, 1, ElementUse::kStorage>,
    Element<int8_t, kDLInt, 2, ElementUse::kConverted>,
    Element<uint8_t, kDLUInt, 2, ElementUse::kConverted>,
    Element<int8_t, kDLInt, 4, ElementUse::kConverted>,
    Element<uint8_t, kDLUInt, 4, ElementUse::kConverted>,
    Element<Float8E4M3, kDTypeE4M3, 8, ElementUse::kConverted>,
    Element<Float8E4M3Fnuz, kDTypeE4M3Fnuz, 8, ElementUse::kConverted>,
    Element<Float8E5M2, kDTypeE5M2, 8, ElementUse::kConverted>,
    Element<Float8E5M2Fnuz, kDTypeE5M2Fnuz, 8, ElementUse::kConverted>,
    Element<Float8E8M0, kDTypeE8M0, 8, ElementUse::kConverted>,
    Element<Float4E2M1, kDTypeE2M1, 4, ElementUse::kConverted>,
    Element<Complex<float>, kDLComplex, 64, ElementUse::kStorage>,
    Element<Complex<double>, kDLComplex, 128, ElementUse::kStorage>>;

// The element types for which Keep<Element<...>>::value is true.
template <template <typename> typename Keep>
using ElementsWhere = typename internal::Filtered<Keep, ElementTypes>::List;

// Returns whether lanes share bytes. No format says which end of a byte comes
// first, so such elements cannot be told apart: they have no element type.
constexpr bool IsPacked(DLDataType dtype) {
  return dtype.lanes > 1 && dtype.bits < 8;
}

namespace internal {

template <typename... E>
constexpr size_t SizeOf(ElementList<E...>) {
  return sizeof...(E);
}

template <typename... E>
size_t IndexOf(ElementList<E...>, DLDataType dtype) {
  size_t index = 0;
  (void)((E::Is(dtype) || (++index, false)) || ...);
  return index;
}

}  // namespace internal

// Calls f(Element<...>()) with the element type of `dtype`: with that of one
// lane if there are several. Returns false, and does not call, for handles,
// unknown types and packed lanes. `f` is compiled for each type: where speed
// does not matter, DecodeToDoubles() is smaller.
template <typename F>
bool VisitElementType(DLDataType dtype, F&& f) {
  return !IsPacked(dtype) && VisitOneOf(ElementTypes{}, dtype, f);
}

inline constexpr size_t kNumElementTypes = internal::SizeOf(ElementTypes{});

// Returns the place of a type in ElementTypes, for tables with a row for each;
// kNumElementTypes if VisitElementType() would return false.
inline size_t ElementIndex(DLDataType dtype) {
  return IsPacked(dtype) ? kNumElementTypes
                         : internal::IndexOf(ElementTypes{}, dtype);
}

// Reads `count` elements (lanes counted one by one) at any address as doubles;
// 64-bit integers are rounded. Returns false, and writes nothing, for types
// that have no element type or no single number: complex ones.
bool DecodeToDoubles(DLDataType dtype, const void* elements, size_t count,
                     double* to);

}  // namespace nodewise
