#pragma once

#include <cstddef>

namespace nodewise {

// While it exists, the process aborts with a message as soon as more memory has
// been allocated since its creation, and not freed, than an input of
// `input_bytes` may cost: 10 times its size and 64 MiB. Only one may exist at a
// time. Works only under the address sanitizer.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t input_bytes);
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit();
};

}  // namespace nodewise
