#pragma once

// NODEWISE_CHECK states what must be true of our own code. It is on in every
// build and aborts with the place. No input from outside the process may make
// it fail: such errors are an absl::Status.
#define NODEWISE_CHECK(condition) \
  (static_cast<bool>(condition)   \
       ? static_cast<void>(0)     \
       : ::nodewise::CheckFailed(__FILE__, __LINE__, #condition))

namespace nodewise {

// Prints `file:line: check failed: condition` to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line,
                              const char* condition);

// A place in source code. A function whose last parameter is
// `CodePlace caller = CodePlace::Here()` gets the place where it is called.
struct CodePlace {
  const char* file = "";
  int line = 0;

  static constexpr CodePlace Here(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace nodewise
