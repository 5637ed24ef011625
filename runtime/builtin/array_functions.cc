#include <cstring>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {

// C may pass a null pointer with a rank of 0, and any rank at all.
absl::StatusOr<absl::Span<const int64_t>> TakeShape(const char* function,
                                                    const int64_t* shape,
                                                    int ndim) {
  if (ndim < 0 || ndim > kMostDims) {
    return InvalidArgument("{}: ndim is {}, expected 0 to {}", function, ndim,
                           kMostDims);
  }
  if (ndim > 0 && shape == nullptr) return NullArgument(function, "shape");
  return absl::MakeConstSpan(shape, static_cast<size_t>(ndim));
}

// Scopes such as textures are parts of devices that no build has yet; refused
// here, the caller hears of it before anything is allocated.
absl::Status CheckMemoryScope(DLDevice device, std::string_view scope) {
  if (scope.empty() || scope == "global") return absl::OkStatus();
  return Unimplemented("{}: memory scope {} is not supported", ToString(device),
                       scope);
}

absl::Status CheckStream(const char* function, DLDevice device,
                         TVMStreamHandle stream) {
  NODEWISE_RETURN_IF_ERROR(FindDevice(device).status());
  if (stream == nullptr) return absl::OkStatus();
  return Unimplemented("{}: {} has no streams of its own", function,
                       ToString(device));
}

namespace {

// Returns the type of an array from a program written for TVM, which has other
// codes for the 8-bit floats.
absl::StatusOr<DLDataType> ArrayType(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype, arg.AsDType());
  return ClassicType(dtype);
}

// Makes an array from the parameters of TVMArrayAllocWithScope after the shape.
Result AllocateArray(absl::Span<const int64_t> shape, PackedArgs args) {
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
Result AllocateWithScope(PackedArgs args) {
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

// Compiled code takes views for compact tensors, so a view of a strided array
// would show other elements than it says.
absl::StatusOr<NDArray> ViewOf(const NDArray& array,
                               absl::Span<const int64_t> shape,
                               DLDataType dtype, int64_t offset) {
  if (offset < 0) {
    return InvalidArgument("a view from byte {} on, expected 0 or more",
                           offset);
  }
  if (!IsCompact(*array)) {
    return InvalidArgument(
        "a view of {}: it has strides, expected a compact array (copy it)",
        TypeToString(array.shape(), array.dtype()));
  }
  return array.View(shape, dtype, static_cast<size_t>(offset));
}

// (array, shape), since TVM 0.17 (array, shape, dtype, offset in bytes).
Result CreateView(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray array, args.ArrayAt(0));
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
Result GetDeviceAttribute(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, args.DeviceAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const int attribute, args.SmallIntAt(2));
  const absl::Status found = FindDevice(device).status();
  if (attribute == kExist) return Value(found.ok() ? 1 : 0);
  NODEWISE_RETURN_IF_ERROR(found);
  return Value();
}

Result SetStream(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, args.DeviceAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView stream_arg, args.At(2));
  NODEWISE_ASSIGN_OR_RETURN(void* const stream, stream_arg.AsHandle());
  NODEWISE_RETURN_IF_ERROR(CheckStream("TVMSetStream", device, stream));
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
