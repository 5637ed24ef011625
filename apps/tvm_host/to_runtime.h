#ifndef NODEWISE_TVM_HOST_TO_RUNTIME_H_
#define NODEWISE_TVM_HOST_TO_RUNTIME_H_

// Values that the program passes to the runtime; from_runtime.h has the other
// direction.

#include <memory>
#include <string>
#include <vector>

#include "from_runtime.h"
#include "version.h"

namespace tvm {
namespace runtime {
namespace tvm_host {

inline bool IsCounted(int code) {
  return code == kTVMObjectHandle || code == kTVMModuleHandle ||
         code == kTVMPackedFuncHandle || code == kTVMNDArrayHandle;
}

inline void CallProgram(const PackedFunc& function, const TVMValue* args,
                        const int* codes, int count, TVMRetValueHandle ret) {
  const auto size = static_cast<size_t>(count);
  std::vector<TVMValue> values(args, args + size);
  std::vector<int> types(codes, codes + size);
  std::vector<TVMRetValue> held(size);
  const TVMArgsSetter set(values.data(), types.data());
  for (size_t i = 0; i < size; ++i) {
    if (IsCounted(codes[i])) {
      CValue shared{args[i], codes[i]};
      Check(TVMCbArgToReturn(&shared.value, &shared.code));
      SetReturn(shared, &held[i]);
      set(i, held[i]);
    } else if (codes[i] == kBoolCode && TVM_HOST_VERSION < 18) {
      types[i] = kTVMArgInt;
    }
  }
  TVMRetValue result;
  function.CallPacked(TVMArgs(values.data(), types.data(), count), &result);
  if (result.type_code() == kTVMNullptr) return;
  Arguments returned;
  returned.AddResult(result);
  Check(TVMCFuncSetReturn(ret, returned.values(), returned.codes(), 1));
}

// A function of the program, as the runtime calls it.
inline int CallbackFromRuntime(TVMValue* args, int* codes, int count,
                               TVMRetValueHandle ret, void* function) {
  try {
    CallProgram(*static_cast<PackedFunc*>(function), args, codes, count, ret);
    return 0;
  } catch (const std::exception& error) {
    TVMAPISetLastError(error.what());
  } catch (...) {
    TVMAPISetLastError("a function of the program threw something unknown");
  }
  return -1;
}

inline TVMFunctionHandle MakeCallback(const PackedFunc& function) {
  const auto drop = [](void* held) { delete static_cast<PackedFunc*>(held); };
  auto held = std::make_unique<PackedFunc>(function);
  TVMFunctionHandle callback = nullptr;
  Check(TVMFuncCreateFromCFunc(&CallbackFromRuntime, held.get(), drop,
                               &callback));
  held.release();
  return callback;
}

// Shares an array that the program made, and keeps it alive.
inline DLManagedTensor* ShareByDlpack(const NDArray& array) {
  struct Shared {
    DLManagedTensor managed;
    NDArray array;
  };
  auto* shared = new Shared{{}, array};
  shared->managed.dl_tensor = *array.operator->();
  shared->managed.manager_ctx = shared;
  shared->managed.deleter = [](DLManagedTensor* managed) {
    delete static_cast<Shared*>(managed->manager_ctx);
  };
  return &shared->managed;
}

inline void Arguments::AddArray(const NDArray& array) {
  TVMArrayHandle handle = RuntimeArray::HandleOf(array);
  if (handle == nullptr) {
    DLManagedTensor* const managed = ShareByDlpack(array);
    if (TVMArrayFromDLPack(managed, &handle) != 0) {
      managed->deleter(managed);
      Check(-1);
    }
    arrays_.push_back(handle);
  }
  Add(PointerValue(handle, kTVMNDArrayHandle));
}

inline void Arguments::AddFunction(const PackedFunc& function) {
#if TVM_HOST_VERSION >= 9
  if (IsOfRuntime(function.get())) {
    return Add(PointerValue(function.get(), kTVMPackedFuncHandle));
  }
#endif
  objects_.emplace_back(MakeCallback(function));
  Add(PointerValue(objects_.back().get(), kTVMPackedFuncHandle));
}

inline void Arguments::AddModule(const Module& module) {
  if (IsOfRuntime(module.get())) {
    return Add(PointerValue(module.get(), kTVMModuleHandle));
  }
  const auto* ours = dynamic_cast<const RuntimeModule*>(module.operator->());
  if (ours == nullptr) {
    throw RuntimeError(std::string("a module that the program made, of kind ") +
                       module->type_key() +
                       ", cannot be handed to the runtime");
  }
  Add(PointerValue(ours->handle(), kTVMModuleHandle));
}

// REQUIRES: `bytes` outlives the call.
inline void Arguments::AddBytes(const std::string& bytes) {
  bytes_.push_back({bytes.data(), bytes.size()});
  Add(PointerValue(&bytes_.back(), kTVMBytes));
}

inline void Arguments::AddArgument(TVMValue value, int code) {
  const TVMArgValue argument(value, code);
  switch (code) {
    case kTVMNDArrayHandle:
      return AddArray(argument.operator NDArray());
    case kTVMModuleHandle:
      return AddModule(argument.operator Module());
    case kTVMPackedFuncHandle:
      return AddFunction(argument.operator PackedFunc());
    case kTVMObjectHandle:
      return AddObject(argument.AsObjectRef<ObjectRef>());
    case kTVMObjectRValueRefArg:
      return AddObject(
          GetRef<ObjectRef>(*static_cast<Object**>(value.v_handle)));
    default:
      return Add({value, code});
  }
}

// REQUIRES: `result` outlives the call.
inline void Arguments::AddResult(const TVMRetValue& result) {
  if (result.type_code() == kTVMBytes) {
    return AddBytes(*result.ptr<std::string>());
  }
  CValue value;
  TVMArgsSetter(&value.value, &value.code)(0, result);
  AddArgument(value.value, value.code);
}

inline void Arguments::AddObject(const ObjectRef& object) {
  if (!object.defined()) return Add(CValue());
  Arguments parts;
  if (IsOfRuntime(object.get()) && !object->IsInstance<ModuleNode>()) {
    return Add(PointerValue(object.get(), kTVMObjectHandle));
  }
  if (object->IsInstance<NDArray::Container>()) {
    return AddArray(Downcast<NDArray>(object));
  }
  if (object->IsInstance<ModuleNode>()) {
    return AddModule(Downcast<Module>(object));
  }
  if (const auto* ours = object.as<RuntimeObject>()) {
    return Add(PointerValue(ours->handle.get(), kTVMObjectHandle));
  }
  if (const auto* text = object.as<StringObj>()) {
    const std::string bytes(text->data, text->size);
    parts.AddBytes(bytes);
    return AddMade("runtime.String", &parts);
  }
  if (const auto* array = object.as<ArrayNode>()) {
    for (const ObjectRef& item : *array) parts.AddObject(item);
    return AddMade("runtime.Array", &parts);
  }
  if (const auto* map = object.as<MapNode>()) {
    for (const auto& item : *map) {
      parts.AddObject(item.first);
      parts.AddObject(item.second);
    }
    return AddMade("runtime.Map", &parts);
  }
  if (const auto* shape = object.as<ShapeTupleObj>()) {
    for (uint64_t i = 0; i < shape->size; ++i) {
      parts.Add(IntValue(shape->data[i]));
    }
    return AddMade("runtime.ShapeTuple", &parts);
  }
  if (const auto* adt = object.as<ADTObj>()) {
    parts.Add(IntValue(adt->tag));
    const ADT fields = GetRef<ADT>(adt);
    for (size_t i = 0; i < fields.size(); ++i) parts.AddObject(fields[i]);
    return AddMade("runtime.ADT", &parts);
  }
#if TVM_HOST_VERSION >= 9
  if (object->IsInstance<PackedFuncObj>()) {
    return AddFunction(Downcast<PackedFunc>(object));
  }
#endif
#if TVM_HOST_VERSION >= 18
  if (object.as<Int::ContainerType>() || object.as<Float::ContainerType>() ||
      object.as<Bool::ContainerType>()) {
    TVMRetValue unboxed;
    unboxed = object;
    return AddResult(unboxed);
  }
#endif
  throw RuntimeError("an object of type " + object->GetTypeKey() +
                     " cannot be handed to the runtime");
}

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm

#endif  // NODEWISE_TVM_HOST_TO_RUNTIME_H_
