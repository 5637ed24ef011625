#include "nodewise/func/ffi_function.h"

#include <utility>

#include "nodewise/func/last_error.h"
#include "nodewise/support/status_macros.h"
#include "runtime/func/ffi_convert.h"

namespace nodewise {

PackedFunc FfiFunction::Make(TVMFFISafeCallType address, void* self,
                             Ref<RefCounted> owner) {
  return PackedFunc(MakeRef<FfiFunction>(address, self, std::move(owner)));
}

FfiFunction::FfiFunction(TVMFFISafeCallType address, void* self,
                         Ref<RefCounted> owner)
    : FunctionObject(&Invoke, this),
      safe_call_(address),
      self_(self),
      owner_(std::move(owner)) {}

absl::StatusOr<Value> FfiFunction::Call(PackedArgs args) const {
  FfiArguments converted;
  NODEWISE_RETURN_IF_ERROR(converted.Set(args));
  TVMFFIAny result{kTVMFFINone, 0, {0}};
  DropLastError();
  const int rc = safe_call_(self_, converted.data(), converted.size(), &result);
  if (rc != 0) return TakeFfiError();
  return ValueOfFfi(result);
}

int FfiFunction::Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                        int* ret_code, void* self) {
  auto result =
      static_cast<const FfiFunction*>(self)->Call({args, codes, count});
  if (!result.ok()) {
    SetLastError(std::move(result).status());
    return -1;
  }
  (*std::move(result)).MoveToC(ret, ret_code);
  return 0;
}

FfiClosure::FfiClosure(Ref<FunctionObject> function)
    : object_{{}, {&Invoke, nullptr}, this}, function_(std::move(function)) {
  // Never freed by its count: the code that holds it does not count.
  object_.head = {(uint64_t{1} << 32) + 1, kTVMFFIFunction, 0, nullptr};
}

absl::StatusOr<Value> FfiClosure::Call(const TVMFFIAny* args,
                                       int32_t count) const {
  PackedArguments converted;
  NODEWISE_RETURN_IF_ERROR(converted.Set(args, count));
  return PackedFunc(function_).CallPacked(converted.args());
}

int FfiClosure::Invoke(void* self, const TVMFFIAny* args, int32_t count,
                       TVMFFIAny* result) {
  const FfiClosure* closure = static_cast<FunctionHead*>(self)->owner;
  // Between two such functions, nothing needs converting.
  if (const auto* ffi =
          dynamic_cast<const FfiFunction*>(closure->function_.get())) {
    return ffi->safe_call()(ffi->self(), args, count, result);
  }
  const absl::StatusOr<Value> value = closure->Call(args, count);
  absl::Status status = value.status();
  if (value.ok()) status = ValueToFfi(*value, result);
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

}  // namespace nodewise
