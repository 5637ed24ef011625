#pragma once

#include <string>

#include "contrib/emit_c/operation_code.h"

namespace nodewise::emit_c {

// Convolutions and matrix products of quantised tensors share this: factors
// less their zero points, and sums brought to the scale of the output.

// Which inputs are the factors and their zero points.
struct ProductSlots {
  size_t a;
  size_t a_zero;
  size_t b;
  size_t b_zero;
};
// ConvInteger and MatMulInteger; QLinearConv and QLinearMatMul.
inline constexpr ProductSlots kIntegerProductSlots = {0, 2, 1, 3};
inline constexpr ProductSlots kQLinearProductSlots = {0, 2, 3, 5};

// Writes a copy, in 16 bits, of an input of 8 bits less its zero points, of
// which `zero_view` says where they lie for each element. One that is not given
// is 0.
CTensor CentredCopy(OperationCode& code, size_t slot, size_t zero_slot,
                    const View& zero_view);

// Refuses scales and zero points of QLinearConv's or QLinearMatMul's output
// that are not one number, since the reference does.
absl::Status RequireOneScale(const OperationCode& code);
// Returns an element of QLinearConv's or QLinearMatMul's output, of a sum and a
// variable "factor": both are doubles, as those of the reference.
std::string RequantizedText(const OperationCode& code, const std::string& sum);

// Returns a double rounded to the numbers of an integer type of at most 16
// bits, still as a double, after the zero point, which may be empty, has been
// added: the nearest in range, ties to even, NaN gives 0.
std::string SaturatedText(const std::string& x, const std::string& zero,
                          DLDataType to);

// Opens a block with the "scale" and "zero" point that DynamicQuantizeLinear
// chooses for the elements of x.
void OpenDynamicScale(CodeWriter* code, const CTensor& x);

}  // namespace nodewise::emit_c
