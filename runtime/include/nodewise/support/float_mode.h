#pragma once

#include <cfenv>
#include <cstdint>

namespace nodewise {

// A library that was linked for speed lets its process take denormal numbers
// for zero, and any function may change how numbers are rounded. Its own nodes
// are to go on so, but what is said of their tensors must not depend on it:
// while this lives, the calling thread calculates as the standard says.
class DefaultFloatMode {
 public:
  DefaultFloatMode();
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
  // As it was before, the flags of what has happened too.
  ~DefaultFloatMode();

 private:
#ifdef __SSE__
  uint32_t before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace nodewise
