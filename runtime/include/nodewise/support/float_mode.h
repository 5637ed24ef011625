#pragma once

#include <cfenv>
#include <cstdint>

namespace nodewise {

// A library that was linked for speed makes its process treat denormal numbers
// as zero, and any function may change how numbers are rounded. Nodes are to
// keep running that way, but our figures about their tensors must not depend on
// it: while this lives, the calling thread calculates as the standard says.
class DefaultFloatMode {
 public:
  DefaultFloatMode();
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
  // Restores the former mode, including the exception flags.
  ~DefaultFloatMode();

 private:
#ifdef __SSE__
  uint32_t before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace nodewise
