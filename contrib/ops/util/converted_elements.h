#pragma once

// Elements that operators make of other numbers and back, and that none
// calculates with (IsConverted() in nodewise/op/tensor_loops.h); only for the
// files of operators.

#include <cstdint>

#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

bool IsShortInteger(DLDataType dtype);  // 2 or 4 bits.
bool IsShortFloat(DLDataType dtype);    // 4 or 8 bits.

// How a short float is encoded. REQUIRES: IsShortFloat(dtype).
ShortFloat ShortFormatOf(DLDataType dtype);

// Reads integers of 2 and 4 bits, and others, as LoadWide() does.
void LoadIntegers(const NDArray& tensor, int64_t begin, int64_t end,
                  int64_t* to);
// Writes integers, which lose their upper bits, as elements of any integer type
// or bool.
void StoreIntegers(const int64_t* from, int64_t begin, int64_t end,
                   const NDArray& tensor);
// Writes short floats. REQUIRES: IsShortFloat() of the tensor's type.
void StoreShortFloats(const double* from, int64_t begin, int64_t end,
                      const NDArray& tensor, ShortRounding rounding);

// Returns how far a short float is from its farther neighbour; 0 for NaN and
// infinity.
double ShortStep(DLDataType dtype, uint8_t pattern);

}  // namespace nodewise
