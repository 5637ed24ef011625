#pragma once

#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// The functions that C code calls return 0, or -1 with an error that
// TVMGetLastError tells. Any thread may call these helpers.

// A pointer that a function was given, and its name in the declaration.
struct CArgument {
  const char* name;
  const void* pointer;
};

// Returns 0 for OK; else keeps the error for the host and returns -1.
int Report(absl::Status status);

// Returns kInvalidArgument that names the function and its argument that is
// null.
absl::Status NullArgument(const char* function, const char* argument);

// Describes the exception being handled, "threw: no memory"; called from within
// `catch`. The end of a thread (pthread_exit, cancellation, Python's daemon
// threads when it exits) is an exception too, which must not be stopped, or the
// C library aborts: it is thrown on.
std::string TextOfException();
// Returns the status for the exception that `function` ended with; called from
// within `catch`.
absl::Status StatusOfException(const char* function);
// As StatusOfException(), for a function that the caller names:
// "the function threw: ...".
absl::Status StatusOfThrowingFunction();

// Runs the body of a C function, which returns a Status, if none of `needed` is
// null. Lets no exception out but the end of a thread.
template <typename Body>
int CallFromC(const char* function, std::initializer_list<CArgument> needed,
              const Body& body) {
  for (const CArgument& argument : needed) {
    if (argument.pointer != nullptr) continue;
    return Report(NullArgument(function, argument.name));
  }
  try {
    return Report(body());
  } catch (...) {
    return Report(StatusOfException(function));
  }
}

// Sets the last error of this thread, which C code leaves and fetches. A status
// of ours keeps its code on the way through C. For the host the message begins
// with the kind of error, by which TVM's Python package chooses the exception:
// "InternalError: " as for a failed check of TVM's, unless it names one itself.
void SetLastError(absl::Status status);
// Sets it to what code outside has said, which is passed on as it is.
void SetLastErrorText(const char* message);

// Returns the message for the host, "" if there was none. Valid until the next
// error on the thread.
const char* LastErrorMessage();

// Returns whether there is an error that has not been taken.
bool HasLastError();

// Returns the error that made a C function return nonzero, and forgets it, so
// that it is never taken for the reason of a later failure. If the function
// failed without setting an error, the status says so.
absl::Status TakeLastError();

// Returns the Python exception of an error that has not been taken, or null.
// Valid until that error is taken or dropped, or another comes.
void* LastPythonException();

// Forgets an error that has not been taken, so that it is not taken for the
// reason why the next call fails. The message stays for the host.
void DropLastError();

// The exceptions of Python callbacks. TVM's Python package hands an exception
// to the runtime instead of a message (TVM 0.14 and later), and asks for it
// back when the call that it made ends in an error, so that the user sees it as
// it was raised. In between it travels with the status of its error, through
// all functions that the error passes. We never link Python: the package names
// the functions to count references with. Any thread may call these.

// Stores a function of Python's under its name: "Py_IncRef", "Py_DecRef",
// "PyGILState_Ensure" (TVM 0.15 and later), "PyGILState_Release" or
// "PyErr_CheckSignals", which nothing here calls. Fails with kInvalidArgument
// for any other name.
absl::Status SetPythonFunction(std::string_view name, void* address);

// Returns the error that `exception` caused. It holds a reference, which is
// given back with the last status that carries the exception. Returns
// kFailedPrecondition, without the exception, if references cannot be counted.
absl::Status PythonError(void* exception);

// Returns the exception that a status carries, or null. Valid while the status
// is.
void* PythonExceptionOf(const absl::Status& status);

// Leaks the reference that a status holds: a thread that ends cannot know
// whether Python still runs.
void AbandonPythonException(const absl::Status& status);

}  // namespace nodewise
