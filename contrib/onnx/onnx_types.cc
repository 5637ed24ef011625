#include "contrib/onnx/onnx_types.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/packed_elements.h"

namespace nodewise {
namespace {

// Exporters write "?" or "-1" for sides of unknown size, which need not be
// equal.
bool IsName(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalpha(c) || c == '_' || c >= 0x80;
  });
}

Dim BoundOr(const Dim& unbound, const std::string& name, DimSizes* dims) {
  dims->names.insert(name);
  const auto size = dims->sizes.find(name);
  return size == dims->sizes.end() ? unbound : Dim(size->second);
}

absl::StatusOr<Dim> ReadDim(const proto::Shape::Dimension& dim,
                            DimSizes* dims) {
  if (dim.has_dim_value()) {
    // Some exporters write this for a side that they do not know.
    if (dim.dim_value() == -1) return Dim();
    if (dim.dim_value() >= 0) return Dim(dim.dim_value());
    return absl::DataLossError(
        fmt::format("has a side of {}, expected 0 or more", dim.dim_value()));
  }
  if (dims == nullptr || !dim.has_dim_param() || !IsName(dim.dim_param())) {
    return Dim();
  }
  return BoundOr(Dim::Named(dim.dim_param()), dim.dim_param(), dims);
}

// Returns what a type is if it is not a tensor's.
const char* RefusedKind(const proto::Type& type) {
  switch (type.value_case()) {
    case proto::Type::kSequenceType:
      return "a sequence";
    case proto::Type::kMapType:
      return "a map";
    case proto::Type::kOpaqueType:
      return "opaque";
    case proto::Type::kSparseTensorType:
      return "a sparse tensor";
    case proto::Type::kOptionalType:
      return "an optional";
    case proto::Type::kTensorType:
    case proto::Type::VALUE_NOT_SET:
      break;
  }
  return nullptr;
}

template <typename Numbers>
auto SpanOf(const Numbers& numbers) {
  return absl::MakeConstSpan(numbers.data(),
                             static_cast<size_t>(numbers.size()));
}

}  // namespace

absl::StatusOr<TensorType> ReadType(const proto::Type& type, DimSizes* dims) {
  if (const char* const kind = RefusedKind(type)) {
    return absl::UnimplementedError(
        fmt::format("is {}, which is not supported, expected a tensor", kind));
  }
  TensorType result;
  if (!type.has_tensor_type()) return result;
  const proto::Type::OfTensor& tensor = type.tensor_type();
  if (tensor.elem_type() != 0) {
    NODEWISE_ASSIGN_OR_RETURN(result.dtype, DTypeFromOnnx(tensor.elem_type()));
  }
  if (!tensor.has_shape()) return result;
  result.shape.emplace();
  for (const proto::Shape::Dimension& dim : tensor.shape().dim()) {
    NODEWISE_ASSIGN_OR_RETURN(Dim side, ReadDim(dim, dims));
    result.shape->push_back(std::move(side));
  }
  return result;
}

void BindUnnamedSides(const std::string& input, TensorType* type,
                      DimSizes* dims) {
  if (!type->has_rank()) return;
  for (size_t i = 0; i < type->shape->size(); ++i) {
    Dim& side = (*type->shape)[i];
    if (side.is_known() || !side.name().empty()) continue;
    side = BoundOr(side, NameOfSide(input, i, side), dims);
  }
}

void WriteType(const TensorType& type, proto::Type* to) {
  proto::Type::OfTensor* const tensor = to->mutable_tensor_type();
  if (type.has_dtype()) {
    tensor->set_elem_type(
        static_cast<int32_t>(OnnxNumberOf(type.dtype).value_or(0)));
  }
  if (!type.has_rank()) return;
  proto::Shape* const shape = tensor->mutable_shape();
  for (const Dim& side : *type.shape) {
    proto::Shape::Dimension* const dim = shape->add_dim();
    if (side.is_known()) {
      dim->set_dim_value(side.size());
    } else if (!side.name().empty()) {
      dim->set_dim_param(side.name());
    }
  }
}

TensorFields FieldsOf(const proto::Tensor& tensor) {
  TensorFields fields;
  fields.name = tensor.name();
  fields.dims = SpanOf(tensor.dims());
  fields.data_type = tensor.data_type();
  fields.floats = SpanOf(tensor.float_data());
  fields.int32s = SpanOf(tensor.int32_data());
  fields.int64s = SpanOf(tensor.int64_data());
  fields.doubles = SpanOf(tensor.double_data());
  fields.uint64s = SpanOf(tensor.uint64_data());
  fields.has_raw = tensor.has_raw_data();
  fields.raw = {reinterpret_cast<const uint8_t*>(tensor.raw_data().data()),
                tensor.raw_data().size()};
  return fields;
}

absl::Status WriteTensor(const NDArray& tensor, proto::Tensor* to) {
  const auto number = OnnxNumberOf(tensor.dtype());
  if (!number.has_value()) {
    return absl::UnimplementedError(fmt::format(
        "is {}, expected a type that ONNX has", ToString(tensor.dtype())));
  }
  NDArray host = tensor;
  if (DeviceTypeOf(host.device()) != kDLCPU || !IsCompact(*host)) {
    NODEWISE_ASSIGN_OR_RETURN(host, host.CopyToHost());
  }
  for (const int64_t dim : host.shape()) to->add_dims(dim);
  to->set_data_type(static_cast<int32_t>(*number));
  NODEWISE_ASSIGN_OR_RETURN(std::string data, OnnxDataOf(host));
  to->set_raw_data(std::move(data));
  return absl::OkStatus();
}

}  // namespace nodewise
