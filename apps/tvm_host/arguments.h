#ifndef NODEWISE_TVM_HOST_ARGUMENTS_H_
#define NODEWISE_TVM_HOST_ARGUMENTS_H_

// Calls into the runtime from a C++ program: values in the form of TVM's C API,
// and the arguments of a call. tvm_host.cc says why the objects of the program
// and those of the runtime are separate.

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime_error.h"

namespace tvm {
namespace runtime {
namespace tvm_host {

// How this TVM passes names: std::string until 0.12, String after that.
template <typename Result, typename Argument>
Argument ArgumentOf(Result (*)(Argument));
using Name = decltype(ArgumentOf(&Registry::Get));
using Text = std::decay_t<Name>;

// The code of bool, which TVM has since 0.18 and the runtime always.
constexpr int kBoolCode = 15;

inline void Check(int result) {
  if (result == 0) return;
  const char* message = TVMGetLastError();
  throw RuntimeError(message != nullptr ? message
                                        : "a call failed without a word");
}

// One reference to an object of the runtime.
class Handle {
 public:
  explicit Handle(void* object) : object_(object) {}
  Handle(Handle&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) TVMObjectFree(object_);
  }

  void* get() const { return object_; }

 private:
  void* object_;
};

// Returns whether the runtime made the object: functions of a plug-in are
// called with such ones. They all have one deleter, at its place in Object.
inline bool IsOfRuntime(const void* object) {
  const auto deleter_of = [](const void* handle) {
    void* deleter = nullptr;
    std::memcpy(&deleter, static_cast<const char*>(handle) + 8,
                sizeof(deleter));
    return deleter;
  };
  static void* const deleter = [&] {
    TVMFunctionHandle function = nullptr;
    Check(TVMFuncGetGlobal("runtime.NumThreads", &function));
    const Handle held(function);
    return deleter_of(function);
  }();
  return object != nullptr && deleter_of(object) == deleter;
}

// A value in the C API's form.
struct CValue {
  TVMValue value{};
  int code = kTVMNullptr;
};

inline CValue PointerValue(const void* pointer, int code) {
  CValue result;
  result.value.v_handle = const_cast<void*>(pointer);
  result.code = code;
  return result;
}

inline CValue IntValue(int64_t number) {
  CValue result;
  result.value.v_int64 = number;
  result.code = kTVMArgInt;
  return result;
}

// The arguments of a call into the runtime, which own what was made for them.
class Arguments {
 public:
  Arguments() = default;
  explicit Arguments(TVMArgs args) {
    for (int i = 0; i < args.num_args; ++i) {
      AddArgument(args.values[i], args.type_codes[i]);
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() {
    for (TVMArrayHandle array : arrays_) TVMArrayFree(array);
  }

  // Adds a value that the runtime takes as it is.
  void Add(CValue value) {
    values_.push_back(value.value);
    codes_.push_back(value.code);
  }
  void AddObject(const ObjectRef& object);
  void AddArgument(TVMValue value, int code);
  void AddResult(const TVMRetValue& result);

  // Calls a function; the caller owns the result.
  CValue Call(TVMFunctionHandle function) {
    CValue result;
    Check(TVMFuncCall(function, values_.data(), codes_.data(),
                      static_cast<int>(codes_.size()), &result.value,
                      &result.code));
    return result;
  }
  // Calls a named function that the runtime always has.
  CValue Call(const char* name) {
    TVMFunctionHandle function = nullptr;
    Check(TVMFuncGetGlobal(name, &function));
    if (function == nullptr) {
      throw RuntimeError(std::string("the runtime has no function ") + name);
    }
    const Handle held(function);
    return Call(function);
  }

  TVMValue* values() { return values_.data(); }
  int* codes() { return codes_.data(); }

 private:
  void AddArray(const NDArray& array);
  void AddFunction(const PackedFunc& function);
  void AddModule(const Module& module);
  void AddBytes(const std::string& bytes);
  // Adds the object that a named function makes of `parts`.
  void AddMade(const char* maker, Arguments* parts) {
    const CValue made = parts->Call(maker);
    objects_.emplace_back(made.value.v_handle);
    Add(made);
  }

  std::vector<TVMValue> values_;
  std::vector<int> codes_;
  std::vector<Handle> objects_;
  std::vector<TVMArrayHandle> arrays_;
  std::deque<TVMByteArray> bytes_;  // Their addresses stay.
};

// Calls a named function whose only argument is an object of the runtime.
inline CValue CallOn(const void* object, int code, const char* name) {
  Arguments arguments;
  arguments.Add(PointerValue(object, code));
  return arguments.Call(name);
}

}  // namespace tvm_host
}  // namespace runtime
}  // namespace tvm

#endif  // NODEWISE_TVM_HOST_ARGUMENTS_H_
