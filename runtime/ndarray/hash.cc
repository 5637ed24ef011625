#include "nodewise/ndarray/hash.h"

#include "nodewise/support/check.h"
#include "runtime/ndarray/hash_stream.h"

#if NODEWISE_XXHASH_DISPATCHES
// Chooses the loops for this machine at run time, under the plain names.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace nodewise {

uint64_t HashBytes(const void* data, size_t size) {
  return XXH3_64bits(data, size);
}

// Hashes of two functions say nothing about each other, even if they happen to
// be equal.
HashMatch CompareHashes(TensorHash a, TensorHash b) {
  if (a.kind != b.kind) return HashMatch::kNotComparable;
  return a.value == b.value ? HashMatch::kSame : HashMatch::kDifferent;
}

HashStream::HashStream() : state_(XXH3_createState()) {
  NODEWISE_CHECK(state_ != nullptr);  // Else memory is used up.
  XXH3_64bits_reset(state_);
}

HashStream::~HashStream() { XXH3_freeState(state_); }

void HashStream::Add(const void* data, size_t size) {
  XXH3_64bits_update(state_, data, size);
}

uint64_t HashStream::Finish() const { return XXH3_64bits_digest(state_); }

}  // namespace nodewise
