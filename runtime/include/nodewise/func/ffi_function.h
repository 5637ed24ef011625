#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "nodewise/func/ffi_abi.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// What stands between TVM-FFI, which libraries of TVM 0.21 and later speak, and
// the functions of this runtime. Both ways, values are converted: numbers,
// null, pointers, types, devices, text, bytes and tensors. What else there is
// is kInvalidArgument. A tensor of kBool becomes one of kFfiBool.

// A function behind TVM-FFI's convention. Through the classic one it is called
// with converted arguments; PreparedCall calls it as it is.
class FfiFunction final : public FunctionObject {
 public:
  // `owner` keeps its library loaded.
  static PackedFunc Make(TVMFFISafeCallType address, void* self,
                         Ref<RefCounted> owner);

  TVMFFISafeCallType safe_call() const { return safe_call_; }
  void* self() const { return self_; }

  FfiFunction(TVMFFISafeCallType address, void* self, Ref<RefCounted> owner);

 private:
  static int Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                    int* ret_code, void* self);
  absl::StatusOr<Value> Call(PackedArgs args) const;

  TVMFFISafeCallType safe_call_;
  void* self_;
  Ref<RefCounted> owner_;
};

// Any function as code by TVM-FFI holds it: handle() is a function object to
// TVMFFIFunctionCall, ours or another's, for as long as this lives.
class FfiClosure final : public RefCounted {
 public:
  explicit FfiClosure(Ref<FunctionObject> function);
  void* handle() { return &object_; }

 private:
  struct FunctionHead {
    TVMFFIObject head;
    TVMFFIFunctionCell cell;
    FfiClosure* owner;
  };
  static int Invoke(void* self, const TVMFFIAny* args, int32_t count,
                    TVMFFIAny* result);
  absl::StatusOr<Value> Call(const TVMFFIAny* args, int32_t count) const;

  FunctionHead object_;
  Ref<FunctionObject> function_;
};

// Gives up what a function returned and nobody wants.
void DropFfiResult(TVMFFIAny* result);

// The error after a function of TVM-FFI returned nonzero, also if another copy
// of TVM's own runtime in this process took it instead of us; see
// TakeLastError().
absl::Status TakeFfiError();

// The address that a symbol has in TVM's own runtime, null if this process has
// not loaded that.
void* FindInTvmFfi(std::string_view symbol);

}  // namespace nodewise
