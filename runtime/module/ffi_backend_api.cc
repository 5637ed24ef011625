// The C functions that code by TVM-FFI calls, but for those that raise errors.

#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/ffi_function.h"
#include "nodewise/runtime/last_error.h"
#include "runtime/module/symbols.h"

namespace nodewise {

int FindForCode(void* context, const char* name, const char* symbol,
                void** out) {
  absl::Status status;
  if (CallContext* const ours = CallContext::FromAddress(context)) {
    const absl::StatusOr<void*> handle = ours->Find(name);
    if (handle.ok()) *out = *handle;
    status = handle.status();
  } else if (context == nullptr) {
    status = absl::FailedPreconditionError(absl::StrFormat(
        "compiled code calls %s, but its module context was never set", name));
  } else if (void* const theirs = FindInTvmFfi(symbol)) {
    return reinterpret_cast<int (*)(void*, const char*, void**)>(theirs)(
        context, name, out);
  } else {
    status = absl::FailedPreconditionError(absl::StrFormat(
        "compiled code calls %s, but its module context is not of this runtime",
        name));
  }
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

}  // namespace nodewise

int TVMFFIFunctionCall(void* function, TVMFFIAny* args, int32_t num_args,
                       TVMFFIAny* result) {
  if (function == nullptr) {
    nodewise::SetLastError(
        absl::InvalidArgumentError("TVMFFIFunctionCall: function is null"));
    return -1;
  }
  const auto* cell = reinterpret_cast<const TVMFFIFunctionCell*>(
      static_cast<const TVMFFIObject*>(function) + 1);
  return cell->safe_call(function, args, num_args, result);
}

int TVMFFIEnvModLookupFromImports(void* library_ctx, const char* name,
                                  void** out) {
  return nodewise::FindForCode(library_ctx, name,
                               "TVMFFIEnvModLookupFromImports", out);
}

int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result)) {
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE) != nullptr) return 0;
  // Recursive, and never destroyed: what `init` runs may come back here, and
  // code runs until the process ends.
  static auto* const mutex = new std::recursive_mutex;
  const std::lock_guard lock(*mutex);
  if (*handle != nullptr) return 0;
  void* result = nullptr;
  const int rc = init(&result);
  if (rc == 0) __atomic_store_n(handle, result, __ATOMIC_RELEASE);
  return rc;
}
