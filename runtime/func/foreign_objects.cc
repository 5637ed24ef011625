// Objects that compiled C++ on TVM's headers has made, as this runtime holds
// them: one that stands for each, or a copy where it looks inside.

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/tvm_object_abi.h"
#include "runtime/func/tvm_calls.h"

namespace nodewise {
namespace {

std::atomic<ModuleWrapper> module_wrapper{nullptr};

// Returns the name of a type that only the library which made the object knows.
std::string NameOfType(const ObjectHeader& object) {
  for (const ObjectTypeRow& row : ObjectTypes()) {
    if (row.index == object.type_index) return std::string(row.key);
  }
  // TVM's Object::TypeIndex2Key(uint32_t), which returns a std::string.
  constexpr char kNameOf[] = "_ZN3tvm7runtime6Object13TypeIndex2KeyB5cxx11Ej";
  Dl_info info;
  void* library = nullptr;
  if (dladdr(reinterpret_cast<void*>(object.deleter), &info) != 0) {
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  auto* const name_of = reinterpret_cast<std::string (*)(uint32_t)>(
      dlsym(library != nullptr ? library : RTLD_DEFAULT, kNameOf));
  std::string name = fmt::format("number {}", object.type_index);
  try {
    if (name_of != nullptr) name = name_of(object.type_index);
  } catch (const std::exception&) {
    // It knows it no better.
  }
  if (library != nullptr) dlclose(library);
  return name;
}

Value ValueOf(ObjectHeader* object) {
  if (object == nullptr) return Value();
  if (object->type_index == kNDArrayType) {
    return Value(NDArray::ShareHandle(reinterpret_cast<DLTensor*>(object + 1)));
  }
  return Value(Object::Share(object, kTVMObjectHandle));
}

Ref<Object> CopyOf(TvmArray* array) {
  std::vector<Value> items;
  for (int64_t i = 0; i < array->size; ++i) {
    items.push_back(ValueOf(array->items()[i]));
  }
  return ArrayObject::Make(std::move(items));
}

// Keys of this runtime's maps are strings: a map with others has no copy.
bool AddPair(ObjectHeader* const* pair, MapObject::Items* items) {
  if (pair[0] == nullptr || pair[0]->type_index != kStringType) return false;
  const auto* key = reinterpret_cast<const TvmString*>(pair[0]);
  items->emplace_back(std::string(key->data, key->size), ValueOf(pair[1]));
  return true;
}

Ref<Object> CopyOf(TvmMap* map) {
  MapObject::Items items;
  if (map->slots <= kSmallMapSlots) {
    for (uint64_t i = 0; i < map->size; ++i) {
      if (!AddPair(map->pairs() + 2 * i, &items)) return nullptr;
    }
    return MapObject::Make(std::move(items));
  }
  const TvmMapBlock* const blocks = reinterpret_cast<TvmDenseMap*>(map)->blocks;
  for (uint64_t slot = 0; slot <= map->slots; ++slot) {
    const TvmMapBlock& block = blocks[slot / kSlotsOfBlock];
    const uint64_t place = slot % kSlotsOfBlock;
    if (block.marks[place] >= kFirstFreeSlotMark) continue;
    if (!AddPair(block.pairs[place], &items)) return nullptr;
  }
  return MapObject::Make(std::move(items));
}

Ref<Object> CopyOf(const TvmString& text) {
  return MakeRef<StringObject>(std::string(text.data, text.size));
}

Ref<Object> CopyOf(const TvmShape& shape) {
  return MakeRef<ShapeObject>(
      absl::MakeConstSpan(shape.dims, static_cast<size_t>(shape.size)));
}

// Stands for an object, and owns a count of it.
class ForeignObject final : public Object {
 public:
  explicit ForeignObject(ObjectHeader* object)
      : Object(object->type_index),
        object_(object),
        type_(NameOfType(*object)) {}
  ~ForeignObject() override { object_->Release(); }

  std::string_view object_type() const override { return type_; }
  ObjectHeader* handle() const override { return object_; }
  Ref<Object> Converted() const override {
    switch (object_->type_index) {
      case kStringType:
        return CopyOf(*reinterpret_cast<TvmString*>(object_));
      case kArrayType:
        return CopyOf(reinterpret_cast<TvmArray*>(object_));
      case kMapType:
        return CopyOf(reinterpret_cast<TvmMap*>(object_));
      case kShapeType:
        return CopyOf(*reinterpret_cast<TvmShape*>(object_));
      default:
        return nullptr;
    }
  }

 private:
  ObjectHeader* const object_;
  const std::string type_;
};

// Tells a function of TVM 0.9 and later from the std::function that it was
// before. In place of the header, the latter keeps an address, or the contents
// of a small function object.
bool HasHeader(void* function) {
  const auto* header = static_cast<ObjectHeader*>(function);
  constexpr int kMostCounts = 1 << 24;
  const int count = header->count;
  Dl_info info;
  return header->type_index == kFunctionType && count > 0 &&
         count < kMostCounts && header->deleter != nullptr &&
         dladdr(reinterpret_cast<void*>(header->deleter), &info) != 0;
}

// Returns a copy of a function of TVM 0.8.
TvmStdFunction* Cloned(const TvmStdFunction& function) {
  auto* const copy =
      static_cast<TvmStdFunction*>(::operator new(sizeof(TvmStdFunction)));
  *copy = function;
  function.manage(&copy->storage, &function.storage, TvmStdFunction::kClone);
  return copy;
}

Ref<Object> Represent(ObjectHeader* object) {
  if (object->type_index == kFunctionType) {
    return AdoptTvmFunction(reinterpret_cast<TvmFunction*>(object));
  }
  const ModuleWrapper wrap = module_wrapper;
  if (object->type_index == kModuleType && wrap != nullptr) return wrap(object);
  return MakeRef<ForeignObject>(object);
}

// Only modules have virtual functions in TVM. Where those return in memory, our
// `this` is not in its place, so this looks at no object.
[[noreturn]] void RefuseUse() {
  throw std::runtime_error(
      "an object of type runtime.Module of this runtime cannot do what the "
      "program's function asks: it has a kind, functions and imports");
}

}  // namespace

void SetModuleWrapper(ModuleWrapper wrapper) { module_wrapper = wrapper; }

std::string Object::ToText() const {
  return fmt::format("{}({})", object_type(), fmt::ptr(handle()));
}

std::vector<Attribute> Object::Attributes() const { return {}; }

const char* Object::TvmTypeKey() const { RefuseUse(); }
TvmFunctionResult Object::TvmGetFunction(const void*, const void*) {
  RefuseUse();
}
void Object::TvmRefused4() const { RefuseUse(); }
void Object::TvmRefused5() const { RefuseUse(); }
void Object::TvmRefused6() const { RefuseUse(); }
void Object::TvmRefused7() const { RefuseUse(); }
void Object::TvmRefused8() const { RefuseUse(); }
void Object::TvmRefused9() const { RefuseUse(); }

void* Object::Give(const Ref<Object>& object) {
  if (!object) return nullptr;
  object->handle()->Retain();
  return object->handle();
}

Object* Object::OfHandle(void* handle) {
  if (handle == nullptr) return nullptr;
  return static_cast<Object*>(OfHeader(static_cast<ObjectHeader*>(handle)));
}

Ref<Object> Object::Adopt(void* handle, int code) {
  if (handle == nullptr) return nullptr;
  if (Object* const ours = OfHandle(handle)) return Ref<Object>::Adopt(ours);
  if (code == kTVMPackedFuncHandle && !HasHeader(handle)) {
    return AdoptTvmFunction(static_cast<TvmStdFunction*>(handle));
  }
  return Represent(static_cast<ObjectHeader*>(handle));
}

Ref<Object> Object::Share(void* handle, int code) {
  if (handle == nullptr) return nullptr;
  if (Object* const ours = OfHandle(handle)) return Ref<Object>(ours);
  if (code == kTVMPackedFuncHandle && !HasHeader(handle)) {
    return AdoptTvmFunction(Cloned(*static_cast<TvmStdFunction*>(handle)));
  }
  static_cast<ObjectHeader*>(handle)->Retain();
  return Represent(static_cast<ObjectHeader*>(handle));
}

}  // namespace nodewise
