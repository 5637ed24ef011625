#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/onnx/onnx.pb.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"
#include "nodewise/support/file.h"
#include "nodewise/tensors/tensor_proto.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

namespace proto = ::nodewise_onnx;

using Nodes = google::protobuf::RepeatedPtrField<proto::Node>;
using AttributesByName =
    std::map<std::string, const proto::Attribute*, std::less<>>;

// Returns what a map has for a key, or null.
template <typename Map, typename Key>
auto* FindOrNull(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// Whether a list has an item that equals this one.
template <typename List, typename Item>
bool IsIn(const List& list, const Item& item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

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

// Reads a model. Fails with kDataLoss, naming `where`, for what is not one.
absl::StatusOr<std::shared_ptr<proto::Model>> ParseModel(
    absl::Span<const uint8_t> bytes, const std::string& where);

// The value of data_location for data in another file.
inline constexpr int32_t kExternalData = 1;

// Returns the file that a tensor's data is in, below the model's folder; none
// if it is in the model, or is said to be where it must not be.
std::optional<std::string> ExternalLocation(const proto::Tensor& tensor);

// The tensors of one model: those with their data in the model, and those with
// it in files of the model's folder, which are mapped once; no file outside the
// folder is read.
class TensorReader {
 public:
  // `owner` keeps the messages alive, for tensors that borrow from them. With
  // an empty folder there may be no such files.
  TensorReader(std::shared_ptr<void> owner, std::string folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  // Fails with kUnimplemented for types that are refused, kNotFound for a file
  // that is missing, kDataLoss for data that does not fit.
  absl::StatusOr<NDArray> Read(const proto::Tensor& tensor);

 private:
  absl::StatusOr<NDArray> ReadExternal(const proto::Tensor& tensor);
  // Returns the file at this place below the folder.
  absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& location);

  std::shared_ptr<void> owner_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

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

// Returns the type of what is set, among those that operators have; kUndefined
// if nothing is.
AttributeType TypeOfValue(const proto::Attribute& attribute);
// Returns the type that it states; early writers did not, then that of its
// value.
AttributeType TypeOf(const proto::Attribute& attribute);

// Returns the first attribute of that name, or null.
const proto::Attribute* FindAttribute(const proto::Node& node,
                                      std::string_view name);

// Returns the value of an attribute that is not a graph. Fails with
// kUnimplemented, by name, for types that no operator here has; otherwise as
// TensorReader::Read does.
absl::StatusOr<AttrValue> ReadAttribute(const proto::Attribute& attribute,
                                        TensorReader* tensors);
// REQUIRES: the value is not a graph.
absl::Status WriteAttribute(const AttrValue& value, proto::Attribute* to);
// Returns an attribute. REQUIRES: the value is neither a graph nor a tensor.
proto::Attribute NamedAttribute(std::string_view name, const AttrValue& value);

// Reads what nodes of a model say of where they are from. Notes that many nodes
// have alike are kept once.
class OriginReader {
 public:
  // Returns null if the node says nothing. What would take too much memory is
  // left out. REQUIRES: nodes that say something outlive this.
  std::shared_ptr<const Origin> Read(const proto::Node& node);

 private:
  void Keep(const std::string& key, const std::string& value, Origin* origin);

  // A node of a function is read for each of its calls.
  std::unordered_map<const proto::Node*, std::shared_ptr<const Origin>> read_;
  std::unordered_map<std::string, std::shared_ptr<const std::string>> values_;
  size_t bytes_left_ = size_t{64} << 20;
};

// Writes an operation's notes as the importer reads them.
void WriteOrigin(const Operation& operation, proto::Node* to);

}  // namespace nodewise
