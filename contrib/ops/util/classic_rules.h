#pragma once

// What operators of ai.onnx.ml share; only for their files.

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Fails with kUnimplemented if the attribute is given: no tensor here has
// strings.
inline absl::Status RefuseStrings(const char* attribute,
                                  const std::vector<std::string>& given) {
  if (given.empty()) return absl::OkStatus();
  return Unimplemented(
      "attribute {}: is given, and strings are refused, expected numbers",
      attribute);
}

// Requires float32, float64, int32 or int64.
inline absl::Status RequireClassic(const Inputs& in, size_t i) {
  const auto is_classic = [](DLDataType dtype) {
    return dtype == kFloat32 || dtype == kFloat64 || dtype == kInt32 ||
           dtype == kInt64;
  };
  return RequireType(in, i, is_classic, "float32, float64, int32 or int64");
}

// Features, a row for each item. A vector is one row.
struct FeatureRows {
  int64_t rows = 1;
  int64_t features = 0;
};
// REQUIRES: rank 1 or 2.
inline FeatureRows RowsOf(absl::Span<const int64_t> shape) {
  return shape.size() == 1 ? FeatureRows{1, shape[0]}
                           : FeatureRows{shape[0], shape[1]};
}
// Returns the number of rows as far as it is known.
inline Dim CountRows(const Inputs& in, size_t i) {
  const TensorType& type = in.type(i);
  if (type.has_rank() && type.rank() == 1) return Dim(1);
  return SideOf(in, i, 0);
}

// Makes the row of an operator of ai.onnx.ml, as Row() does of ONNX's own.
template <typename Class, typename Rules>
constexpr OperatorDef ClassicRow(std::string_view name, int since,
                                 const RowList<Param, 16>& inputs,
                                 const RowList<Param, 16>& outputs,
                                 ErrorBound bound = kExact) {
  return Row<Class, Rules>({.name = name,
                            .domain = "ai.onnx.ml",
                            .since = since,
                            .inputs = inputs,
                            .outputs = outputs,
                            .bound = bound});
}

}  // namespace nodewise
