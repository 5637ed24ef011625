#ifndef NODEWISE_TVM_HOST_FROM_RUNTIME_H_
#define NODEWISE_TVM_HOST_FROM_RUNTIME_H_

// Values that the runtime passes to the program: modules and functions are
// wrapped, the memory of arrays is shared, strings and containers are copied.
// An object without a counterpart among the program's types can be held and
// handed back.

#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/shape_tuple.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"

namespace tvm {
namespace runtime {
namespace tvm_host {

// An array that shares the memory of one of the runtime.
class RuntimeArray : public NDArray::Container {
 public:
  explicit RuntimeArray(TVMArrayHandle array) : array_(array) {
    dl_tensor = *array;
  }
  ~RuntimeArray() { TVMArrayFree(array_); }

  static NDArray Wrap(TVMArrayHandle array) {
    return NDArray(make_object<RuntimeArray>(array));
  }

  // Returns the runtime's handle, borrowed; null for an array that is not the
  // runtime's, or that the program has changed since.
  static TVMArrayHandle HandleOf(const NDArray& array) {
    constexpr auto kDeleter = &RuntimeArray::deleter_;
    static const auto ours =
        make_object<RuntimeArray>(NewScalar()).get()->*kDeleter;
    if (array.get()->*kDeleter != ours) return nullptr;
    const auto* held = static_cast<const RuntimeArray*>(array.get());
    const bool is_same =
        std::memcmp(&held->dl_tensor, held->array_, sizeof(DLTensor)) == 0;
    return is_same ? held->array_ : nullptr;
  }

 private:
  static TVMArrayHandle NewScalar() {
    TVMArrayHandle array = nullptr;
    Check(TVMArrayAlloc(nullptr, 0, kDLInt, 8, 1, kDLCPU, 0, &array));
    return array;
  }

  TVMArrayHandle array_;
};

// An object of the runtime without a counterpart among the types of the
// program: it can be held and handed back.
class RuntimeObject : public Object {
 public:
  explicit RuntimeObject(Handle object) : handle(std::move(object)) {}

  Handle handle;

  static constexpr const char* _type_key = "nodewise.RuntimeObject";
  TVM_DECLARE_FINAL_OBJECT_INFO(RuntimeObject, Object);
};

inline void SetReturn(CValue value, TVMRetValue* result);

inline PackedFunc WrapFunction(TVMFunctionHandle function) {
  const auto held = std::make_shared<Handle>(function);
  return PackedFunc([held](TVMArgs args, TVMRetValue* result) {
    SetReturn(Arguments(args).Call(held->get()), result);
  });
}

class RuntimeModule : public ModuleNode {
 public:
  explicit RuntimeModule(TVMModuleHandle module) : handle_(module) {
    kind_ = TextOf("runtime.ModuleGetTypeKey");
    const int64_t count = NumberOf("runtime.ModuleImportsSize");
    for (int64_t i = 0; i < count; ++i) {
      Arguments arguments;
      arguments.Add(PointerValue(module, kTVMModuleHandle));
      arguments.Add(IntValue(i));
      const CValue import = arguments.Call("runtime.ModuleGetImport");
      imports_.push_back(
          Module(make_object<RuntimeModule>(import.value.v_handle)));
    }
  }

  TVMModuleHandle handle() const { return handle_.get(); }
  const char* type_key() const final { return kind_.c_str(); }
  PackedFunc GetFunction(Name name, const ObjectPtr<Object>&) final {
    TVMFunctionHandle function = nullptr;
    Check(TVMModGetFunction(handle(), name.c_str(), 0, &function));
    return function != nullptr ? WrapFunction(function) : PackedFunc();
  }
  Text GetSource(Name) final { return TextOf("runtime.ModuleGetSource"); }
  // Virtual where TVM has them.
  Text GetFormat() { return TextOf("runtime.ModuleGetFormat"); }
  int GetPropertyMask() const {
    return static_cast<int>(NumberOf("runtime.ModuleGetPropertyMask"));
  }

 private:
  std::string TextOf(const char* name) const {
    return CallOn(handle(), kTVMModuleHandle, name).value.v_str;
  }
  int64_t NumberOf(const char* name) const {
    return CallOn(handle(), kTVMModuleHandle, name).value.v_int64;
  }

  Handle handle_;
  std::string kind_;
};

// Returns the items of a sequence of the runtime, by the functions that return
// their number and each item.
inline std::vector<TVMRetValue> ItemsOf(void* sequence, const char* size,
                                        const char* item) {
  const int64_t count = CallOn(sequence, kTVMObjectHandle, size).value.v_int64;
  std::vector<TVMRetValue> items(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Arguments arguments;
    arguments.Add(PointerValue(sequence, kTVMObjectHandle));
    arguments.Add(IntValue(i));
    SetReturn(arguments.Call(item), &items[static_cast<size_t>(i)]);
  }
  return items;
}

inline ObjectRef ObjectOf(const TVMRetValue& value) {
  if (value.type_code() == kTVMNullptr) return ObjectRef(nullptr);
  if (value.type_code() == kTVMStr) return String(value.operator std::string());
  return value.operator ObjectRef();
}

inline std::vector<ObjectRef> ObjectsOf(void* sequence, const char* size,
                                        const char* item) {
  std::vector<ObjectRef> objects;
  for (const TVMRetValue& value : ItemsOf(sequence, size, item)) {
    objects.push_back(ObjectOf(value));
  }
  return objects;
}

inline ObjectRef CopyMap(void* object) {
  const CValue items = CallOn(object, kTVMObjectHandle, "runtime.MapItems");
  const Handle held(items.value.v_handle);
  const std::vector<ObjectRef> all =
      ObjectsOf(held.get(), "runtime.ArraySize", "runtime.ArrayGetItem");
  Map<ObjectRef, ObjectRef> map;
  for (size_t i = 0; i + 1 < all.size(); i += 2) map.Set(all[i], all[i + 1]);
  return std::move(map);
}

inline ObjectRef CopyShape(void* object) {
  std::vector<int64_t> dims;
  for (const TVMRetValue& dim : ItemsOf(object, "runtime.GetShapeTupleSize",
                                        "runtime.GetShapeTupleElem")) {
    dims.push_back(dim.operator int64_t());
  }
  return ShapeTuple(dims);
}

inline ObjectRef CopyAdt(void* object) {
  const CValue tag = CallOn(object, kTVMObjectHandle, "runtime.GetADTTag");
  return ADT(static_cast<int32_t>(tag.value.v_int64),
             ObjectsOf(object, "runtime.GetADTSize", "runtime.GetADTFields"));
}

inline bool IsA(const char* type_key, unsigned type_index) {
  unsigned index = 0;
  Check(TVMObjectTypeKey2Index(type_key, &index));
  return index == type_index;
}

// Returns a copy of the runtime's object as one of the program.
inline ObjectRef CopyObject(Handle object) {
  unsigned type = 0;
  Check(TVMObjectGetTypeIndex(object.get(), &type));
  if (IsA("runtime.String", type)) {
    return String(CallOn(object.get(), kTVMObjectHandle, "runtime.GetFFIString")
                      .value.v_str);
  }
  if (IsA("Array", type)) {
    return Array<ObjectRef>(
        ObjectsOf(object.get(), "runtime.ArraySize", "runtime.ArrayGetItem"));
  }
  if (IsA("Map", type)) return CopyMap(object.get());
  if (IsA("runtime.ShapeTuple", type)) return CopyShape(object.get());
  if (IsA("runtime.ADT", type)) return CopyAdt(object.get());
  return ObjectRef(make_object<RuntimeObject>(std::move(object)));
}

// Takes over a value of the runtime.
inline void SetReturn(CValue value, TVMRetValue* result) {
  void* const handle = value.value.v_handle;
  switch (value.code) {
    case kTVMArgInt:
      *result = value.value.v_int64;
      break;
    case kBoolCode:
      *result = value.value.v_int64 != 0;
      break;
    case kTVMArgFloat:
      *result = value.value.v_float64;
      break;
    case kTVMDataType:
      *result = value.value.v_type;
      break;
    case kDLDevice:
      *result = value.value.v_device;
      break;
    case kTVMStr:
      *result = std::string(value.value.v_str);
      break;
    case kTVMBytes:
      *result = *static_cast<TVMByteArray*>(handle);
      break;
    case kTVMNDArrayHandle:
      *result = RuntimeArray::Wrap(static_cast<TVMArrayHandle>(handle));
      break;
    case kTVMModuleHandle:
      *result = Module(make_object<RuntimeModule>(handle));
      break;
    case kTVMPackedFuncHandle:
      *result = WrapFunction(handle);
      break;
    case kTVMObjectHandle:
      *result = CopyObject(Handle(handle));
      break;
    case kTVMNullptr:
      *result = nullptr;
      break;
    default:
      *result = handle;
  }
}

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm

#endif  // NODEWISE_TVM_HOST_FROM_RUNTIME_H_
