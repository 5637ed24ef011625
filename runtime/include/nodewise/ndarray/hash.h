#pragma once

#include <cstddef>
#include <cstdint>

namespace nodewise {

// Returns a 64-bit hash that tells contents apart: XXH3-64 with the seed 0. It
// does not protect against someone who wants two contents to collide. Equal
// bytes give equal numbers on every machine. Any thread may call.
uint64_t HashBytes(const void* data, size_t size);

// The function that made a hash (docs/formats/hash.md).
enum class HashKind : uint8_t {
  kXxh3,         // XXH3-64, which is what HashBytes() computes.
  kNodewiseOwn,  // The function of dumps whose record file has version 1.
};

// A hash that was read back, perhaps from a file of an older version.
struct TensorHash {
  HashKind kind = HashKind::kXxh3;
  uint64_t value = 0;
};

// What two hashes say about the contents that they were made of.
enum class HashMatch : uint8_t {
  kSame,
  kDifferent,
  kNotComparable,  // Two functions made them, so they say nothing.
};
HashMatch CompareHashes(TensorHash a, TensorHash b);

}  // namespace nodewise
