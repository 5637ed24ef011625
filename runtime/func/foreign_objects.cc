// Functions and objects that pass between this runtime and compiled C++ on
// TVM's headers, in the form that those have inline: a C++ function that fails
// by an exception, classes whose members are read in memory.

#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/tvm_object_abi.h"

// For the assembly below.
extern "C" {
__attribute__((visibility("hidden"))) bool nodewise_manage_function(
    nodewise::TvmStdFunction::Storage* to,
    const nodewise::TvmStdFunction::Storage* from, int operation);
__attribute__((visibility("hidden"))) void nodewise_call_function(
    const void* place, nodewise::TvmArgs args, nodewise::TvmRetValue* result);
#ifdef __x86_64__
void nodewise_call_or_manage();
#endif
}

namespace nodewise {
namespace {

// Compiled C++ holds one of our functions by its header, or in the storage of a
// std::function that ManageStorage() has filled with the addresses of the
// header and of the deleter. The header has the deleter at the same place.
FunctionObject* FunctionIn(const void* place) {
  auto* header = static_cast<ObjectHeader*>(const_cast<void*>(place));
  if (header->type_index != kFunctionType) {
    header = *static_cast<ObjectHeader* const*>(place);
  }
  return static_cast<FunctionObject*>(Object::FromHandle(header));
}

bool ManageStorage(TvmStdFunction::Storage* to,
                   const TvmStdFunction::Storage* from, int operation) {
  FunctionObject* const function = FunctionIn(from);
  switch (operation) {
    case TvmStdFunction::kTypeInfo:
      to->words[0] = const_cast<std::type_info*>(&typeid(FunctionObject));
      break;
    case TvmStdFunction::kAddress:
      to->words[0] = function;
      break;
    case TvmStdFunction::kClone:
      function->Retain();
      to->words[0] = function->handle();
      to->words[1] = reinterpret_cast<void*>(&DeleteObject);
      break;
    default:
      function->Release();
  }
  return false;
}

// TVM 0.9 and later find their function to call where 0.8 finds the manager of
// its std::function. The register rsi tells who calls: for a manager it points
// to a place of a function, whose second word is our deleter; for a call it
// points to the result, whose second word is a type code. (The arguments of a
// call are on the stack, which is why this cannot be said in C++.)
#ifdef __x86_64__
asm(R"(
  .text
  .p2align 4
  .hidden nodewise_call_or_manage
  .type nodewise_call_or_manage, @function
nodewise_call_or_manage:
  endbr64
  movq _ZN8nodewise12DeleteObjectEPNS_12ObjectHeaderE@GOTPCREL(%rip), %rax
  cmpq %rax, 8(%rsi)
  je nodewise_manage_function
  jmp nodewise_call_function
  .size nodewise_call_or_manage, . - nodewise_call_or_manage
)");
constexpr auto kCallOrManage = &nodewise_call_or_manage;
#else
constexpr auto kCallOrManage = &nodewise_call_function;  // 0.9 and later.
#endif

// Gives back what a result holds: the caller may pass one that was used.
void DropHeld(TvmRetValue* result) {
  void* const held = result->value.v_handle;
  switch (result->code) {
    case kTVMStr:
    case kTVMBytes:
      delete static_cast<std::string*>(held);
      break;
    case kTVMNDArrayHandle:
      NDArray::HeaderOf(static_cast<DLTensor*>(held))->Release();
      break;
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      static_cast<ObjectHeader*>(held)->Release();
      break;
    default:
      break;
  }
  result->code = kTVMNullptr;
}

// Calls one of our functions as TVM's C++ does. Text and bytes go out as new
// strings, which the caller deletes; in a C result they would be borrowed.
void CallOurFunction(const FunctionObject& function, TvmArgs args,
                     TvmRetValue* result) {
  DropHeld(result);
  const PackedFunc callee(
      Ref<FunctionObject>(const_cast<FunctionObject*>(&function)));
  absl::StatusOr<Value> value =
      callee.CallPacked(PackedArgs(args.values, args.codes, args.count));
  if (!value.ok()) {
    // The caller is C++, whose functions report errors by exceptions alone.
    throw std::runtime_error(std::string(value.status().message()));
  }
  const auto keep = [&](const std::string& text, int code) {
    result->value.v_handle = new std::string(text);
    result->code = code;
  };
  if (const auto* text = value->Get<std::string>()) return keep(*text, kTVMStr);
  if (const auto* bytes = value->Get<Value::Bytes>()) {
    return keep(bytes->data, kTVMBytes);
  }
  if (const auto* dtype = value->Get<DLDataType>()) {
    result->value.v_type = *dtype;
    result->code = kTVMDataType;
    return;
  }
  (*std::move(value)).MoveToC(&result->value, &result->code);
}

// The result is a function in the form of its release: a copy of the 32 bytes
// in new memory.
void InvokeStdFunction(const TvmStdFunction::Storage* place, TvmArgs* args,
                       TvmRetValue** result) {
  CallOurFunction(*FunctionIn(place), *args, *result);
  if ((*result)->code != kTVMPackedFuncHandle) return;
  // TVM 0.8 deletes a function that it was returned.
  const auto* ours = static_cast<TvmStdFunction*>((*result)->value.v_handle);
  auto* const copy = new TvmStdFunction(*ours);
  copy->storage.words[0] = (*result)->value.v_handle;
  copy->storage.words[1] = reinterpret_cast<void*>(&DeleteObject);
  (*result)->value.v_handle = copy;
}

// Takes over what a function of TVM's has returned. The code is cleared, so
// that nothing is freed twice.
absl::StatusOr<Value> TakeResult(TvmRetValue* result) {
  const int code = std::exchange(result->code, int{kTVMNullptr});
  if (code == kTVMStr || code == kTVMBytes) {
    const std::unique_ptr<std::string> text(
        static_cast<std::string*>(result->value.v_handle));
    if (code == kTVMStr) return Value(std::move(*text));
    return Value(Value::Bytes{std::move(*text)});
  }
  return Value::AdoptFromC(result->value, code);
}

// Gives up what this runtime owns of a foreign function: a count of one of TVM
// 0.9 and later, all of a std::function.
struct FunctionDropper {
  void operator()(TvmFunction* function) const { function->header.Release(); }
  void operator()(TvmStdFunction* function) const {
    function->manage(&function->storage, &function->storage,
                     TvmStdFunction::kDestroy);
    ::operator delete(function);
  }
};

void CallTvmFunction(const TvmFunction* function, TvmArgs args,
                     TvmRetValue* result) {
  function->call(function, args, result);
}
void CallTvmFunction(const TvmStdFunction* function, TvmArgs args,
                     TvmRetValue* result) {
  function->invoke(&function->storage, &args, &result);
}

// A function of compiled C++ as one of ours. An exception must not pass through
// frames of C, so it becomes the error of the call.
template <typename Theirs>
class TvmCallee final : public FunctionObject {
 public:
  explicit TvmCallee(Theirs* function)
      : FunctionObject(&Invoke, this), function_(function) {}

 private:
  static int Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                    int* ret_code, void* self) {
    TvmRetValue result{{}, kTVMNullptr};
    try {
      CallTvmFunction(static_cast<TvmCallee*>(self)->function_.get(),
                      {args, codes, count}, &result);
    } catch (...) {
      return Report(absl::InternalError("the function " + TextOfException()));
    }
    return ReturnToC(TakeResult(&result), ret, ret_code);
  }

  std::unique_ptr<Theirs, FunctionDropper> function_;
};

template <typename Theirs>
Ref<FunctionObject> AdoptFunction(Theirs* function) {
  return MakeRef<TvmCallee<Theirs>>(function);
}

std::atomic<ModuleWrapper> module_wrapper{nullptr};

// Returns the name of a type that only the library which made the object knows.
// The library is opened by the address of the deleter, which lies in it, since
// its symbols need not be global.
std::string NameOfTvmType(const ObjectHeader& object) {
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
    // The library does not know the type either, and its number stays the name.
  }
  if (library != nullptr) dlclose(library);
  return name;
}

// Arrays are the one kind of object that has a handle of its own in the C API.
Value ValueOf(ObjectHeader* object) {
  if (object == nullptr) return Value();
  if (object->type_index == kNDArrayType) {
    return Value(NDArray::ShareHandle(reinterpret_cast<DLTensor*>(object + 1)));
  }
  return Value(Object::Share(object, kTVMObjectHandle));
}

// A copy is made only when something looks inside; most objects are only passed
// on.
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

// Stands for an object of compiled C++, and owns a count of it. Its handle is
// that of the object, so that compiled code gets back the object that it made.
class ForeignObject final : public Object {
 public:
  explicit ForeignObject(ObjectHeader* object)
      : Object(object->type_index),
        object_(object),
        type_(NameOfTvmType(*object)) {}
  ~ForeignObject() override { object_->Release(); }

  std::string_view object_type() const override { return type_; }
  ObjectHeader* handle() const override { return object_; }
  Ref<Object> Converted() const override {
    switch (object_->type_index) {
      case kStringType: {
        const auto* text = reinterpret_cast<TvmString*>(object_);
        return MakeRef<StringObject>(std::string(text->data, text->size));
      }
      case kArrayType:
        return CopyOf(reinterpret_cast<TvmArray*>(object_));
      case kMapType:
        return CopyOf(reinterpret_cast<TvmMap*>(object_));
      case kShapeType: {
        const auto* shape = reinterpret_cast<TvmShape*>(object_);
        return MakeRef<ShapeObject>(
            absl::MakeConstSpan(shape->dims, static_cast<size_t>(shape->size)));
      }
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

// Returns a copy of a function of TVM 0.8. Its manager copies what it holds,
// which may be more than the bytes.
TvmStdFunction* Cloned(const TvmStdFunction& function) {
  auto* const copy =
      static_cast<TvmStdFunction*>(::operator new(sizeof(TvmStdFunction)));
  *copy = function;
  function.manage(&copy->storage, &function.storage, TvmStdFunction::kClone);
  return copy;
}

// A module needs more than a handle, since it may be imported and asked for
// functions; runtime/module brings what wraps it.
Ref<Object> WrapForeignObject(ObjectHeader* object) {
  if (object->type_index == kFunctionType) {
    return AdoptFunction(reinterpret_cast<TvmFunction*>(object));
  }
  const ModuleWrapper wrap = module_wrapper;
  if (object->type_index == kModuleType && wrap != nullptr) return wrap(object);
  return MakeRef<ForeignObject>(object);
}

}  // namespace

FunctionObject::FunctionObject(TVMBackendPackedCFunc address, void* resource)
    : Object(kFunctionType),
      call_or_manage_(reinterpret_cast<const void*>(kCallOrManage)),
      invoke_(reinterpret_cast<const void*>(&InvokeStdFunction)),
      address_(address),
      resource_(resource) {}

void SetModuleWrapper(ModuleWrapper wrapper) { module_wrapper = wrapper; }

std::string Object::ToText() const {
  return fmt::format("{}({})", object_type(), fmt::ptr(handle()));
}

std::vector<Attribute> Object::Attributes() const { return {}; }

// Only modules have virtual functions in TVM. Where those return in memory, our
// `this` is not in its place, so this function looks at no object.
void Object::RefuseUse() {
  throw std::runtime_error(
      "an object of type runtime.Module of this runtime cannot do what the "
      "program's function asks: it has a kind, functions and imports");
}

const char* Object::TvmTypeKey() const { RefuseUse(); }
TvmFunctionResult Object::TvmGetFunction(const void*, const void*) {
  RefuseUse();
}

// The count is the receiver's, who gives it back by the C API or by itself.
void* Object::ToHandle(const Ref<Object>& object) {
  if (!object) return nullptr;
  object->handle()->Retain();
  return object->handle();
}

Object* Object::FromHandle(void* handle) {
  if (handle == nullptr) return nullptr;
  return static_cast<Object*>(FromHeader(static_cast<ObjectHeader*>(handle)));
}

Ref<Object> Object::Adopt(void* handle, int code) {
  if (handle == nullptr) return nullptr;
  if (Object* const ours = FromHandle(handle)) return Ref<Object>::Adopt(ours);
  if (code == kTVMPackedFuncHandle && !HasHeader(handle)) {
    return AdoptFunction(static_cast<TvmStdFunction*>(handle));
  }
  return WrapForeignObject(static_cast<ObjectHeader*>(handle));
}

Ref<Object> Object::Share(void* handle, int code) {
  if (handle == nullptr) return nullptr;
  if (Object* const ours = FromHandle(handle)) return Ref<Object>(ours);
  if (code == kTVMPackedFuncHandle && !HasHeader(handle)) {
    return AdoptFunction(Cloned(*static_cast<TvmStdFunction*>(handle)));
  }
  static_cast<ObjectHeader*>(handle)->Retain();
  return WrapForeignObject(static_cast<ObjectHeader*>(handle));
}

}  // namespace nodewise

bool nodewise_manage_function(nodewise::TvmStdFunction::Storage* to,
                              const nodewise::TvmStdFunction::Storage* from,
                              int operation) {
  return nodewise::ManageStorage(to, from, operation);
}

void nodewise_call_function(const void* place, nodewise::TvmArgs args,
                            nodewise::TvmRetValue* result) {
  nodewise::CallOurFunction(*nodewise::FunctionIn(place), args, result);
}
