#pragma once

#include <initializer_list>

#include "absl/status/status.h"

namespace nodewise {

// How the functions that C code calls end: in 0, or in -1 and an error that
// TVMGetLastError tells. Any thread may call these.

// A pointer that a function was given, and its name in the declaration.
struct CArgument {
  const char* name;
  const void* pointer;
};

// 0 for OK, else -1, with the error kept for the host.
int Report(absl::Status status);

// kInvalidArgument that names the function and its argument that is null.
absl::Status NullArgument(const char* function, const char* argument);

// What an exception is, from within `catch`: "threw: no memory". The end of a
// thread (pthread_exit, cancellation, Python's daemon threads when it exits)
// passes through here as an exception that may not be stopped: the C library
// aborts then.
std::string TextOfException();
// The status of an exception that `function` ended with, from within `catch`.
absl::Status StatusOfException(const char* function);

// Runs the body of a C function, which returns a Status, if none of `needed` is
// null. No exception gets past it but the end of a thread.
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
