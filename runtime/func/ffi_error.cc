// The errors that TVM-FFI code raises.

#include <dlfcn.h>

#include <string>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/func/last_error.h"

namespace nodewise {
namespace {

// Only TVM's own runtime has this one; we must not.
constexpr char kMoveFromRaised[] = "TVMFFIErrorMoveFromRaised";
constexpr char kSetRaised[] = "TVMFFIErrorSetRaisedFromCStr";

absl::Status ErrorOf(std::string_view kind, std::string_view message) {
  if (kind.empty()) return absl::InternalError(std::string(message));
  return absl::InternalError(fmt::format("{}: {}", kind, message));
}

// Takes an error from TVM's own runtime, which forgets it; OK if there is none.
absl::Status TakeFromTvmFfi() {
  void* const address = dlsym(RTLD_DEFAULT, kMoveFromRaised);
  if (address == nullptr) return absl::OkStatus();
  void* error = nullptr;
  reinterpret_cast<void (*)(void**)>(address)(&error);
  if (error == nullptr) return absl::OkStatus();
  auto* const object = static_cast<TVMFFIObject*>(error);
  const auto* cell = reinterpret_cast<const TVMFFIErrorCell*>(object + 1);
  absl::Status status = ErrorOf({cell->kind.data, cell->kind.size},
                                {cell->message.data, cell->message.size});
  TVMFFIAny held{kTVMFFIError, 0, {0}};
  held.v_ptr = object;
  DropFfiResult(&held);
  return status;
}

// If TVM's own runtime was loaded after us, the libraries that it loads raise
// their errors here, but it looks for them in itself.
void PassOnToTvmFfi(const char* kind, const char* message) {
  thread_local bool is_inside = false;
  if (is_inside) return;
  void* const address = FindInTvmFfi(kSetRaised);
  if (address == nullptr ||
      address == reinterpret_cast<void*>(&TVMFFIErrorSetRaisedFromCStr)) {
    return;
  }
  is_inside = true;
  reinterpret_cast<decltype(&TVMFFIErrorSetRaisedFromCStr)>(address)(kind,
                                                                     message);
  is_inside = false;
}

void Raise(const char* kind, const char* message) {
  SetLastError(ErrorOf(kind != nullptr ? kind : "", message));
  PassOnToTvmFfi(kind != nullptr ? kind : "", message);
}

}  // namespace

void* FindInTvmFfi(std::string_view symbol) {
  void* const address = dlsym(RTLD_DEFAULT, kMoveFromRaised);
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return nullptr;
  // The handle is needed: by name alone we would find our own symbols.
  void* const handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, std::string(symbol).c_str());
  dlclose(handle);
  return found;
}

absl::Status TakeFfiError() {
  // Always taken, or it would be reported for a later failure.
  absl::Status theirs = TakeFromTvmFfi();
  if (HasLastError() || theirs.ok()) return TakeLastError();
  return theirs;
}

}  // namespace nodewise

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  nodewise::Raise(kind, message != nullptr ? message : "");
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                       int32_t num_parts) {
  std::string message;
  if (parts == nullptr) num_parts = 0;
  for (int32_t i = 0; i < num_parts; ++i) {
    if (parts[i] != nullptr) message += parts[i];
  }
  nodewise::Raise(kind, message.c_str());
}
