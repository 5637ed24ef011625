#pragma once

#include "absl/status/statusor.h"
#include "contrib/onnx/external_data.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// AttributeProto.AttributeType.
enum class AttributeType {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

// Returns the type that it states; early writers did not, then the type of what
// is set.
AttributeType TypeOf(const proto::Attribute& attribute);

// Returns the value of an attribute that is not a graph. Fails with
// kUnimplemented, by name, for types that no operator here has; otherwise as
// TensorReader::Read does.
absl::StatusOr<AttrValue> ReadAttribute(const proto::Attribute& attribute,
                                        TensorReader* tensors);
// REQUIRES: the value is not a graph.
absl::Status WriteAttribute(const AttrValue& value, proto::Attribute* to);

}  // namespace nodewise
