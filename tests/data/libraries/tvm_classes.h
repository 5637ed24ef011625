// The classes that compiled C++ on TVM's headers has inline, as far as the
// layout of their objects goes, for the release TVM=8 (0.8), 9 (0.9 to 0.12) or
// 13 (0.13 to 0.19). The names are TVM's, since libraries are recognised by
// them.
#ifndef NODEWISE_TESTS_TVM_CLASSES_H_
#define NODEWISE_TESTS_TVM_CLASSES_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/func/packed_abi.h"

namespace tvm {
namespace runtime {

struct Object {
  uint32_t type_index_ = 0;
  std::atomic<int32_t> ref_counter_{0};
  void (*deleter_)(Object*) = nullptr;

  void IncRef() { ref_counter_.fetch_add(1); }
  void DecRef() {
    if (ref_counter_.fetch_sub(1) == 1 && deleter_ != nullptr) deleter_(this);
  }
  static std::string TypeIndex2Key(uint32_t index);
};

// A counted reference.
class ObjectRef {
 public:
  ObjectRef() = default;
  explicit ObjectRef(Object* object) : object_(object) {
    if (object_ != nullptr) object_->IncRef();
  }
  ObjectRef(const ObjectRef& other) : ObjectRef(other.object_) {}
  ObjectRef& operator=(ObjectRef other) {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ObjectRef() {
    if (object_ != nullptr) object_->DecRef();
  }
  Object* get() const { return object_; }
  Object* Release() { return std::exchange(object_, nullptr); }

 private:
  Object* object_ = nullptr;
};

template <typename T, typename... Args>
ObjectRef Make(uint32_t type_index, Args&&... args) {
  T* const object = new T(std::forward<Args>(args)...);
  object->type_index_ = type_index;
  object->deleter_ = [](Object* self) { delete static_cast<T*>(self); };
  return ObjectRef(object);
}

struct StringObj : Object {
  explicit StringObj(std::string value) : text(std::move(value)) {
    data = text.data();
    size = text.size();
  }
  const char* data;
  uint64_t size;
  std::string text;
};
struct String : ObjectRef {
  using ObjectRef::ObjectRef;
  explicit String(const std::string& text)
      : ObjectRef(Make<StringObj>(3, text)) {}
  operator std::string() const {
    const auto* text = static_cast<StringObj*>(get());
    return std::string(text->data, text->size);
  }
};

struct ShapeTupleObj : Object {
  explicit ShapeTupleObj(std::vector<int64_t> values)
      : dims(std::move(values)) {
    data = dims.data();
    size = dims.size();
  }
  int64_t* data;
  uint64_t size;
  std::vector<int64_t> dims;
};

struct ArrayNode : Object {
  int64_t size = 0;
  int64_t capacity = 0;
  ObjectRef* items() { return reinterpret_cast<ObjectRef*>(this + 1); }
};
// Makes an array; its items follow it in memory.
inline ObjectRef MakeArray(const std::vector<ObjectRef>& items) {
  void* memory =
      ::operator new(sizeof(ArrayNode) + items.size() * sizeof(void*));
  auto* const array = new (memory) ArrayNode;
  array->type_index_ = 4;
  array->size = array->capacity = static_cast<int64_t>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    new (array->items() + i) ObjectRef(items[i]);
  }
  array->deleter_ = [](Object* self) {
    auto* const held = static_cast<ArrayNode*>(self);
    for (int64_t i = 0; i < held->size; ++i) held->items()[i].~ObjectRef();
    ::operator delete(held);
  };
  return ObjectRef(array);
}

// A small map: pairs follow it in memory.
struct MapNode : Object {
  uint64_t slots;
  uint64_t size;
  ObjectRef* pairs() { return reinterpret_cast<ObjectRef*>(this + 1); }
};

struct NDArrayContainer : Object {
  DLTensor tensor;
  void* manager_ctx;
  Object* shape;
};

struct TVMArgs {
  const TVMValue* values;
  const int* type_codes;
  int num_args;
};

class TVMRetValue;
#if TVM == 8
using PackedFunc = std::function<void(TVMArgs, TVMRetValue*)>;
#else
struct PackedFuncObj : Object {
  using FCallPacked = void(const PackedFuncObj*, TVMArgs, TVMRetValue*);
  explicit PackedFuncObj(FCallPacked* function) : call(function) {}
  FCallPacked* call;
};
struct PackedFunc : ObjectRef {
  using Body = std::function<void(TVMArgs, TVMRetValue*)>;
  struct Closure : PackedFuncObj {
    explicit Closure(Body function)
        : PackedFuncObj(&Closure::Call), body(std::move(function)) {}
    static void Call(const PackedFuncObj* self, TVMArgs args,
                     TVMRetValue* ret) {
      static_cast<const Closure*>(self)->body(args, ret);
    }
    Body body;
  };
  using ObjectRef::ObjectRef;
  PackedFunc(Body body) : ObjectRef(Make<Closure>(7, std::move(body))) {}
  void operator()(TVMArgs args, TVMRetValue* ret) const {
    const auto* function = static_cast<PackedFuncObj*>(get());
    function->call(function, args, ret);
  }
  explicit operator bool() const { return get() != nullptr; }
};
#endif

class TVMRetValue {
 public:
  TVMRetValue() = default;
  TVMRetValue(const TVMRetValue&) = delete;
  ~TVMRetValue() { Clear(); }

  TVMValue value{};
  int code = kTVMNullptr;

  void Set(int64_t number) {
    Clear();
    value.v_int64 = number;
    code = kTVMArgInt;
  }
  void SetText(const std::string& text) {
    Clear();
    value.v_handle = new std::string(text);
    code = kTVMStr;
  }
  void Set(ObjectRef object, int type_code) {
    Clear();
    value.v_handle = object.Release();
    code = type_code;
  }
  void Set(const PackedFunc& function) {
#if TVM == 8
    Clear();
    value.v_handle = new PackedFunc(function);
    code = kTVMPackedFuncHandle;
#else
    Set(ObjectRef(function), kTVMPackedFuncHandle);
#endif
  }

 private:
  void Clear() {
    if (code == kTVMStr || code == kTVMBytes) {
      delete static_cast<std::string*>(value.v_handle);
    } else if (code == kTVMPackedFuncHandle && TVM == 8) {
      delete static_cast<PackedFunc*>(value.v_handle);
    } else if (code >= kTVMObjectHandle && code <= kTVMPackedFuncHandle) {
      static_cast<Object*>(value.v_handle)->DecRef();
    }
    code = kTVMNullptr;
  }
};

#if TVM >= 13
using Name = String;
#else
using Name = std::string;
#endif

class __attribute__((visibility("default"))) ModuleNode : public Object {
 public:
  virtual ~ModuleNode() = default;
  virtual const char* type_key() const = 0;
  virtual PackedFunc GetFunction(const Name& name, const ObjectRef& self) = 0;
  virtual void SaveToFile(const Name& file_name, const Name& format);
  virtual void SaveToBinary(void* stream);
  virtual Name GetSource(const Name& format);
#if TVM >= 9
  virtual Name GetFormat();
#endif
  std::vector<ObjectRef> imports_;
};
inline ModuleNode* ModuleOf(void* handle) {
  return static_cast<ModuleNode*>(static_cast<Object*>(handle));
}

}  // namespace runtime
}  // namespace tvm

// What TVM_DLL_EXPORT_PACKED_FUNC makes of a function.
#define EXPORT(name, function)                                             \
  extern "C" __attribute__((visibility("default"))) int name(              \
      TVMValue* args, int* codes, int count, TVMValue* ret, int* ret_code, \
      void*) {                                                             \
    try {                                                                  \
      tvm::runtime::TVMRetValue result;                                    \
      function(tvm::runtime::TVMArgs{args, codes, count}, &result);        \
      *ret = result.value;                                                 \
      *ret_code = result.code;                                             \
      result.code = kTVMNullptr;                                           \
      return 0;                                                            \
    } catch (const std::exception& error) {                                \
      TVMAPISetLastError(error.what());                                    \
      return -1;                                                           \
    }                                                                      \
  }

extern "C" void TVMAPISetLastError(const char* message);

#endif  // NODEWISE_TESTS_TVM_CLASSES_H_
