#pragma once

#include <cstdint>

namespace nodewise {

enum class TrappedAccess { kRead, kWrite, kUnknown };

// Told of every access to memory that may not be touched. It is called in a
// signal handler, on the thread that made the access, and on several threads at
// the same time: what it does must be safe there.
class AccessTrapListener {
 public:
  virtual ~AccessTrapListener() = default;
  // Returns true if the access may be tried again; false if it does not concern
  // this listener, and goes to the handler that the signal had before.
  virtual bool OnTrap(uint8_t* address, TrappedAccess access) = 0;
};

// Catches SIGSEGV and SIGBUS in all threads for as long as it lives, and then
// restores the handlers that were there.
// REQUIRES: there is no other, and no thread touches such memory as it ends.
class AccessTrap {
 public:
  explicit AccessTrap(AccessTrapListener* listener);
  ~AccessTrap();
  AccessTrap(const AccessTrap&) = delete;
  AccessTrap& operator=(const AccessTrap&) = delete;
};

}  // namespace nodewise
