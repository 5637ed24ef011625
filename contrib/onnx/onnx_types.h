#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "contrib/onnx/onnx.pb.h"
#include "nodewise/tensors/tensor_proto.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

namespace proto = ::nodewise_onnx;

// Sizes for dimensions by their names, and the names that a model has.
struct DimSizes {
  std::map<std::string, int64_t> sizes;
  std::set<std::string> names;
};

// The type that a model states, with the dimensions bound that have a size.
// Nothing stated: nothing known. kUnimplemented for sequences, maps and so on,
// by name, and for element types that are refused. Without `dims` the names of
// dimensions say nothing.
absl::StatusOr<TensorType> ReadType(const proto::Type& type, DimSizes* dims);
// As ReadType(), of the sides of an input that have no name; see NameOfSide().
void BindUnnamedSides(const std::string& input, TensorType* type,
                      DimSizes* dims);
// REQUIRES: the element type is not known, or is one of ONNX's.
void WriteType(const TensorType& type, proto::Type* to);

// What the message says, data in another file apart; it must outlive the
// result.
TensorFields FieldsOf(const proto::Tensor& tensor);

// A copy of the tensor, which is in host memory. kUnimplemented for types that
// ONNX does not have.
absl::Status WriteTensor(const NDArray& tensor, proto::Tensor* to);

}  // namespace nodewise
