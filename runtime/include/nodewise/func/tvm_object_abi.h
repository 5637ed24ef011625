#pragma once

#include <cstddef>
#include <cstdint>

#include "nodewise/func/packed_abi.h"
#include "nodewise/support/object_abi.h"

// Objects of TVM 0.8 to 0.19 as compiled C++ code sees them: classes whose
// members TVM's headers read inline. The names are not TVM's; the comments have
// those.

namespace nodewise {

// StringObj.
struct TvmString {
  ObjectHeader header;
  const char* data;
  uint64_t size;
};
static_assert(offsetof(TvmString, data) == 16 && sizeof(TvmString) == 32);

// ShapeTupleObj.
struct TvmShape {
  ObjectHeader header;
  const int64_t* dims;
  uint64_t size;
};
static_assert(offsetof(TvmShape, dims) == 16 && sizeof(TvmShape) == 32);

// ArrayNode; `capacity` items follow, each counted or null.
struct TvmArray {
  ObjectHeader header;
  int64_t size;
  int64_t capacity;

  ObjectHeader** items() { return reinterpret_cast<ObjectHeader**>(this + 1); }
};
static_assert(offsetof(TvmArray, size) == 16 && sizeof(TvmArray) == 32);

// MapNode. With at most kSmallMapSlots slots it is a SmallMapNode, and `size`
// pairs of a key and its value follow, each counted or null.
struct TvmMap {
  ObjectHeader header;
  uint64_t slots;
  uint64_t size;

  ObjectHeader** pairs() { return reinterpret_cast<ObjectHeader**>(this + 1); }
};
static_assert(offsetof(TvmMap, slots) == 16 && sizeof(TvmMap) == 32);
inline constexpr uint64_t kSmallMapSlots = 4;

// DenseMapNode, which a MapNode with more slots is: a hash table in blocks.
// Only the slots whose byte is below kFirstFreeSlotMark hold a pair.
inline constexpr uint64_t kSlotsOfBlock = 16;
inline constexpr uint8_t kFirstFreeSlotMark = 0xfe;
struct TvmMapBlock {
  uint8_t marks[kSlotsOfBlock];
  ObjectHeader* pairs[kSlotsOfBlock][2];
};
static_assert(sizeof(TvmMapBlock) == 272);
struct TvmDenseMap {
  TvmMap map;
  uint32_t shift;
  TvmMapBlock* blocks;
};
static_assert(offsetof(TvmDenseMap, blocks) == 40);

// TVMArgs, which is passed by value.
struct TvmArgs {
  const TVMValue* values;
  const int* codes;
  int count;
};
static_assert(sizeof(TvmArgs) == 24);

// TVMRetValue. Text and bytes are a new std::string; a function of TVM 0.8 is a
// new TvmStdFunction.
struct TvmRetValue {
  TVMValue value;
  int code;
};
static_assert(offsetof(TvmRetValue, code) == 8 && sizeof(TvmRetValue) == 16);

// PackedFuncObj of TVM 0.9 and later. A call fails by an exception.
struct TvmFunction {
  ObjectHeader header;
  void (*call)(const TvmFunction* self, TvmArgs args, TvmRetValue* result);
};
static_assert(offsetof(TvmFunction, call) == 16 && sizeof(TvmFunction) == 24);

// std::function<void(TVMArgs, TVMRetValue*)> of the GNU C++ library: what TVM's
// PackedFunc is in 0.8. A null one has no manager.
struct TvmStdFunction {
  enum Operation : int {
    kTypeInfo = 0,
    kAddress = 1,
    kClone = 2,
    kDestroy = 3
  };
  struct Storage {
    void* words[2];
  };

  Storage storage;
  bool (*manage)(Storage* to, const Storage* from, int operation);
  void (*invoke)(const Storage* storage, TvmArgs* args, TvmRetValue** result);
};
static_assert(offsetof(TvmStdFunction, manage) == 16);
static_assert(offsetof(TvmStdFunction, invoke) == 24);
static_assert(sizeof(TvmStdFunction) == 32);

}  // namespace nodewise
