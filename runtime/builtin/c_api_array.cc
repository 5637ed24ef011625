// TVM's C API: arrays, device memory and streams.

#include <vector>

#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/array_arguments.h"

namespace nodewise {
namespace {

absl::StatusOr<DLDataType> TakeType(int code, int bits, int lanes) {
  if (code < 0 || code > 255 || bits < 0 || bits > 255 || lanes < 0 ||
      lanes > 65535) {
    return absl::InvalidArgumentError(fmt::format(
        "TVMArrayAlloc: type (code {}, {} bits, {} lanes) is out of range",
        code, bits, lanes));
  }
  return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                    static_cast<uint16_t>(lanes)};
}

absl::Status GiveArray(absl::StatusOr<NDArray> array, TVMArrayHandle* out) {
  NODEWISE_RETURN_IF_ERROR(array.status());
  *out = array->LeakHandle();
  return absl::OkStatus();
}

// Checks memory to copy from or to, which may be null if there is nothing to
// copy.
absl::Status CheckMemory(const char* function, const DLTensor& array,
                         const void* data, size_t nbytes) {
  if (data == nullptr && nbytes > 0) return NullArgument(function, "data");
  return At(function, CheckDLTensor(array));
}

// Here TVM compares only the sizes; the data is copied as it is.
absl::Status CopyBetween(const DLTensor* from, const DLTensor* to) {
  NODEWISE_RETURN_IF_ERROR(At("copy: from", CheckDLTensor(*from)));
  NODEWISE_RETURN_IF_ERROR(At("copy: to", CheckDLTensor(*to)));
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(*from));
  NODEWISE_ASSIGN_OR_RETURN(const size_t room, TensorBytes(*to));
  if (bytes != room) {
    return absl::InvalidArgumentError(
        fmt::format("copy: got {} bytes, expected {}", bytes, room));
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
        fmt::format("alignment is {}, expected a power of two", alignment));
  }
  return memory->Allocate(device.device_id, bytes, alignment);
}

absl::Status GiveSpace(const absl::StatusOr<void*>& data, void** out) {
  NODEWISE_RETURN_IF_ERROR(data.status());
  *out = *data;
  return absl::OkStatus();
}

absl::StatusOr<void*> AllocateScoped(DLDevice device,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype, const char* scope) {
  NODEWISE_RETURN_IF_ERROR(
      CheckMemoryScope(device, scope != nullptr ? scope : ""));
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

}  // namespace
}  // namespace nodewise

using nodewise::CallFromC;
using nodewise::MakeDevice;

// NOLINTNEXTLINE(readability-function-size): the parameters are TVM's.
int TVMArrayAlloc(const int64_t* shape, int ndim, int dtype_code,
                  int dtype_bits, int dtype_lanes, int device_type,
                  int device_id, TVMArrayHandle* out) {
  return CallFromC(__func__, {{"out", out}}, [&]() -> absl::Status {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto sides, nodewise::TakeShape("TVMArrayAlloc", shape, ndim));
    NODEWISE_ASSIGN_OR_RETURN(
        const DLDataType dtype,
        nodewise::TakeType(dtype_code, dtype_bits, dtype_lanes));
    return nodewise::GiveArray(
        nodewise::NDArray::Empty(sides, dtype,
                                 MakeDevice(device_type, device_id)),
        out);
  });
}

int TVMArrayFree(TVMArrayHandle handle) {
  nodewise::NDArray::AdoptHandle(handle);
  return 0;
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return CallFromC(__func__, {{"handle", handle}}, [&]() -> absl::Status {
    NODEWISE_RETURN_IF_ERROR(
        nodewise::CheckMemory("TVMArrayCopyFromBytes", *handle, data, nbytes));
    return nodewise::CopyFromBytes(data, nbytes, *handle);
  });
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return CallFromC(__func__, {{"handle", handle}}, [&]() -> absl::Status {
    NODEWISE_RETURN_IF_ERROR(
        nodewise::CheckMemory("TVMArrayCopyToBytes", *handle, data, nbytes));
    return nodewise::CopyToBytes(*handle, data, nbytes);
  });
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to,
                       TVMStreamHandle) {
  return CallFromC(__func__, {{"from", from}, {"to", to}},
                   [&] { return nodewise::CopyBetween(from, to); });
}

int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out) {
  return CallFromC(__func__, {{"from", from}, {"out", out}}, [&] {
    return nodewise::GiveArray(nodewise::NDArray::FromDLPack(from), out);
  });
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out) {
  return CallFromC(__func__, {{"from", from}, {"out", out}}, [&] {
    *out = nodewise::NDArray::ShareHandle(from).ToDLPack();
    return absl::OkStatus();
  });
}

void TVMDLManagedTensorCallDeleter(DLManagedTensor* managed) {
  if (managed == nullptr || managed->deleter == nullptr) return;
  managed->deleter(managed);
}

int TVMArrayGetTypeIndex(TVMArrayHandle handle, unsigned* out_index) {
  return CallFromC(__func__, {{"handle", handle}, {"out_index", out_index}},
                   [&] {
                     TVMObjectTypeKey2Index("runtime.NDArray", out_index);
                     return absl::OkStatus();
                   });
}

int TVMDeviceAllocDataSpace(DLDevice device, size_t nbytes, size_t alignment,
                            DLDataType, void** out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    return nodewise::GiveSpace(
        nodewise::AllocateSpace(device, nbytes, alignment), out);
  });
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim,
                                     const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out) {
  return CallFromC(__func__, {{"out", out}}, [&]() -> absl::Status {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto sides,
        nodewise::TakeShape("TVMDeviceAllocDataSpaceWithScope", shape, ndim));
    return nodewise::GiveSpace(
        nodewise::AllocateScoped(device, sides, dtype, mem_scope), out);
  });
}

int TVMDeviceFreeDataSpace(DLDevice device, void* data) {
  return CallFromC(__func__, {},
                   [&] { return nodewise::FreeSpace(device, data); });
}

int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle) {
  return CallFromC(__func__, {{"from", from}, {"to", to}},
                   [&] { return nodewise::CopyBetween(from, to); });
}

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    *out = nullptr;
    return nodewise::CheckStream("TVMStreamCreate",
                                 MakeDevice(device_type, device_id), nullptr);
  });
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return CallFromC(__func__, {}, [&] {
    return nodewise::CheckStream("TVMStreamFree",
                                 MakeDevice(device_type, device_id), stream);
  });
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  return CallFromC(__func__, {}, [&] {
    return nodewise::CheckStream("TVMSetStream",
                                 MakeDevice(device_type, device_id), handle);
  });
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle) {
  return CallFromC(__func__, {}, [&] {
    return nodewise::Synchronize(MakeDevice(device_type, device_id));
  });
}

int TVMStreamStreamSynchronize(int device_type, int device_id,
                               TVMStreamHandle from, TVMStreamHandle) {
  return CallFromC(__func__, {}, [&] {
    return nodewise::CheckStream("TVMStreamStreamSynchronize",
                                 MakeDevice(device_type, device_id), from);
  });
}
