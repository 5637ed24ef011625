#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// What one wants to know of a tensor at a glance. Values are text already,
// since no one number type holds those of all: integers exactly, floats by the
// shortest digits that give them back, 8-bit floats and what else cannot be
// calculated with as hexadecimal bytes.
struct TensorSummary {
  bool has_numbers = false;  // Else the five that follow mean nothing.
  std::string min = "null";  // Of all values but NaN; "null" without any.
  std::string max = "null";
  double mean = 0;  // Of the finite values; NaN without any.
  uint64_t nans = 0;
  uint64_t infinities = 0;
  std::vector<std::string> first;  // The first values, row by row.
};

// REQUIRES: the tensor is compact and in host memory; it may lie at any
// address.
TensorSummary SummariseTensor(const DLTensor& tensor, size_t num_first);

// Adds the members min, max, mean, nans and infinities, where there are any.
void AddSummary(const TensorSummary& summary, JsonWriter* json);

// The number in at most six digits, for people; other text as it is.
std::string ShortNumber(const std::string& text);
std::string ShortNumber(double value);

}  // namespace nodewise
