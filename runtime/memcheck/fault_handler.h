#pragma once

#include <cstdint>

namespace nodewise {

enum class FaultAccess { kRead, kWrite, kUnknown };

// Told of every access to memory that may not be touched. It is called in a
// signal handler, on the thread that made the access, and on several threads at
// the same time: what it does must be safe there.
class FaultListener {
 public:
  virtual ~FaultListener() = default;
  // Returns true if the access may be tried again; false if it is no concern of
  // this listener, and goes to whoever handled faults before.
  virtual bool OnFault(uint8_t* address, FaultAccess access) = 0;
};

// Catches SIGSEGV and SIGBUS in all threads for as long as it lives, and then
// restores the handlers that were there.
// REQUIRES: there is no other, and no thread touches such memory as it ends.
class FaultCatcher {
 public:
  explicit FaultCatcher(FaultListener* listener);
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;
};

}  // namespace nodewise
