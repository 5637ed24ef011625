#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns an input; kNoValue if it is not given.
ValueId InputOf(const Operation& operation, size_t i);

// A tensor of integers with what relates it to floats: (data - zero) * scale.
struct QuantizedTensor {
  std::string_view role;  // How reasons name it: "x".
  ValueId data = kNoValue;
  ValueId scale = kNoValue;
  ValueId zero = kNoValue;  // kNoValue: 0.
  int64_t axis = 1;         // As the operator has it.
  int64_t block_size = 0;
};
// What a DequantizeLinear reads, and what a QuantizeLinear makes. REQUIRE: the
// operation is one.
QuantizedTensor DequantizedBy(const Operation& operation,
                              std::string_view role);
QuantizedTensor QuantizedBy(const Operation& operation, std::string_view role);

// The known facts about the scale and the zero point of a tensor of 8 bits.
struct ScaleFacts {
  DLDataType type{};           // The type of the integers.
  std::optional<int> axis;     // From the front; none: one scale for all.
  std::vector<double> scales;  // Empty if they are not constants.
  std::vector<double> zeros;   // Likewise; one 0 if there is no zero point.
};
// Fails, saying what and why, unless the tensor is one of int8 or uint8 with
// one float32 scale, or one for each index along an axis, that an operator on
// integers could take: constant scales are neither 0 nor NaN nor so small or
// large that sums of products might not be normal float32 numbers.
absl::StatusOr<ScaleFacts> FactsOf(const Network& network,
                                   const QuantizedTensor& tensor);
// Fails unless all scales that are constants are finite and above 0.
absl::Status CheckScales(const Network& network, const QuantizedTensor& tensor);

// Returns the DequantizeLinear that makes a value; null if none does.
const Operation* DequantizeOf(const Network& network, ValueId id);
DLDataType TypeOf(const Network& network, ValueId id);

// Returns the data of a constant; null if the value is none, or no constant.
const NDArray* ConstantOf(const Network& network, ValueId id);
// Returns the zero points, one 0 if there are none; empty if they are not
// constants.
std::vector<double> ZerosOf(const Network& network,
                            const QuantizedTensor& tensor);
// Returns the elements of a constant as doubles; none if it is not a constant.
std::optional<std::vector<double>> NumbersOf(const Network& network,
                                             ValueId id);
// Returns whether two values hold the same numbers in every run: they are the
// same value, or constants with equal elements of one type and shape (rank 0
// and one element of rank 1 count as equal). kNoValue is equal to a constant of
// zeros.
bool HoldSameNumbers(const Network& network, ValueId a, ValueId b);
// Returns whether both relate the same integers to the same floats.
bool AreScaledAlike(const Network& network, const QuantizedTensor& a,
                    const QuantizedTensor& b);

// The range of an integer type of 8 or 16 bits.
struct IntegerRange {
  double low = 0;
  double high = 0;
};
std::optional<IntegerRange> RangeOfType(DLDataType dtype);
// Returns the largest |x - zero| of any x of the type; `zeros` empty: unknown.
double LargestDistance(const IntegerRange& range,
                       const std::vector<double>& zeros);
bool IsPowerOfTwo(double x);

}  // namespace nodewise
