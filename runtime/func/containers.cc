#include "nodewise/func/containers.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/func/tvm_object_abi.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

std::string Join(absl::Span<const Value> values) {
  return absl::StrJoin(values, ", ", [](std::string* text, const Value& value) {
    absl::StrAppend(text, value.ToText());
  });
}

// Stands for an item that TVM has no object for. Compiled C++ can hold such an
// object; any other use of it is an error that names this type.
constexpr std::string_view kBoxKey = "nodewise.Value";
struct BoxObject final : Object {
  explicit BoxObject(Value item) : Object(kBoxType), value(std::move(item)) {}
  std::string_view object_type() const override { return kBoxKey; }

  Value value;
};

// Returns an object for the value, with a count; null for null. Numbers and
// bytes have no objects in TVM's containers of these releases.
ObjectHeader* GiveBoxed(const Value& value) {
  if (value.IsNull()) return nullptr;
  if (const auto* array = value.Get<NDArray>()) {
    if (!array->defined()) return nullptr;
    return NDArray::HeaderOf(NDArray(*array).LeakHandle());
  }
  Ref<Object> boxed;
  if (const auto* object = value.Get<Ref<Object>>()) {
    boxed = *object;
  } else if (const auto* text = value.Get<std::string>()) {
    boxed = MakeRef<StringObject>(*text);
  } else {
    boxed = MakeRef<BoxObject>(value);
  }
  return static_cast<ObjectHeader*>(Object::ToHandle(boxed));
}

// A container is followed by counted pointers, which compiled C++ may even
// change, and preceded by what this runtime sees: a pointer to the items.
constexpr size_t kBefore = alignof(std::max_align_t);

// An array's items may be changed by compiled code, so what this runtime sees
// is kept apart from them.
template <typename Items>
void* MemoryFor(size_t object_bytes, size_t count, Items items) {
  auto held = std::make_unique<Items>(std::move(items));
  auto* const memory = static_cast<char*>(
      ::operator new(kBefore + object_bytes + count * sizeof(void*)));
  new (memory) Items*(held.release());
  return memory + kBefore;
}

// The pointer stands before the object, where no class of TVM's has a member.
template <typename Items>
Items& ItemsBefore(const void* object) {
  return **reinterpret_cast<Items* const*>(static_cast<const char*>(object) -
                                           kBefore);
}

void FreeMemory(void* object) {
  ::operator delete(static_cast<char*>(object) - kBefore);
}

// Compiled code may have replaced items by others; those that stand there now
// are owned.
void ReleaseAll(absl::Span<ObjectHeader* const> objects) {
  for (ObjectHeader* const object : objects) {
    if (object != nullptr) object->Release();
  }
}

// The order is that of insertion, which a map of the library would not keep.
MapObject::Items WithoutRepeats(MapObject::Items items) {
  MapObject::Items kept;
  for (auto& item : items) {
    const auto same = std::ranges::find(kept, item.first,
                                        &MapObject::Items::value_type::first);
    if (same == kept.end()) {
      kept.push_back(std::move(item));
    } else {
      same->second = std::move(item.second);
    }
  }
  return kept;
}

TvmArray* AsTvm(const ArrayObject* array) {
  return reinterpret_cast<TvmArray*>(array->handle());
}

TvmMap* AsTvm(const MapObject* map) {
  return reinterpret_cast<TvmMap*>(map->handle());
}

}  // namespace

// By these names compiled code and Python's bindings ask for a type.
absl::Span<const ObjectTypeRow> ObjectTypes() {
  static constexpr ObjectTypeRow kRows[] = {
      {kObjectType, "runtime.Object"},
      {kModuleType, "runtime.Module"},
      {kNDArrayType, "runtime.NDArray"},
      {kStringType, "runtime.String"},
      {kArrayType, "Array"},
      {kMapType, "Map"},
      {kShapeType, "runtime.ShapeTuple"},
      {kFunctionType, "runtime.PackedFunc"},
      {kReportType, "runtime.profiling.Report"},
      {kAdtType, "runtime.ADT"},
      {kDurationType, "runtime.profiling.Duration"},
      {kPercentType, "runtime.profiling.Percent"},
      {kCountType, "runtime.profiling.Count"},
      {kRatioType, "runtime.profiling.Ratio"},
      {kBoxType, kBoxKey},
  };
  return kRows;
}

// The check holds the layout against that of tvm_object_abi.h: a member in the
// wrong place would be read as an address.
StringObject::StringObject(std::string value)
    : Object(kStringType), size_(value.size()), text(std::move(value)) {
  data_ = text.data();
  NODEWISE_CHECK(reinterpret_cast<TvmString*>(handle())->data == text.data());
}

ShapeObject::ShapeObject(absl::Span<const int64_t> shape)
    : Object(kShapeType),
      size_(shape.size()),
      dims(shape.begin(), shape.end()) {
  data_ = dims.data();
  NODEWISE_CHECK(reinterpret_cast<TvmShape*>(handle())->dims == dims.data());
}

// The memory is one block for object and items, as in TVM, where the items
// follow without a pointer.
Ref<ArrayObject> ArrayObject::Make(std::vector<Value> items) {
  const size_t count = items.size();
  void* const memory = MemoryFor(sizeof(ArrayObject), count, std::move(items));
  return Ref<ArrayObject>(new (memory) ArrayObject(count));
}

ArrayObject::ArrayObject(size_t count)
    : Object(kArrayType), size_(static_cast<int64_t>(count)), capacity_(size_) {
  ObjectHeader** seen = AsTvm(this)->items();
  NODEWISE_CHECK(static_cast<void*>(seen) == this + 1);
  for (const Value& item : items()) *seen++ = GiveBoxed(item);
}

ArrayObject::~ArrayObject() {
  ReleaseAll({AsTvm(this)->items(), static_cast<size_t>(size_)});
  delete &items();
}

void ArrayObject::operator delete(void* memory) { FreeMemory(memory); }

const std::vector<Value>& ArrayObject::items() const {
  return ItemsBefore<std::vector<Value>>(this);
}

std::string ArrayObject::ToText() const {
  return absl::StrCat("[", Join(items()), "]");
}

Ref<MapObject> MapObject::Make(Items items) {
  items = WithoutRepeats(std::move(items));
  const size_t count = items.size();
  void* const memory =
      MemoryFor(sizeof(MapObject), 2 * count, std::move(items));
  return Ref<MapObject>(new (memory) MapObject(count));
}

// A small map of TVM's is searched from its first pair to its last, however
// many it has; only the number of slots makes it a hash table.
MapObject::MapObject(size_t count)
    : Object(kMapType),
      slots_(std::min<uint64_t>(count, kSmallMapSlots)),
      size_(count) {
  ObjectHeader** seen = AsTvm(this)->pairs();
  NODEWISE_CHECK(static_cast<void*>(seen) == this + 1);
  for (const auto& [key, item] : items()) {
    *seen++ = GiveBoxed(Value(key));
    *seen++ = GiveBoxed(item);
  }
}

MapObject::~MapObject() {
  ReleaseAll({AsTvm(this)->pairs(), static_cast<size_t>(2 * size_)});
  delete &items();
}

void MapObject::operator delete(void* memory) { FreeMemory(memory); }

const MapObject::Items& MapObject::items() const {
  return ItemsBefore<Items>(this);
}

// In the form of Python's dict.
std::string MapObject::ToText() const {
  return absl::StrCat("{",
                      absl::StrJoin(items(), ", ",
                                    [](std::string* text, const auto& item) {
                                      absl::StrAppend(text, Quoted(item.first),
                                                      ": ",
                                                      item.second.ToText());
                                    }),
                      "}");
}

std::string ShapeObject::ToText() const {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

std::string AdtObject::ToText() const {
  return fmt::format("ADT({}, [{}])", tag, Join(fields));
}

const Value* MapObject::Find(std::string_view key) const {
  for (const auto& [name, held] : items()) {
    if (name == key) return &held;
  }
  return nullptr;
}

}  // namespace nodewise
