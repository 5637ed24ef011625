// The C functions that TVM-FFI code calls, except those that raise errors.

#include <mutex>

#include "fmt/format.h"
#include "nodewise/func/c_call.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/symbols.h"

namespace nodewise {

namespace {

absl::Status FindHere(void* context, const char* name, void** out) {
  if (CallContext* const ours = CallContext::FromAddress(context)) {
    NODEWISE_ASSIGN_OR_RETURN(*out, ours->Find(name));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "compiled code calls {}, but its module context {}", name,
      context == nullptr ? "was never set" : "is not of this runtime"));
}

}  // namespace

int FindForCode(void* context, const char* name, const char* symbol,
                void** out) {
  const bool is_ours =
      context == nullptr || CallContext::FromAddress(context) != nullptr;
  if (void* const theirs = is_ours ? nullptr : FindInTvmFfi(symbol)) {
    return reinterpret_cast<int (*)(void*, const char*, void**)>(theirs)(
        context, name, out);
  }
  return CallFromC(symbol, {{"name", name}, {"out", out}},
                   [&] { return FindHere(context, name, out); });
}

}  // namespace nodewise

using nodewise::Report;

int TVMFFIFunctionCall(void* function, TVMFFIAny* args, int32_t num_args,
                       TVMFFIAny* result) {
  if (function == nullptr) {
    return Report(nodewise::NullArgument("TVMFFIFunctionCall", "function"));
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
  if (handle == nullptr) {
    return Report(nodewise::NullArgument("TVMFFIHandleInitOnce", "handle"));
  }
  if (init == nullptr) {
    return Report(nodewise::NullArgument("TVMFFIHandleInitOnce", "init"));
  }
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE) != nullptr) return 0;
  // Recursive, since `init` may come back here, and never destroyed, since code
  // runs until the process ends.
  static auto* const mutex = new std::recursive_mutex;
  const std::lock_guard lock(*mutex);
  if (*handle != nullptr) return 0;
  void* result = nullptr;
  const int rc = init(&result);
  if (rc == 0) __atomic_store_n(handle, result, __ATOMIC_RELEASE);
  return rc;
}
