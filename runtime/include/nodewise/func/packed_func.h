#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/packed_abi.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/object_abi.h"
#include "nodewise/support/ref.h"

namespace nodewise {

struct Attribute;
struct TvmString;

// A PackedFunc that a virtual function of TVM's classes returns: the object of
// 0.9 and later, or the 32 bytes of 0.8.
class TvmFunctionResult {
 public:
  // Writes to the first word only: the caller may have memory for no more.
  explicit TvmFunctionResult(void* object) { words[0] = object; }  // NOLINT
  explicit TvmFunctionResult(const std::array<void*, 4>& all) : words(all) {}
  TvmFunctionResult(const TvmFunctionResult&) = delete;
  ~TvmFunctionResult() {}  // NOLINT: not trivial, so it is returned in memory.

  std::array<void*, 4> words;
};

// Anything that C code holds by a counted handle, the address of its header.
class Object : public RefCounted {
 public:
  explicit Object(uint32_t type_index = kObjectType) : RefCounted(type_index) {}

  // The virtual functions of TVM's ModuleNode, by their places after the
  // destructor: compiled C++ on TVM's headers that is handed a module calls
  // them. They throw, since such code knows no other way to fail, and do so for
  // all that is not a module, or that TVM's modules can and ours cannot.
  virtual const char* TvmTypeKey() const;
  // `name` is a std::string until 0.12, a String of TVM's since.
  virtual TvmFunctionResult TvmGetFunction(const void* name, const void* self);
  virtual void TvmRefused4() const { RefuseUse(); }
  virtual void TvmRefused5() const { RefuseUse(); }
  virtual void TvmRefused6() const { RefuseUse(); }
  virtual void TvmRefused7() const { RefuseUse(); }
  virtual void TvmRefused8() const { RefuseUse(); }
  virtual void TvmRefused9() const { RefuseUse(); }

  // TVM's name for the type ("Array", "runtime.String", "runtime.Module").
  virtual std::string_view object_type() const = 0;
  // The tag of such a value for C: kTVMObjectHandle unless the type has a tag
  // of its own.
  virtual int type_code() const { return kTVMObjectHandle; }
  // Returns what a host prints of it: its type and address unless overridden.
  virtual std::string ToText() const;
  // Returns what a host may ask of it by name, besides its type_key.
  virtual std::vector<Attribute> Attributes() const;
  // Returns the handle, borrowed.
  virtual ObjectHeader* handle() const { return header(); }

  // Gives a handle with a count to C.
  static void* ToHandle(const Ref<Object>& object);
  // Returns the object of a handle if this runtime made it, else null.
  static Object* FromHandle(void* handle);
  // Takes over a count of a handle. What compiled C++ has made becomes an
  // object that stands for it, and gives its handle again; `code` is the tag
  // that came with it.
  static Ref<Object> Adopt(void* handle, int code);
  // Does the same without taking the count.
  static Ref<Object> Share(void* handle, int code);
  // Returns a copy of an object made by compiled C++ as one of this runtime's,
  // where that has such a type, else null.
  virtual Ref<Object> Converted() const { return nullptr; }

 private:
  [[noreturn]] static void RefuseUse();
};

// One argument of a call, borrowed from the caller. The conversions follow
// TVM's: an int passes for a float, a string object for a string; everything
// else fails with kInvalidArgument that says what came and what was wanted.
class ArgView {
 public:
  ArgView(TVMValue value, int code) : value_(value), code_(code) {}

  int code() const { return code_; }
  TVMValue value() const { return value_; }
  bool IsNull() const { return code_ == kTVMNullptr; }
  bool IsText() const;

  absl::StatusOr<int64_t> AsInt() const;
  absl::StatusOr<double> AsDouble() const;
  absl::StatusOr<void*> AsHandle() const;
  absl::StatusOr<DLDevice> AsDevice() const;
  // A type, or the text of one ("float32"), as TVM's Python package sends it.
  absl::StatusOr<DLDataType> AsDType() const;
  // Text or bytes; valid while the argument is.
  absl::StatusOr<std::string_view> AsString() const;
  // Any tensor that passes CheckDLTensor(), borrowed.
  absl::StatusOr<const DLTensor*> AsTensor() const;
  // Shares the array if it is a counted one, else borrows it without an owner.
  absl::StatusOr<NDArray> AsNDArray() const;
  template <typename T>
  absl::StatusOr<Ref<T>> AsObject(const char* wanted) const {
    const Ref<Object> object = SharedObject();
    if (auto* const found = dynamic_cast<T*>(object.get())) {
      return Ref<T>(found);
    }
    const Ref<Object> copy = object ? object->Converted() : Ref<Object>();
    if (auto* const found = dynamic_cast<T*>(copy.get())) return Ref<T>(found);
    return Mismatch(wanted);
  }

  absl::Status Mismatch(const char* wanted) const;

 private:
  // Null for what has no handle of an object.
  void* ObjectHandle() const;
  // Null unless this is a string object.
  const TvmString* TextObject() const;
  Ref<Object> SharedObject() const;

  TVMValue value_;
  int code_;
};

// The arguments of a call, or some of them. Reading past the end is the
// caller's error, kInvalidArgument.
class PackedArgs {
 public:
  PackedArgs(const TVMValue* values, const int* codes, int count)
      : PackedArgs(values, codes, count, 0) {}

  int size() const { return count_; }
  const TVMValue* values() const { return values_; }
  const int* codes() const { return codes_; }
  absl::StatusOr<ArgView> At(int index) const;
  // These return At(index) converted to the type that it must have.
  absl::StatusOr<std::string_view> TextAt(int index) const;
  absl::StatusOr<int64_t> IntAt(int index) const;
  // Fails with kInvalidArgument also if the number does not fit an int.
  absl::StatusOr<int> SmallIntAt(int index) const;
  absl::StatusOr<const DLTensor*> TensorAt(int index) const;
  absl::StatusOr<NDArray> ArrayAt(int index) const;
  // Reads a device from two numbers, its type and its id, as TVM's functions of
  // this runtime take it.
  absl::StatusOr<DLDevice> DeviceAt(int index) const;
  template <typename T>
  absl::StatusOr<Ref<T>> ObjectAt(int index, const char* wanted) const {
    absl::StatusOr<ArgView> arg = At(index);
    if (!arg.ok()) return std::move(arg).status();
    return arg->AsObject<T>(wanted);
  }
  // Returns the arguments from `first` on. Messages keep the numbers they have
  // in the whole call.
  PackedArgs From(int first) const {
    return {values_ + first, codes_ + first, count_ - first, skipped_ + first};
  }
  // Returns the first `count` arguments.
  PackedArgs First(int count) const {
    return {values_, codes_, count, skipped_};
  }

 private:
  PackedArgs(const TVMValue* values, const int* codes, int count, int skipped)
      : values_(values), codes_(codes), count_(count), skipped_(skipped) {}

  const TVMValue* values_;
  const int* codes_;
  int count_;
  int skipped_;  // How many arguments of the call precede these.
};

// A value that owns what it holds: what functions return.
class Value {
 public:
  struct Bytes {
    std::string data;
  };

  Value() = default;
  Value(int64_t value) : data_(value) {}                 // NOLINT: converts
  Value(int value) : data_(int64_t{value}) {}            // NOLINT
  Value(double value) : data_(value) {}                  // NOLINT
  Value(std::string value) : data_(std::move(value)) {}  // NOLINT
  Value(std::string_view value) : data_(std::string(value)) {}  // NOLINT
  Value(const char* value) : data_(std::string(value)) {}       // NOLINT
  Value(Bytes value) : data_(std::move(value)) {}               // NOLINT
  Value(NDArray value) : data_(std::move(value)) {}             // NOLINT
  Value(Ref<Object> value) : data_(std::move(value)) {}         // NOLINT
  Value(DLDataType value) : data_(value) {}                     // NOLINT
  Value(DLDevice value) : data_(value) {}                       // NOLINT
  static Value Handle(void* handle) {
    return {std::in_place_type<void*>, handle};
  }
  // A bool for hosts that know one (TVM 0.18 and later).
  static Value Bool(bool value) { return {std::in_place_type<bool>, value}; }

  bool IsNull() const { return std::holds_alternative<std::monostate>(data_); }
  template <typename T>
  const T* Get() const {
    return std::get_if<T>(&data_);
  }

  // Returns the value as an argument; valid while it lives and is unchanged.
  ArgView View() const;
  // Returns what a host prints: text in quotes, a tensor's type, numbers,
  // ToText().
  std::string ToText() const;

  // Hands the value to C. Text, bytes and types go through storage of this
  // thread and stay valid until the next such call on it; everything counted
  // is the receiver's afterwards.
  void MoveToC(TVMValue* value, int* code) &&;
  // Takes over what a C function returned. Text is copied, counted objects are
  // adopted.
  static absl::StatusOr<Value> AdoptFromC(TVMValue value, int code);
  // Copies an argument; counted objects are shared.
  static absl::StatusOr<Value> Copy(ArgView argument);

 private:
  // For types that others convert to.
  template <typename T>
  Value(std::in_place_type_t<T> type, T held) : data_(type, held) {}

  std::variant<std::monostate, bool, int64_t, double, void*, std::string, Bytes,
               NDArray, Ref<Object>, DLDataType, DLDevice>
      data_;
  // Bytes travel by a pointer to this.
  mutable TVMByteArray byte_array_{};
};

// A named part of an object.
struct Attribute {
  std::string_view name;
  Value value;
};

using PackedBody = std::function<absl::StatusOr<Value>(PackedArgs)>;

// A function with TVM's C ABI: the address to call and what to call it with.
// Compiled code and the executor's loop call it that way too.
class FunctionObject : public Object {
 public:
  std::string_view object_type() const override { return "runtime.PackedFunc"; }
  int type_code() const override { return kTVMPackedFuncHandle; }

  TVMBackendPackedCFunc address() const { return address_; }
  void* resource() const { return resource_; }

 protected:
  FunctionObject(TVMBackendPackedCFunc address, void* resource);

 private:
  // What compiled C++ calls, at the places of TvmFunction's call and of
  // TvmStdFunction's manage, which is one, and invoke.
  const void* call_or_manage_;
  const void* invoke_;
  TVMBackendPackedCFunc address_;
  void* resource_;
};

// Makes the object for a module that compiled C++ has made, taking over a count
// of its header.
using ModuleWrapper = Ref<Object> (*)(ObjectHeader* module);
// Sets what does that; without it such modules cannot be used. Thread-safe.
void SetModuleWrapper(ModuleWrapper wrapper);

// A function that may be called, or null. Copies are the same function.
class PackedFunc {
 public:
  PackedFunc() = default;
  explicit PackedFunc(Ref<FunctionObject> object)
      : object_(std::move(object)) {}

  // Makes a function of ours. An exception from `body` becomes an error.
  static PackedFunc FromBody(PackedBody body);
  // Wraps a compiled function; `owner` keeps its library loaded.
  static PackedFunc FromAddress(TVMBackendPackedCFunc address, void* resource,
                                Ref<RefCounted> owner);
  // Wraps a host's callback; `finalizer` (may be null) runs when it is dropped.
  static PackedFunc FromCallback(TVMPackedCFunc callback, void* resource,
                                 TVMPackedCFuncFinalizer finalizer);

  explicit operator bool() const { return static_cast<bool>(object_); }
  const Ref<FunctionObject>& object() const { return object_; }

  // Calls the function; fails as it does.
  absl::StatusOr<Value> CallPacked(PackedArgs args) const;
  // Calls the function with C++ values: function.Call("data", 3, tensor).
  template <typename... Args>
  absl::StatusOr<Value> Call(const Args&... args) const {
    const Value owned[] = {Value(args)..., Value()};
    return CallValues({owned, sizeof...(Args)});
  }
  absl::StatusOr<Value> CallValues(absl::Span<const Value> args) const;

 private:
  Ref<FunctionObject> object_;
};

// Finishes a call that came through C: 0 and the value, or -1 and the error.
int ReturnToC(absl::StatusOr<Value> result, TVMValue* ret, int* ret_code);

// Returns the text in quotes, with escapes for what cannot be printed.
std::string Quoted(std::string_view text);

// Returns the name of an argument type code for messages: "int", "NDArray", ...
std::string_view TypeCodeName(int code);

}  // namespace nodewise
