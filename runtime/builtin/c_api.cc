#include "nodewise/func/c_api.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/object_abi.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

template <typename Part>
absl::StatusOr<const ObjectTypeRow*> FindType(Part ObjectTypeRow::*part,
                                              Part sought) {
  for (const ObjectTypeRow& row : ObjectTypes()) {
    if (row.*part == sought) return &row;
  }
  return NotFound("object type {} is not known here", sought);
}

// A handle may be any object of ours, or a module that compiled C++ has made.
absl::StatusOr<Ref<Module>> ModuleOf(TVMModuleHandle handle) {
  const Ref<Object> object = Object::Share(handle, kTVMModuleHandle);
  auto* const module = dynamic_cast<Module*>(object.get());
  if (module != nullptr) return Ref<Module>(module);
  return InvalidArgument("the handle is not a module");
}

// Null for a function that was not found, which TVM does not count as an error.
void* HandleOf(const PackedFunc& function) {
  return Object::ToHandle(function.object());
}

// The names that TVMFuncListGlobalNames last returned on this thread. The
// caller gets pointers to them and never frees them, so they stay until its
// next call.
struct NameList {
  std::vector<std::string> names;
  std::vector<const char*> pointers;
};

// TVM passes three ints for fields of a byte and of two: values that do not fit
// would come out as another type.
absl::StatusOr<DLDataType> TakeType(int code, int bits, int lanes) {
  if (code < 0 || code > 255 || bits < 0 || bits > 255 || lanes < 0 ||
      lanes > 65535) {
    return InvalidArgument(
        "TVMArrayAlloc: type (code {}, {} bits, {} lanes) is out of range",
        code, bits, lanes);
  }
  return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                    static_cast<uint16_t>(lanes)};
}

// The handle has a count, which TVMArrayFree gives back.
absl::Status GiveArray(absl::StatusOr<NDArray> array, TVMArrayHandle* out) {
  NODEWISE_RETURN_IF_ERROR(array.status());
  *out = array->LeakHandle();
  return absl::OkStatus();
}

// Memory to copy from or to may be null if there is nothing to copy.
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
    return InvalidArgument("copy: got {} bytes, expected {}", bytes, room);
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

// Kernels may count on the alignment of tensors, even if the caller asks for
// less.
absl::Status AllocateSpace(DLDevice device, size_t bytes, size_t alignment,
                           void** out) {
  NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
  alignment = std::max(alignment, kTensorAlignment);
  if ((alignment & (alignment - 1)) != 0) {
    return InvalidArgument("alignment is {}, expected a power of two",
                           alignment);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      *out, memory->Allocate(device.device_id, bytes, alignment));
  return absl::OkStatus();
}

// Serves functions of the C API that take a stream, which must be null: no
// device has others.
int RequireNoStream(const char* function, int device_type, int device_id,
                    TVMStreamHandle stream) {
  return CallFromC(function, {}, [&] {
    return CheckStream(function, MakeDevice(device_type, device_id), stream);
  });
}

}  // namespace

// A function with C linkage is one and the same in every namespace, so these
// are the functions that c_api.h declares, and they use names of nodewise
// without a prefix.
extern "C" {

int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out_index) {
  return CallFromC(
      __func__, {{"object", object}, {"out_index", out_index}}, [&] {
        *out_index = static_cast<ObjectHeader*>(object)->type_index;
        return absl::OkStatus();
      });
}

int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_index) {
  return CallFromC(
      __func__, {{"type_key", type_key}, {"out_index", out_index}}, [&] {
        NODEWISE_ASSIGN_OR_RETURN(
            const ObjectTypeRow* const row,
            FindType(&ObjectTypeRow::key, std::string_view(type_key)));
        *out_index = row->index;
        return absl::OkStatus();
      });
}

int TVMObjectTypeIndex2Key(unsigned index, char** out_type_key) {
  return CallFromC(__func__, {{"out_type_key", out_type_key}}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(const ObjectTypeRow* const row,
                              FindType(&ObjectTypeRow::index, uint32_t{index}));
    // The caller frees it, as with TVM's.
    *out_type_key = strdup(std::string(row->key).c_str());
    return absl::OkStatus();
  });
}

// Without a check of its own: null is allowed, and no exception can come from
// counting.
int TVMObjectRetain(TVMObjectHandle object) {
  if (object != nullptr) static_cast<ObjectHeader*>(object)->Retain();
  return 0;
}

int TVMObjectFree(TVMObjectHandle object) {
  if (object != nullptr) static_cast<ObjectHeader*>(object)->Release();
  return 0;
}

// All types of ours derive from the root, whose number is 0, and from nothing
// else.
int TVMObjectDerivedFrom(uint32_t child, uint32_t parent, int* is_derived) {
  return CallFromC(__func__, {{"is_derived", is_derived}}, [&] {
    *is_derived = child == parent || parent == 0;
    return absl::OkStatus();
  });
}

// Hosts link to TVMByteArrayFree and TVMExtTypeFree, but no function here hands
// out what these free.
int TVMByteArrayFree(TVMByteArray*) {
  return Report(Unimplemented(
      "TVMByteArrayFree: no function here gives out a byte array to free"));
}

int TVMExtTypeFree(void*, int type_code) {
  return Report(Unimplemented(
      "TVMExtTypeFree: extension type {} is not supported", type_code));
}

void TVMAPISetLastPythonError(void* error) { SetLastError(PythonError(error)); }

void* TVMGetLastPythonError(void) { return LastPythonException(); }

// An error that is not Python's stays for TVMGetLastError.
void TVMDropLastPythonError(void) {
  if (LastPythonException() != nullptr) DropLastError();
}

// Empty, not null, which a host could not print.
const char* TVMGetLastBacktrace(void) { return ""; }

void TVMThrowLastError(void) {}
int TVMModLoadFromFile(const char* file_name, const char* format,
                       TVMModuleHandle* out) {
  return CallFromC(__func__, {{"file_name", file_name}, {"out", out}}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(
        const Ref<Module> module,
        LoadModule(file_name, format != nullptr ? format : ""));
    *out = Object::ToHandle(module);
    return absl::OkStatus();
  });
}

int TVMModImport(TVMModuleHandle module, TVMModuleHandle dependency) {
  return CallFromC(
      __func__, {{"module", module}, {"dependency", dependency}}, [&] {
        NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> importer, ModuleOf(module));
        NODEWISE_ASSIGN_OR_RETURN(Ref<Module> imported, ModuleOf(dependency));
        return importer->Import(std::move(imported));
      });
}

int TVMModGetFunction(TVMModuleHandle module, const char* name,
                      int query_imports, TVMFunctionHandle* out) {
  return CallFromC(
      __func__, {{"module", module}, {"name", name}, {"out", out}}, [&] {
        NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> asked, ModuleOf(module));
        NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                                  query_imports != 0
                                      ? asked->FindFunction(name)
                                      : asked->GetFunction(name));
        *out = HandleOf(function);
        return absl::OkStatus();
      });
}

int TVMModFree(TVMModuleHandle module) { return TVMObjectFree(module); }

int TVMFuncFree(TVMFunctionHandle function) { return TVMObjectFree(function); }

// The handle is that of the Value which the callback's caller waits for.
int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code,
                      int num_ret) {
  return CallFromC(
      __func__, {{"ret", ret}, {"value", value}, {"type_code", type_code}},
      [&] {
        if (num_ret != 1) {
          return InvalidArgument("TVMCFuncSetReturn: got {} values, expected 1",
                                 num_ret);
        }
        NODEWISE_ASSIGN_OR_RETURN(*static_cast<Value*>(ret),
                                  Value::Copy(ArgView(*value, *type_code)));
        return absl::OkStatus();
      });
}

// Callbacks borrow their arguments; this makes one of them theirs.
int TVMCbArgToReturn(TVMValue* value, int* code) {
  return CallFromC(__func__, {{"value", value}, {"code", code}}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(Value copy, Value::Copy(ArgView(*value, *code)));
    std::move(copy).MoveToC(value, code);
    return absl::OkStatus();
  });
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc function, void* resource_handle,
                           TVMPackedCFuncFinalizer finalizer,
                           TVMFunctionHandle* out) {
  return CallFromC(
      __func__,
      {{"function", reinterpret_cast<const void*>(function)}, {"out", out}},
      [&] {
        *out = HandleOf(
            PackedFunc::FromCallback(function, resource_handle, finalizer));
        return absl::OkStatus();
      });
}

int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle function,
                          int override_existing) {
  return CallFromC(__func__, {{"name", name}, {"function", function}}, [&] {
    const Ref<Object> shared = Object::Share(function, kTVMPackedFuncHandle);
    auto* const object = dynamic_cast<FunctionObject*>(shared.get());
    if (object == nullptr) {
      return InvalidArgument("function {}: the handle is not a function", name);
    }
    return RegisterFunction(name, PackedFunc(Ref<FunctionObject>(object)),
                            override_existing != 0);
  });
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  return CallFromC(__func__, {{"name", name}, {"out", out}}, [&] {
    *out = HandleOf(FindFunction(name));
    return absl::OkStatus();
  });
}

// Each thread has a list of its own, so that two of them do not take it from
// each other.
int TVMFuncListGlobalNames(int* out_size, const char*** out_array) {
  return CallFromC(__func__, {{"out_size", out_size}, {"out_array", out_array}},
                   [&] {
                     thread_local NameList list;
                     list.names = FunctionNames();
                     list.pointers.clear();
                     for (const std::string& name : list.names) {
                       list.pointers.push_back(name.c_str());
                     }
                     *out_size = static_cast<int>(list.pointers.size());
                     *out_array = list.pointers.data();
                     return absl::OkStatus();
                   });
}

int TVMFuncRemoveGlobal(const char* name) {
  return CallFromC(__func__, {{"name", name}},
                   [&] { return RemoveFunction(name); });
}

// NOLINTNEXTLINE(readability-function-size): the parameters are TVM's.
int TVMArrayAlloc(const int64_t* shape, int ndim, int dtype_code,
                  int dtype_bits, int dtype_lanes, int device_type,
                  int device_id, TVMArrayHandle* out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(const auto sides,
                              TakeShape("TVMArrayAlloc", shape, ndim));
    NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype,
                              TakeType(dtype_code, dtype_bits, dtype_lanes));
    return GiveArray(
        NDArray::Empty(sides, dtype, MakeDevice(device_type, device_id)), out);
  });
}

// The adopted array ends here, and gives the handle's count back.
int TVMArrayFree(TVMArrayHandle handle) {
  NDArray::AdoptHandle(handle);
  return 0;
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return CallFromC(__func__, {{"handle", handle}}, [&] {
    NODEWISE_RETURN_IF_ERROR(
        CheckMemory("TVMArrayCopyFromBytes", *handle, data, nbytes));
    return CopyFromBytes(data, nbytes, *handle);
  });
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  return CallFromC(__func__, {{"handle", handle}}, [&] {
    NODEWISE_RETURN_IF_ERROR(
        CheckMemory("TVMArrayCopyToBytes", *handle, data, nbytes));
    return CopyToBytes(*handle, data, nbytes);
  });
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to,
                       TVMStreamHandle) {
  return CallFromC(__func__, {{"from", from}, {"to", to}},
                   [&] { return CopyBetween(from, to); });
}

int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out) {
  return CallFromC(__func__, {{"from", from}, {"out", out}},
                   [&] { return GiveArray(NDArray::FromDLPack(from), out); });
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out) {
  return CallFromC(__func__, {{"from", from}, {"out", out}}, [&] {
    *out = NDArray::ShareHandle(from).ToDLPack();
    return absl::OkStatus();
  });
}

// The tensor may be of any library; its deleter knows how it was made.
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

// The type is a hint that memory of no device depends on.
int TVMDeviceAllocDataSpace(DLDevice device, size_t nbytes, size_t alignment,
                            DLDataType, void** out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    return AllocateSpace(device, nbytes, alignment, out);
  });
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim,
                                     const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto sides,
        TakeShape("TVMDeviceAllocDataSpaceWithScope", shape, ndim));
    NODEWISE_RETURN_IF_ERROR(
        CheckMemoryScope(device, mem_scope != nullptr ? mem_scope : ""));
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(sides, dtype));
    return AllocateSpace(device, bytes, kTensorAlignment, out);
  });
}

int TVMDeviceFreeDataSpace(DLDevice device, void* data) {
  return CallFromC(__func__, {}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(Device * memory, FindDevice(device));
    memory->Free(device.device_id, data, 0);
    return absl::OkStatus();
  });
}

int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle) {
  return CallFromC(__func__, {{"from", from}, {"to", to}},
                   [&] { return CopyBetween(from, to); });
}

// Null is the stream that every device has, so hosts work that make a stream
// and pass it on.
int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  return CallFromC(__func__, {{"out", out}}, [&] {
    *out = nullptr;
    return CheckStream("TVMStreamCreate", MakeDevice(device_type, device_id),
                       nullptr);
  });
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return RequireNoStream(__func__, device_type, device_id, stream);
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  return RequireNoStream(__func__, device_type, device_id, stream);
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle) {
  return CallFromC(__func__, {}, [&] {
    NODEWISE_ASSIGN_OR_RETURN(Device * device,
                              FindDevice(MakeDevice(device_type, device_id)));
    return device->Synchronize(device_id);
  });
}

int TVMStreamStreamSynchronize(int device_type, int device_id,
                               TVMStreamHandle from, TVMStreamHandle) {
  return RequireNoStream(__func__, device_type, device_id, from);
}

}  // extern "C"
}  // namespace nodewise
