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

// Returns the type that a model states, with the dimensions bound that have a
// size; an unknown type if none is stated. Fails with kUnimplemented, by name,
// for sequences, maps and so on, and for element types that are refused.
// Without `dims` the names of dimensions are dropped.
absl::StatusOr<TensorType> ReadType(const proto::Type& type, DimSizes* dims);
// Binds the sides of an input that have no name, by NameOfSide().
void BindUnnamedSides(const std::string& input, TensorType* type,
                      DimSizes* dims);
// REQUIRES: the element type is not known, or is one of ONNX's.
void WriteType(const TensorType& type, proto::Type* to);

// Returns the fields of the message, except data in another file; the message
// must outlive the result.
TensorFields FieldsOf(const proto::Tensor& tensor);

// Copies the tensor, which is in host memory. Fails with kUnimplemented for
// types that ONNX does not have.
absl::Status WriteTensor(const NDArray& tensor, proto::Tensor* to);

}  // namespace nodewise
