#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nodewise/func/packed_func.h"

namespace nodewise {

// The numbers of the types of this runtime's own, and those whose number is not
// the same in all releases of TVM.
enum OwnTypeIndex : uint32_t {
  kReportType = kFirstOwnType,
  kAdtType,
  kDurationType,
  kPercentType,
  kCountType,
  kRatioType,
  kBoxType
};

// The types that this runtime's objects have. All derive from the first and
// from nothing else.
struct ObjectTypeRow {
  uint32_t index;
  std::string_view key;
};
absl::Span<const ObjectTypeRow> ObjectTypes();

// The container objects that TVM's functions return and bindings take apart
// through named functions (runtime.ArrayGetItem, runtime.MapItems, ...).

// Their first members are where compiled C++ looks for them
// (tvm_object_abi.h), so they do not change once they are made.

struct StringObject final : Object {
  explicit StringObject(std::string value);
  std::string_view object_type() const override { return "runtime.String"; }
  std::string ToText() const override { return Quoted(text); }

 private:
  const char* data_ = nullptr;
  uint64_t size_;

 public:
  const std::string text;
};

class ArrayObject final : public Object {
 public:
  static Ref<ArrayObject> Make(std::vector<Value> items);
  ~ArrayObject() override;
  std::string_view object_type() const override { return "Array"; }
  std::string ToText() const override;
  const std::vector<Value>& items() const;

  // The items that compiled C++ sees follow the object in memory.
  static void operator delete(void* memory);

 private:
  explicit ArrayObject(size_t count);

  int64_t size_;
  [[maybe_unused]] int64_t capacity_;
};

// Keys are strings; the order is that of insertion.
class MapObject final : public Object {
 public:
  using Items = std::vector<std::pair<std::string, Value>>;

  // If several items have one key, the last counts, at the place of the first.
  static Ref<MapObject> Make(Items items);
  ~MapObject() override;
  std::string_view object_type() const override { return "Map"; }
  std::string ToText() const override;
  const Items& items() const;
  const Value* Find(std::string_view key) const;

  static void operator delete(void* memory);

 private:
  explicit MapObject(size_t count);

  uint64_t slots_;
  uint64_t size_;
};

struct ShapeObject final : Object {
  explicit ShapeObject(absl::Span<const int64_t> shape);
  std::string_view object_type() const override { return "runtime.ShapeTuple"; }
  std::string ToText() const override;

 private:
  const int64_t* data_ = nullptr;
  uint64_t size_;

 public:
  const std::vector<int64_t> dims;
};

// Values with a tag, which says what they make up; tag 0 is a tuple.
struct AdtObject final : Object {
  AdtObject(int64_t number, std::vector<Value> values)
      : Object(kAdtType), tag(number), fields(std::move(values)) {}
  std::string_view object_type() const override { return "runtime.ADT"; }
  std::string ToText() const override;

  int64_t tag;
  std::vector<Value> fields;
};

}  // namespace nodewise
