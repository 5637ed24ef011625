// The named functions of arrays and devices.

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/array_arguments.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {
namespace {

// Returns the type of an array from a program written for TVM, which has other
// codes for the 8-bit floats.
absl::StatusOr<DLDataType> ArrayType(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype, arg.AsDType());
  return ClassicType(dtype);
}

// Makes an array from the parameters of TVMArrayAllocWithScope after the shape.
absl::StatusOr<Value> AllocateArray(absl::Span<const int64_t> shape,
                                    PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype, ArrayType(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView device_arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, device_arg.AsDevice());
  NODEWISE_ASSIGN_OR_RETURN(const ArgView scope, args.At(2));
  if (!scope.IsNull()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, scope.AsString());
    NODEWISE_RETURN_IF_ERROR(CheckMemoryScope(device, name));
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray array,
                            NDArray::Empty(shape, dtype, device));
  return Value(std::move(array));
}

// (shape, dtype, device, scope or null); until TVM 0.8 the shape is a pointer
// and a rank.
absl::StatusOr<Value> AllocateWithScope(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView first, args.At(0));
  if (first.code() == kTVMObjectHandle) {
    NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                              args.ObjectAt<ShapeObject>(0, "a shape"));
    return AllocateArray(shape->dims, args.From(1));
  }
  NODEWISE_ASSIGN_OR_RETURN(void* const dims, first.AsHandle());
  NODEWISE_ASSIGN_OR_RETURN(const int rank, args.SmallIntAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const auto shape,
                            TakeShape("TVMArrayAllocWithScope",
                                      static_cast<const int64_t*>(dims), rank));
  return AllocateArray(shape, args.From(2));
}

// TVM's Python package raises the error type that a message begins with.
absl::Status ValueError(const absl::Status& status) {
  return WithMessage(status, fmt::format("ValueError: {}", MessageOf(status)));
}

absl::StatusOr<NDArray> ViewOf(const NDArray& array,
                               absl::Span<const int64_t> shape,
                               DLDataType dtype, int64_t offset) {
  if (offset < 0) {
    return absl::InvalidArgumentError(
        fmt::format("a view from byte {} on, expected 0 or more", offset));
  }
  if (!IsCompact(*array)) {
    return absl::InvalidArgumentError(fmt::format(
        "a view of {}: it has strides, expected a compact array (copy it)",
        TypeToString(array.shape(), array.dtype())));
  }
  return array.View(shape, dtype, static_cast<size_t>(offset));
}

// (array, shape), since TVM 0.17 (array, shape, dtype, offset in bytes).
absl::StatusOr<Value> CreateView(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView array_arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray array, array_arg.AsNDArray());
  NODEWISE_ASSIGN_OR_RETURN(const Ref<ShapeObject> shape,
                            args.ObjectAt<ShapeObject>(1, "a shape"));
  DLDataType dtype = array.dtype();
  int64_t offset = 0;
  if (args.size() > 2) {
    NODEWISE_ASSIGN_OR_RETURN(dtype, ArrayType(args, 2));
  }
  if (args.size() > 3) {
    NODEWISE_ASSIGN_OR_RETURN(offset, args.IntAt(3));
  }
  absl::StatusOr<NDArray> view = ViewOf(array, shape->dims, dtype, offset);
  if (!view.ok()) return ValueError(view.status());
  return Value(*std::move(view));
}

constexpr int kExist = 0;  // TVM's number for "is there such a device?".

// (device type, number, which attribute): the CPU's only attribute is that it
// exists; the others are null.
absl::StatusOr<Value> GetDeviceAttribute(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const int attribute, args.SmallIntAt(2));
  const absl::Status found = FindDevice(MakeDevice(type, number)).status();
  if (attribute == kExist) return Value(found.ok() ? 1 : 0);
  NODEWISE_RETURN_IF_ERROR(found);
  return Value();
}

// (device type, number, stream)
absl::StatusOr<Value> SetStream(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(1));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView stream_arg, args.At(2));
  NODEWISE_ASSIGN_OR_RETURN(void* const stream, stream_arg.AsHandle());
  NODEWISE_RETURN_IF_ERROR(
      CheckStream("TVMSetStream", MakeDevice(type, number), stream));
  return Value();
}

constexpr FunctionRow kArrayFunctions[] = {
    {"runtime.TVMArrayAllocWithScope", &AllocateWithScope},
    {"runtime.TVMArrayCreateView", &CreateView},
    {"runtime.GetDeviceAttr", &GetDeviceAttribute},
    {"runtime.TVMSetStream", &SetStream},
};

}  // namespace

absl::Span<const FunctionRow> ArrayFunctions() { return kArrayFunctions; }

}  // namespace nodewise
