#pragma once

#include <initializer_list>

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

}  // namespace nodewise
