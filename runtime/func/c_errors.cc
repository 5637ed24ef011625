#include "nodewise/func/c_errors.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
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
HeldException* HeldBy(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return nullptr;
  const auto bytes = payload->TryFlat();
  if (!bytes.has_value()) return nullptr;
  return const_cast<HeldException*>(
      reinterpret_cast<const HeldException*>(bytes->data()));
}

// TVM's C API has one such place for each thread, too.
struct ErrorSlot {
  ~ErrorSlot() { AbandonPythonException(status); }

  absl::Status status;  // OK once it is taken.
  std::string message;  // Null-terminated for C.
};

ErrorSlot& Slot() {
  thread_local ErrorSlot slot;
  return slot;
}

// A status may hold a Python exception, and releasing it runs code of the host
// that may call anything here: the slot gets its new content first.
absl::Status Exchange(absl::Status status) {
  return std::exchange(Slot().status, std::move(status));
}

// That memory ran out says nothing of the function: another time there is some.
absl::Status StatusOfThrown(std::string_view place,
                            const std::string& thrower) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return StatusOfHandled(place);
  } catch (...) {
    return absl::InternalError(thrower + TextOfException());
  }
}

// Returns whether a message begins as TVM's do, "ValueError: ".
bool NamesItsKind(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(": "));
  return name.size() < message.size() && name.ends_with("Error") &&
         std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_' || c == '.';
         });
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
  const HeldException* const held = HeldBy(status);
  return held != nullptr ? held->exception : nullptr;
}

void AbandonPythonException(const absl::Status& status) {
  HeldException* const held = HeldBy(status);
  if (held != nullptr) held->exception = nullptr;
}

void SetLastError(absl::Status status) {
  // A string of its own, because the status is moved away.
  const std::string message(status.message());
  Slot().message =
      NamesItsKind(message) ? message : "InternalError: " + message;
  Exchange(std::move(status)).IgnoreError();
}

void SetLastErrorText(const char* message) {
  Slot().message = message;
  Exchange(absl::InternalError(message)).IgnoreError();
}

const char* LastErrorMessage() { return Slot().message.c_str(); }

void* LastPythonException() { return PythonExceptionOf(Slot().status); }

bool HasLastError() { return !Slot().status.ok(); }

absl::Status TakeLastError() {
  absl::Status status = Exchange(absl::OkStatus());
  if (!status.ok()) return status;
  return Internal("the function failed without saying why");
}

void DropLastError() {
  if (HasLastError()) Exchange(absl::OkStatus()).IgnoreError();
}

// The convention of all functions in C: 0, or -1 with the error kept.
int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

absl::Status NullArgument(const char* function, const char* argument) {
  return InvalidArgument("{}: {} is null", function, argument);
}

// A forced unwind is not an error of the function, and stopping it would end
// the process.
std::string TextOfException() {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::exception& error) {
    return fmt::format("threw: {}", error.what());
  } catch (...) {
    return "threw something unknown";
  }
}

absl::Status StatusOfException(const char* function) {
  return StatusOfThrown(function, fmt::format("{}: ", function));
}

absl::Status StatusOfThrowingFunction() {
  return StatusOfThrown("", "the function ");
}

}  // namespace nodewise
