#include "nodewise/func/packed_func.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/tvm_object_abi.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::StatusOr<Value> CallGuarded(const PackedBody& body, PackedArgs args) {
  try {
    return body(args);
  } catch (...) {
    return StatusOfThrowingFunction();
  }
}

// A function of this runtime. Its exceptions end here, since its callers are C.
class BodyFunction final : public FunctionObject {
 public:
  explicit BodyFunction(PackedBody body)
      : FunctionObject(&Invoke, this), body_(std::move(body)) {}

 private:
  static int Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                    int* ret_code, void* self) {
    const auto* function = static_cast<BodyFunction*>(self);
    return ReturnToC(
        CallGuarded(function->body_, PackedArgs(args, codes, count)), ret,
        ret_code);
  }

  PackedBody body_;
};

// A function of a library, which is called at its own address. `owner_` keeps
// the library loaded.
class CompiledFunction final : public FunctionObject {
 public:
  CompiledFunction(TVMBackendPackedCFunc address, void* resource,
                   Ref<RefCounted> owner)
      : FunctionObject(address, resource), owner_(std::move(owner)) {}

 private:
  Ref<RefCounted> owner_;
};

// A function of the host program. What it does not set stays null.
class CallbackFunction final : public FunctionObject {
 public:
  CallbackFunction(TVMPackedCFunc callback, void* resource,
                   TVMPackedCFuncFinalizer finalizer)
      : FunctionObject(&Invoke, this),
        callback_(callback),
        resource_(resource),
        finalizer_(finalizer) {}
  ~CallbackFunction() override {
    if (finalizer_ != nullptr) finalizer_(resource_);
  }

 private:
  static int Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                    int* ret_code, void* self) {
    const auto* function = static_cast<CallbackFunction*>(self);
    Value result;  // The callback fills it by TVMCFuncSetReturn.
    const int rc =
        function->callback_(args, codes, count, &result, function->resource_);
    if (rc != 0) return rc;
    std::move(result).MoveToC(ret, ret_code);
    return 0;
  }

  TVMPackedCFunc callback_;
  void* resource_;
  TVMPackedCFuncFinalizer finalizer_;
};

// Holds the text that was last returned to C, which only borrows it: TVM keeps
// such a place for each thread, too, until the thread's next call.
struct ReturnStorage {
  std::string text;
  TVMByteArray bytes{};
};

ReturnStorage& ThisThreadsStorage() {
  thread_local ReturnStorage storage;
  return storage;
}

template <typename T>
absl::StatusOr<T> Converted(const absl::StatusOr<ArgView>& arg,
                            absl::StatusOr<T> (ArgView::*as)() const) {
  if (!arg.ok()) return arg.status();
  return ((*arg).*as)();
}

}  // namespace

int ReturnToC(absl::StatusOr<Value> result, TVMValue* ret, int* ret_code) {
  if (!result.ok()) return Report(std::move(result).status());
  (*std::move(result)).MoveToC(ret, ret_code);
  return 0;
}

// The escapes are those of C.
std::string Quoted(std::string_view text) {
  return fmt::format("\"{}\"", absl::CEscape(std::string(text)));
}

absl::Status ArgView::Mismatch(const char* wanted) const {
  std::string what(TypeCodeName(code_));
  // "object" alone would say little; the other codes say what they are.
  if (code_ == kTVMObjectHandle) {
    const Ref<Object> object = SharedObject();
    if (object) what += fmt::format(" of type {}", object->object_type());
  }
  return InvalidArgument("argument is {}, expected {}", what, wanted);
}

// TVM sends text in three forms: a C string, bytes with a length, an object of
// type runtime.String.
bool ArgView::IsText() const {
  return code_ == kTVMStr || code_ == kTVMBytes || TextObject() != nullptr;
}

// Functions that know no bool take one for a number.
absl::StatusOr<int64_t> ArgView::AsInt() const {
  if (code_ == kTVMArgInt) return value_.v_int64;
  if (code_ == kTVMArgBool) return int64_t{value_.v_int64 != 0};
  return Mismatch("int");
}

// In TVM, too, an int passes for a float, but no float for an int.
absl::StatusOr<double> ArgView::AsDouble() const {
  if (code_ == kTVMArgFloat) return value_.v_float64;
  if (code_ == kTVMArgInt) return static_cast<double>(value_.v_int64);
  return Mismatch("float");
}

absl::StatusOr<void*> ArgView::AsHandle() const {
  switch (code_) {
    case kTVMNullptr:
      return nullptr;
    case kTVMOpaqueHandle:
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle:
      return value_.v_handle;
    default:
      return Mismatch("handle");
  }
}

// TVM's hosts make a device of its own kind of value where one is an argument.
absl::StatusOr<DLDevice> ArgView::AsDevice() const {
  if (code_ == kDLDevice) return value_.v_device;
  return Mismatch("device");
}

// TVM's releases pass a type as such or as text.
absl::StatusOr<DLDataType> ArgView::AsDType() const {
  if (code_ == kTVMDataType) return value_.v_type;
  if (!IsText()) return Mismatch("type");
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, AsString());
  return ParseDType(text);
}

// Null pointers, and bytes without data, are refused.
absl::StatusOr<std::string_view> ArgView::AsString() const {
  if (code_ == kTVMStr && value_.v_str != nullptr) {
    return std::string_view(value_.v_str);
  }
  if (code_ == kTVMBytes && value_.v_handle != nullptr) {
    const auto* bytes = static_cast<const TVMByteArray*>(value_.v_handle);
    if (bytes->data != nullptr || bytes->size == 0) {
      return std::string_view(bytes->data, bytes->size);
    }
  }
  if (const TvmString* text = TextObject()) {
    return std::string_view(text->data, text->size);
  }
  return Mismatch("string");
}

// The fields come from outside, so that CheckDLTensor() looks at them before
// anything is computed from the shape.
absl::StatusOr<const DLTensor*> ArgView::AsTensor() const {
  if ((code_ != kTVMDLTensorHandle && code_ != kTVMNDArrayHandle) ||
      value_.v_handle == nullptr) {
    return Mismatch("tensor");
  }
  const auto* const tensor = static_cast<const DLTensor*>(value_.v_handle);
  NODEWISE_RETURN_IF_ERROR(CheckDLTensor(*tensor));
  return tensor;
}

// A bare DLTensor has no count, and is the caller's for as long as the call
// lasts.
absl::StatusOr<NDArray> ArgView::AsNDArray() const {
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, AsTensor());
  if (code_ == kTVMDLTensorHandle) return NDArray::Borrow(*tensor, nullptr);
  return NDArray::ShareHandle(const_cast<DLTensor*>(tensor));
}

// A reference to an rvalue is the address of a handle, which the callee may
// take; here it is shared instead.
void* ArgView::ObjectHandle() const {
  switch (code_) {
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      return value_.v_handle;
    case kTVMObjectRValueRefArg:
      if (value_.v_handle == nullptr) return nullptr;
      return *static_cast<void**>(value_.v_handle);
    default:
      return nullptr;
  }
}

// The text is read in place, also of an object that compiled C++ has made.
const TvmString* ArgView::TextObject() const {
  if (code_ != kTVMObjectHandle && code_ != kTVMObjectRValueRefArg) {
    return nullptr;
  }
  const auto* const header = static_cast<ObjectHeader*>(ObjectHandle());
  if (header == nullptr || header->type_index != kStringType) return nullptr;
  return reinterpret_cast<const TvmString*>(header);
}

Ref<Object> ArgView::SharedObject() const {
  return Object::Share(ObjectHandle(), code_);
}

// The list may have only the later arguments of a call; the message counts from
// the first argument of the call.
absl::StatusOr<ArgView> PackedArgs::At(int index) const {
  if (index < count_) return ArgView(values_[index], codes_[index]);
  return InvalidArgument(
      "not enough arguments: {} passed, argument {} is needed",
      skipped_ + count_, skipped_ + index);
}

absl::StatusOr<std::string_view> PackedArgs::TextAt(int index) const {
  return Converted(At(index), &ArgView::AsString);
}

absl::StatusOr<int64_t> PackedArgs::IntAt(int index) const {
  return Converted(At(index), &ArgView::AsInt);
}

absl::StatusOr<const DLTensor*> PackedArgs::TensorAt(int index) const {
  return Converted(At(index), &ArgView::AsTensor);
}

absl::StatusOr<NDArray> PackedArgs::ArrayAt(int index) const {
  return Converted(At(index), &ArgView::AsNDArray);
}

absl::StatusOr<int> PackedArgs::SmallIntAt(int index) const {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, IntAt(index));
  if (number >= INT32_MIN && number <= INT32_MAX) {
    return static_cast<int>(number);
  }
  return InvalidArgument("argument {} is {}, expected a 32-bit number",
                         skipped_ + index, number);
}

absl::StatusOr<DLDevice> PackedArgs::DeviceAt(int index) const {
  NODEWISE_ASSIGN_OR_RETURN(const int type, SmallIntAt(index));
  NODEWISE_ASSIGN_OR_RETURN(const int id, SmallIntAt(index + 1));
  return MakeDevice(type, id);
}

ArgView Value::View() const {
  TVMValue value{};
  const auto as = [&](auto TVMValue::*member, auto held, int code) -> ArgView {
    value.*member = held;
    return {value, code};
  };
  if (const auto* truth = Get<bool>()) {
    return as(&TVMValue::v_int64, int64_t{*truth}, kTVMArgBool);
  }
  if (const auto* number = Get<int64_t>()) {
    return as(&TVMValue::v_int64, *number, kTVMArgInt);
  }
  if (const auto* number = Get<double>()) {
    return as(&TVMValue::v_float64, *number, kTVMArgFloat);
  }
  if (const auto* handle = Get<void*>()) {
    return as(&TVMValue::v_handle, *handle, kTVMOpaqueHandle);
  }
  if (const auto* text = Get<std::string>()) {
    return as(&TVMValue::v_str, text->c_str(), kTVMStr);
  }
  if (const auto* bytes = Get<Bytes>()) {
    byte_array_ = {bytes->data.data(), bytes->data.size()};
    return as(&TVMValue::v_handle, &byte_array_, kTVMBytes);
  }
  if (const auto* dtype = Get<DLDataType>()) {
    return as(&TVMValue::v_type, *dtype, kTVMDataType);
  }
  if (const auto* device = Get<DLDevice>()) {
    return as(&TVMValue::v_device, *device, kDLDevice);
  }
  if (const auto* array = Get<NDArray>(); array && array->defined()) {
    return as(&TVMValue::v_handle, array->tensor(), kTVMNDArrayHandle);
  }
  if (const auto* object = Get<Ref<Object>>(); object && *object) {
    return as(&TVMValue::v_handle, (*object)->handle(), (*object)->type_code());
  }
  return {value, kTVMNullptr};
}

// The words are Python's, whose users read them.
std::string Value::ToText() const {
  if (const auto* truth = Get<bool>()) return *truth ? "True" : "False";
  if (const auto* number = Get<int64_t>()) return absl::StrCat(*number);
  if (const auto* number = Get<double>()) return absl::StrCat(*number);
  if (const auto* text = Get<std::string>()) return Quoted(*text);
  if (const auto* bytes = Get<Bytes>()) return Quoted(bytes->data);
  if (const auto* dtype = Get<DLDataType>()) return ToString(*dtype);
  if (const auto* device = Get<DLDevice>()) return ToString(*device);
  if (const auto* handle = Get<void*>()) {
    return *handle == nullptr ? "(nil)" : fmt::format("{}", *handle);
  }
  if (const auto* array = Get<NDArray>(); array && array->defined()) {
    return TypeToString(array->shape(), array->dtype());
  }
  if (const auto* object = Get<Ref<Object>>(); object && *object) {
    return (*object)->ToText();
  }
  return "None";
}

// TVM's own functions return a type as text, which hosts parse.
void Value::MoveToC(TVMValue* value, int* code) && {
  const ArgView view = View();
  *value = view.value();
  *code = view.code();
  ReturnStorage& storage = ThisThreadsStorage();
  if (auto* text = std::get_if<std::string>(&data_)) {
    storage.text = std::move(*text);
    value->v_str = storage.text.c_str();
  } else if (const auto* dtype = Get<DLDataType>()) {
    storage.text = ToString(*dtype);
    value->v_str = storage.text.c_str();
    *code = kTVMStr;
  } else if (auto* bytes = std::get_if<Bytes>(&data_)) {
    storage.text = std::move(bytes->data);
    storage.bytes = {storage.text.data(), storage.text.size()};
    value->v_handle = &storage.bytes;
  } else if (auto* array = std::get_if<NDArray>(&data_)) {
    array->LeakHandle();
  } else if (const auto* object = Get<Ref<Object>>(); object && *object) {
    Object::ToHandle(*object);
  }
  data_ = std::monostate();
}

// Counted objects come with a count for the receiver; all else is borrowed and
// copied.
absl::StatusOr<Value> Value::AdoptFromC(TVMValue value, int code) {
  switch (code) {
    case kTVMNDArrayHandle:
      return Value(
          NDArray::AdoptHandle(static_cast<DLTensor*>(value.v_handle)));
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      return Value(Object::Adopt(value.v_handle, code));
    default:
      return Copy(ArgView(value, code));
  }
}

absl::StatusOr<Value> Value::Copy(ArgView argument) {
  const TVMValue value = argument.value();
  switch (argument.code()) {
    case kTVMArgInt:
      return Value(value.v_int64);
    case kTVMArgBool:
      return Bool(value.v_int64 != 0);
    case kTVMArgFloat:
      return Value(value.v_float64);
    case kTVMOpaqueHandle:
      return Handle(value.v_handle);
    case kTVMNullptr:
      return Value();
    case kTVMDataType:
      return Value(value.v_type);
    case kDLDevice:
      return Value(value.v_device);
    case kTVMStr:
      return argument.AsString();
    case kTVMBytes: {
      NODEWISE_ASSIGN_OR_RETURN(const std::string_view text,
                                argument.AsString());
      return Value(Bytes{std::string(text)});
    }
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle:
      return argument.AsNDArray();
    default:
      return argument.AsObject<Object>("a value to return");
  }
}

PackedFunc PackedFunc::FromBody(PackedBody body) {
  return PackedFunc(MakeRef<BodyFunction>(std::move(body)));
}

PackedFunc PackedFunc::FromAddress(TVMBackendPackedCFunc address,
                                   void* resource, Ref<RefCounted> owner) {
  return PackedFunc(
      MakeRef<CompiledFunction>(address, resource, std::move(owner)));
}

PackedFunc PackedFunc::FromCallback(TVMPackedCFunc callback, void* resource,
                                    TVMPackedCFuncFinalizer finalizer) {
  return PackedFunc(MakeRef<CallbackFunction>(callback, resource, finalizer));
}

// An error that was left before must not be taken for this function's.
absl::StatusOr<Value> PackedFunc::CallPacked(PackedArgs args) const {
  NODEWISE_CHECK(object_);
  TVMValue ret{};
  int ret_code = kTVMNullptr;
  DropLastError();
  // The ABI takes the arrays as mutable; no function writes to them.
  const int rc = object_->address()(const_cast<TVMValue*>(args.values()),
                                    const_cast<int*>(args.codes()), args.size(),
                                    &ret, &ret_code, object_->resource());
  if (rc != 0) return TakeLastError();
  return Value::AdoptFromC(ret, ret_code);
}

absl::StatusOr<Value> PackedFunc::CallValues(
    absl::Span<const Value> args) const {
  std::vector<TVMValue> values;
  std::vector<int> codes;
  for (const Value& arg : args) {
    const ArgView view = arg.View();
    values.push_back(view.value());
    codes.push_back(view.code());
  }
  return CallPacked(
      PackedArgs(values.data(), codes.data(), static_cast<int>(args.size())));
}

// In the order of TVMArgTypeCode.
std::string_view TypeCodeName(int code) {
  constexpr std::string_view kNames[] = {
      "int",      "uint",   "float",  "handle",  "null",
      "type",     "device", "tensor", "object",  "module",
      "function", "string", "bytes",  "NDArray", "object reference",
      "bool"};
  if (code < 0 || code >= static_cast<int>(std::size(kNames))) {
    return "of an unknown type";
  }
  return kNames[code];
}

}  // namespace nodewise
