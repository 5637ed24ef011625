#pragma once

#include <cstddef>
#include <cstdint>

struct XXH3_state_s;

namespace nodewise {

// Hashes bytes that come in pieces, as HashBytes() does those in one. Not
// thread-safe.
class HashStream {
 public:
  HashStream();
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;
  ~HashStream();

  void Add(const void* data, size_t size);
  // Returns the hash of all that was added.
  uint64_t Finish() const;

 private:
  // The library's; it lies on the heap, since its size is not part of the
  // library's ABI.
  XXH3_state_s* state_;
};

}  // namespace nodewise
