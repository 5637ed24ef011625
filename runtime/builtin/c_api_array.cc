// TVM's C API: arrays, device memory and streams.

#include <vector>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/c_api.h"
#include "nodewise/runtime/ndarray.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/c_report.h"

namespace nodewise {
namespace {

absl::StatusOr<NDArray> Allocate(absl::Span<const int64_t> shape, int code,
                                 int bits, int lanes, DLDevice device) {
  if (code < 0 || code > 255 || bits < 0 || bits > 255 || lanes < 0 ||
      lanes > 65535) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "TVMArrayAlloc: type (code %d, %d bits, %d lanes) is out of range",
        code, bits, lanes));
  }
  const DLDataType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                         static_cast<uint16_t>(lanes)};
  return NDArray::Empty(shape, dtype, device);
}

int GiveArray(absl::StatusOr<NDArray> array, TVMArrayHandle* out) {
  if (!array.ok()) return Report(array.status());
  *out = array->LeakHandle();
  return 0;
}

// TVM compares the sizes only here; the data is copied as it lies.
absl::Status CopyBetween(const DLTensor* from, const DLTensor* to) {
  if (from == nullptr || to == nullptr) {
    return absl::InvalidArgumentError("copy: a tensor is null");
  }
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                            TensorBytes(ShapeOf(*from), from->dtype));
  NODEWISE_ASSIGN_OR_RETURN(const size_t room,
                            TensorBytes(ShapeOf(*to), to->dtype));
  if (bytes != room) {
    return absl::InvalidArgumentError(
        absl::StrFormat("copy: got %d bytes, expected %d", bytes, room));
  }
  DLTensor view = *from;
  if (IsCompact(*from)) {
    view.ndim = to->ndim;
    view.shape = to->shape;
    view.dtype = to->dtype;
    view.strides = nullptr;
  }
  return CopyTensor(view, *to);
}

absl::StatusOr<void*> AllocateSpace(DLDevice device, size_t bytes,
                                    size_t alignment) {
  NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
  if (alignment < kTensorAlignment) alignment = kTensorAlignment;
  if ((alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("alignment is %d, expected a power of two", alignment));
  }
  return memory->Allocate(device.device_id, bytes, alignment);
}

int GiveSpace(absl::StatusOr<void*> data, void** out) {
  if (!data.ok()) return Report(data.status());
  *out = *data;
  return 0;
}

absl::StatusOr<void*> AllocateScoped(DLDevice device,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype, const char* scope) {
  const std::string_view name = scope != nullptr ? scope : "";
  if (!name.empty() && name != "global") {
    return absl::UnimplementedError(absl::StrFormat(
        "%s: memory scope %s is not supported", ToString(device), name));
  }
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(shape, dtype));
  return AllocateSpace(device, bytes, kTensorAlignment);
}

absl::Status FreeSpace(DLDevice device, void* data) {
  NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
  memory->Free(device.device_id, data, 0);
  return absl::OkStatus();
}

absl::Status Synchronize(DLDevice device) {
  NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
  return memory->Synchronize(device.device_id);
}

// The CPU has one stream, which is null.
absl::Status CheckStream(const char* function, DLDevice device,
                         TVMStreamHandle stream) {
  NODEWISE_RETURN_IF_ERROR(FindDevice(device).status());
  if (stream == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrFormat(
      "%s: %s has no streams of its own", function, ToString(device)));
}

}  // namespace
}  // namespace nodewise

using nodewise::MakeDevice;
using nodewise::Report;

// NOLINTNEXTLINE(readability-function-size): the parameters are TVM's.
int TVMArrayAlloc(const int64_t* shape, int ndim, int dtype_code,
                  int dtype_bits, int dtype_lanes, int device_type,
                  int device_id, TVMArrayHandle* out) {
  if (ndim < 0) {
    return Report(absl::InvalidArgumentError(
        absl::StrFormat("TVMArrayAlloc: rank is %d", ndim)));
  }
  return nodewise::GiveArray(
      nodewise::Allocate({shape, static_cast<size_t>(ndim)}, dtype_code,
                         dtype_bits, dtype_lanes,
                         MakeDevice(device_type, device_id)),
      out);
}

int TVMArrayFree(TVMArrayHandle handle) {
  nodewise::NDArray::AdoptHandle(handle);
  return 0;
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return Report(nodewise::CopyFromBytes(data, nbytes, *handle));
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return Report(nodewise::CopyToBytes(*handle, data, nbytes));
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to,
                       TVMStreamHandle) {
  return Report(nodewise::CopyBetween(from, to));
}

int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out) {
  return nodewise::GiveArray(nodewise::NDArray::FromDLPack(from), out);
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out) {
  *out = nodewise::NDArray::ShareHandle(from).ToDLPack();
  return 0;
}

void TVMDLManagedTensorCallDeleter(DLManagedTensor* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

int TVMArrayGetTypeIndex(TVMArrayHandle, unsigned* out_index) {
  return TVMObjectTypeKey2Index("runtime.NDArray", out_index);
}

int TVMDeviceAllocDataSpace(DLDevice device, size_t nbytes, size_t alignment,
                            DLDataType, void** out) {
  return nodewise::GiveSpace(nodewise::AllocateSpace(device, nbytes, alignment),
                             out);
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim,
                                     const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out) {
  return nodewise::GiveSpace(
      nodewise::AllocateScoped(device, {shape, static_cast<size_t>(ndim)},
                               dtype, mem_scope),
      out);
}

int TVMDeviceFreeDataSpace(DLDevice device, void* data) {
  return Report(nodewise::FreeSpace(device, data));
}

int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle) {
  return Report(nodewise::CopyBetween(from, to));
}

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  *out = nullptr;
  return Report(nodewise::CheckStream(
      "TVMStreamCreate", MakeDevice(device_type, device_id), nullptr));
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return Report(nodewise::CheckStream(
      "TVMStreamFree", MakeDevice(device_type, device_id), stream));
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  return Report(nodewise::CheckStream(
      "TVMSetStream", MakeDevice(device_type, device_id), handle));
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle) {
  return Report(nodewise::Synchronize(MakeDevice(device_type, device_id)));
}

int TVMStreamStreamSynchronize(int device_type, int device_id,
                               TVMStreamHandle from, TVMStreamHandle) {
  return Report(nodewise::CheckStream(
      "TVMStreamStreamSynchronize", MakeDevice(device_type, device_id), from));
}
