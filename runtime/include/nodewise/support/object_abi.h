#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nodewise {

// The head of an object of TVM 0.8 to 0.19, tvm::runtime::Object. The address
// of one is what C code holds as a handle. Bindings and compiled C++ read it in
// memory and count by themselves instead of calling the runtime.
struct ObjectHeader {
  uint32_t type_index;
  std::atomic<int32_t> count;
  void (*deleter)(ObjectHeader* self);  // Called for the last count; or null.

  void Retain() { count.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    if (count.fetch_sub(1, std::memory_order_acq_rel) == 1 &&
        deleter != nullptr) {
      deleter(this);
    }
  }
};
static_assert(sizeof(ObjectHeader) == 16);
static_assert(offsetof(ObjectHeader, type_index) == 0);
static_assert(offsetof(ObjectHeader, count) == 4);
static_assert(offsetof(ObjectHeader, deleter) == 8);
static_assert(std::atomic<int32_t>::is_always_lock_free);

// The types whose numbers are fixed in all of these releases. After them TVM
// has a few more that moved from release to release, and then gives numbers out
// as types come; our own begin where those cannot be, so that compiled code
// never takes one of ours for a type of its own.
enum ObjectTypeIndex : uint32_t {
  kObjectType = 0,
  kModuleType = 1,
  kNDArrayType = 2,
  kStringType = 3,
  kArrayType = 4,
  kMapType = 5,
  kShapeType = 6,
  kFunctionType = 7,
  kFirstOwnType = 1024,
};

}  // namespace nodewise
