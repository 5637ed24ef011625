#pragma once

// What operators of ai.onnx.ml share; only for their files.

#include <string>
#include <vector>

#include "nodewise/op/shape_rules.h"

namespace nodewise {

// Fails with kUnimplemented if the attribute is given.
absl::Status RefuseStrings(const char* attribute,
                           const std::vector<std::string>& given);
// Requires float32, float64, int32 or int64.
absl::Status RequireClassic(const Inputs& in, size_t i);

// Features, a row for each item. A vector is one row.
struct FeatureRows {
  int64_t rows = 1;
  int64_t features = 0;
};
// REQUIRES: rank 1 or 2.
FeatureRows RowsOf(absl::Span<const int64_t> shape);
// Returns the number of rows as far as it is known.
Dim CountRows(const Inputs& in, size_t i);

}  // namespace nodewise
