#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// A summary of a tensor. Values are text, since no single number type holds the
// values of all tensors: integers exactly, floats with the shortest digits that
// read back the same, 8-bit floats and other types without arithmetic as
// hexadecimal bytes.
struct TensorSummary {
  bool has_numbers = false;  // Else the next five mean nothing.
  std::string min = "null";  // Without NaN; "null" if there is none.
  std::string max = "null";
  double mean = 0;  // Over finite values; NaN without any.
  uint64_t nans = 0;
  uint64_t infinities = 0;
  std::vector<std::string> first;  // The first values, row by row.
};

// REQUIRES: the tensor is compact and in host memory; it need not be aligned.
TensorSummary SummariseTensor(const DLTensor& tensor, size_t num_first);

// Adds the members min, max, mean, nans and infinities, where there are any.
void AddSummary(const TensorSummary& summary, JsonWriter* json);

// Returns the number in at most six digits, for people; other text unchanged.
std::string ShortNumber(const std::string& text);
std::string ShortNumber(double value);

}  // namespace nodewise
