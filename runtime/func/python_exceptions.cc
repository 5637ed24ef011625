#include <dlfcn.h>

#include <atomic>

#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Python's signatures, with void* for its enum of lock states: both fit in a
// register, and hosts other than Python may give a pointer.
using CountReference = void (*)(void* object);
using TakeLock = void* (*)();
using ReleaseLock = void (*)(void* state);
using IsInitialized = int (*)();

// Set by one thread while others may call, hence atomic.
struct PythonFunction {
  std::string_view name;
  std::atomic<void*> address{nullptr};
};

absl::Span<PythonFunction> Functions() {
  static PythonFunction functions[] = {{"Py_IncRef"},
                                       {"Py_DecRef"},
                                       {"PyGILState_Ensure"},
                                       {"PyGILState_Release"},
                                       {"PyErr_CheckSignals"}};
  return absl::MakeSpan(functions);
}

void* Registered(std::string_view name) {
  for (const PythonFunction& function : Functions()) {
    if (function.name == name) return function.address;
  }
  return nullptr;
}

// Returns what the package registered, else what the process has: TVM 0.14
// registers no lock, though it does not hold one when it calls. A host that
// embeds Python has these functions in the process.
template <typename Function>
Function Find(const char* name) {
  void* const registered = Registered(name);
  return reinterpret_cast<Function>(
      registered != nullptr ? registered : dlsym(RTLD_DEFAULT, name));
}

// Calls Py_IncRef or Py_DecRef under the interpreter's lock. Does nothing once
// the interpreter has ended: its objects are gone. Where no lock is found
// either, the count is changed without one.
void Count(const char* name, void* object) {
  const auto count = reinterpret_cast<CountReference>(Registered(name));
  if (count == nullptr) return;
  const auto is_initialized = Find<IsInitialized>("Py_IsInitialized");
  if (is_initialized != nullptr && is_initialized() == 0) return;
  const auto take = Find<TakeLock>("PyGILState_Ensure");
  const auto release = Find<ReleaseLock>("PyGILState_Release");
  if (take == nullptr || release == nullptr) return count(object);
  void* const state = take();
  count(object);
  release(state);
}

// A counted reference to an exception. Copies of a status share it, so that the
// count is that of one reference.
struct HeldException {
  explicit HeldException(void* exception) : exception(exception) {
    Count("Py_IncRef", exception);
  }
  ~HeldException() {
    if (exception != nullptr) Count("Py_DecRef", exception);
  }

  void* exception;
};

constexpr char kRaised[] = "a Python callback raised an exception";
constexpr char kPayload[] = "nodewise/python_exception";

// The bytes of the payload are the HeldException itself, which lives until the
// last copy of the payload has gone. A cord may be in several pieces; one that
// was made of external memory is a single one.
HeldException* HeldExceptionOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return nullptr;
  const auto bytes = payload->TryFlat();
  if (!bytes.has_value()) return nullptr;
  return const_cast<HeldException*>(
      reinterpret_cast<const HeldException*>(bytes->data()));
}

}  // namespace

absl::Status SetPythonFunction(std::string_view name, void* address) {
  for (PythonFunction& function : Functions()) {
    if (function.name != name) continue;
    function.address = address;
    return absl::OkStatus();
  }
  return InvalidArgument(
      "environment function {} is not known here, expected one of Py_IncRef, "
      "Py_DecRef, PyGILState_Ensure, PyGILState_Release, PyErr_CheckSignals",
      name);
}

// Without both functions the reference would leak, or be gone before it is
// asked for.
absl::Status PythonError(void* exception) {
  if (exception == nullptr) return absl::InternalError(kRaised);
  if (Registered("Py_IncRef") == nullptr ||
      Registered("Py_DecRef") == nullptr) {
    return FailedPrecondition(
        "a Python callback raised an exception that cannot be kept: Py_IncRef "
        "and Py_DecRef were not registered (by TVMBackendRegisterEnvCAPI)");
  }
  absl::Status status = absl::InternalError(kRaised);
  auto* const held = new HeldException(exception);
  status.SetPayload(kPayload,
                    absl::MakeCordFromExternal(
                        {reinterpret_cast<const char*>(held), sizeof(*held)},
                        [held](absl::string_view) { delete held; }));
  return status;
}

void* PythonExceptionOf(const absl::Status& status) {
  const HeldException* const held = HeldExceptionOf(status);
  return held != nullptr ? held->exception : nullptr;
}

void AbandonPythonException(const absl::Status& status) {
  HeldException* const held = HeldExceptionOf(status);
  if (held != nullptr) held->exception = nullptr;
}

}  // namespace nodewise
