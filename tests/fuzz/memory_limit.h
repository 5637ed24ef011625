#pragma once

#include <cstddef>

namespace nodewise {

// While it lives, the process aborts, saying why, as soon as more memory has
// been allocated since it was made, and not been freed, than an input of
// `input_bytes` may cost: 10 times its size and 64 MiB. Only one may live at a
// time. Works under the address sanitizer alone.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t input_bytes);
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit();
};

}  // namespace nodewise
