#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "nodewise/func/ffi_abi.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// The bridge between TVM-FFI, which libraries of TVM 0.21 and later use, and
// the functions of this runtime. Values are converted both ways: numbers, null,
// pointers, types, devices, text, bytes and tensors. Any other value is
// kInvalidArgument. A tensor of kBool becomes one of kFfiBool.

// A function with TVM-FFI's calling convention. Calls through the classic
// convention convert the arguments; PreparedCall calls it directly.
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

// Any function as TVM-FFI code holds it: handle() is a function object for
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

// Releases the result of a function if it is not wanted.
void DropFfiResult(TVMFFIAny* result);

// Returns the error after a function of TVM-FFI returned nonzero, also if TVM's
// own runtime in this process received it instead of us; see TakeLastError().
absl::Status TakeFfiError();

// Returns the address of a symbol in TVM's own runtime, or null if this process
// has not loaded that runtime.
void* FindInTvmFfi(std::string_view symbol);

}  // namespace nodewise
