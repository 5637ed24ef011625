#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dlpack/dlpack.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/half.h"

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
// 4 bits of exponent and 3 of fraction, no infinities, one NaN of either sign.
struct Float8E4M3 {
  uint8_t bits;
};
// The upper half of a Half.
struct Float8E5M2 {
  uint8_t bits;
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
float DecodeElement(Float8E4M3 x);
inline float DecodeElement(Float8E5M2 x) {
  return HalfToFloat(static_cast<uint16_t>(x.bits << 8));
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

// What is done with the elements of a type.
enum class ElementUse {
  kNumbers,  // Statistics and operators calculate with them.
  kStorage,  // They are stored, moved and shown.
};

// One element type: its C++ type and its numbers in DLDataType.
template <typename T, uint8_t code, uint8_t bits,
          ElementUse use = ElementUse::kNumbers>
struct Element {
  using Stored = T;
  static constexpr DLDataType kDType{code, bits, 1};
  static constexpr bool kHasNumbers = use == ElementUse::kNumbers;

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
    Element<int8_t, kDLInt, 4, ElementUse::kStorage>,
    Element<uint8_t, kDLUInt, 4, ElementUse::kStorage>,
    Element<Float8E4M3, kDTypeE4M3, 8, ElementUse::kStorage>,
    Element<Float8E5M2, kDTypeE5M2, 8, ElementUse::kStorage>,
    Element<Complex<float>, kDLComplex, 64, ElementUse::kStorage>,
    Element<Complex<double>, kDLComplex, 128, ElementUse::kStorage>>;

// The element types for which Keep<Element<...>>::value is true.
template <template <typename> typename Keep>
using ElementsWhere = typename internal::Filtered<Keep, ElementTypes>::List;

// Returns whether lanes share bytes. No format says which end of a byte comes
// first, so nobody can tell such elements apart: they have no element type.
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
