#include "nodewise/func/ffi_function.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// How TVM-FFI counts: strong references in the low half of the word, weak ones
// above, of which all strong ones together hold one. Its deleter is told in
// flags whether to destroy the content, to free the memory, or both.
constexpr uint64_t kStrongOne = 1;
constexpr uint64_t kWeakOne = uint64_t{1} << 32;
constexpr uint64_t kStrongMask = kWeakOne - 1;
constexpr int kDestroy = 1;
constexpr int kFree = 2;
constexpr uint32_t kMostSmallText = 7;

// Kinds of values with the same layout in both unions. A borrowed one is the
// caller's and can be an argument, but not a result.
struct PlainKind {
  int type_index;
  int code;
  bool is_borrowed = false;
};
constexpr PlainKind kPlainKinds[] = {
    {kTVMFFINone, kTVMNullptr},
    {kTVMFFIInt, kTVMArgInt},
    {kTVMFFIBool, kTVMArgBool},
    {kTVMFFIFloat, kTVMArgFloat},
    {kTVMFFIOpaquePtr, kTVMOpaqueHandle},
    {kTVMFFIDataType, kTVMDataType},
    {kTVMFFIDevice, kDLDevice},
    {kTVMFFIRawStr, kTVMStr, true},
    {kTVMFFIByteArrayPtr, kTVMBytes, true},
};

const PlainKind* PlainKindWith(int PlainKind::*member, int number) {
  for (const PlainKind& kind : kPlainKinds) {
    if (kind.*member == number) return &kind;
  }
  return nullptr;
}

TVMFFIAny Any(int32_t type_index) { return {type_index, 0, {0}}; }

template <typename T>
const T* CellOf(const TVMFFIObject* object) {
  return reinterpret_cast<const T*>(object + 1);
}

std::string TextOf(const TVMFFIObject* object) {
  const auto* const text = CellOf<TVMFFIByteArray>(object);
  return std::string(text->data, text->size);
}

void Release(TVMFFIObject* object) {
  std::atomic_ref<uint64_t> counts(object->counts);
  const uint64_t before = counts.fetch_sub(kStrongOne);
  if (object->deleter == nullptr) return;
  if (before == kStrongOne + kWeakOne) {
    object->deleter(object, kDestroy | kFree);
  } else if ((before & kStrongMask) == kStrongOne) {
    object->deleter(object, kDestroy);
    if (counts.fetch_sub(kWeakOne) >> 32 == 1) object->deleter(object, kFree);
  }
}

// Text for TVM-FFI code, which frees it.
struct TextObject {
  TVMFFIObject head;
  TVMFFIByteArray bytes;
  std::string text;

  static TVMFFIObject* Make(std::string_view text, int32_t type_index) {
    auto* const object = new TextObject{
        {kStrongOne + kWeakOne, type_index, 0, &Delete}, {}, std::string(text)};
    object->bytes = {object->text.data(), object->text.size()};
    return &object->head;
  }

 private:
  static void Delete(void* self, int flags) {
    if ((flags & kFree) != 0) delete static_cast<TextObject*>(self);
  }
};

absl::Status NoSuchForm(std::string_view what) {
  return InvalidArgument(
      "{} cannot pass between this runtime and a TVM-FFI library, expected a "
      "number, null, a pointer, a type, a device, text or a tensor",
      what);
}

// Only the kinds that a user may meet have a name here.
std::string NameOfType(int32_t type_index) {
  switch (type_index) {
    case kTVMFFIError:
      return "an error";
    case kTVMFFIFunction:
      return "a function";
    case kTVMFFIShape:
      return "a shape";
    case kTVMFFIArray:
      return "an array";
    case kTVMFFIMap:
      return "a map";
    case kTVMFFIModule:
      return "a module";
    default:
      return fmt::format("a value of type {}", type_index);
  }
}

// The length comes from the other side, and may be any number.
std::string_view SmallText(const TVMFFIAny& value) {
  return {value.v_bytes, std::min(value.small_len, kMostSmallText)};
}

// Up to seven bytes fit in the value itself and need no object.
void SetText(std::string_view text, int32_t small, int32_t large,
             TVMFFIAny* result) {
  if (text.size() > kMostSmallText) {
    *result = Any(large);
    result->v_ptr = TextObject::Make(text, large);
    return;
  }
  *result = Any(small);
  result->small_len = static_cast<uint32_t>(text.size());
  std::memcpy(result->v_bytes, text.data(), text.size());
}

absl::StatusOr<Value> ValueOfObject(TVMFFIObject* object) {
  const std::shared_ptr<TVMFFIObject> owner(object, &Release);
  switch (object->type_index) {
    case kTVMFFIStr:
      return Value(TextOf(object));
    case kTVMFFIBytes:
      return Value(Value::Bytes{TextOf(object)});
    case kTVMFFITensor: {
      DLTensor tensor = *CellOf<DLTensor>(object);
      NODEWISE_RETURN_IF_ERROR(At("result", CheckDLTensor(tensor)));
      if (tensor.dtype == kFfiBool) tensor.dtype = kBool;
      return Value(NDArray::Borrow(tensor, owner));
    }
    default:
      return NoSuchForm(NameOfType(object->type_index));
  }
}

const DLTensor* WithType(const DLTensor* tensor, DLDataType type,
                         std::deque<DLTensor>* copies) {
  if (tensor->dtype == type) return tensor;
  copies->push_back(*tensor);
  copies->back().dtype = type;
  return &copies->back();
}

// The arguments of a classic call in TVM-FFI's form. Borrows the originals.
class FfiArguments {
 public:
  // Fails with kInvalidArgument, with the number of the argument that has no
  // such form.
  absl::Status Set(PackedArgs args) {
    values_.reserve(static_cast<size_t>(args.size()));
    for (int i = 0; i < args.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
      NODEWISE_RETURN_IF_ERROR(At(fmt::format("argument {}", i), Add(arg)));
    }
    return absl::OkStatus();
  }

  const TVMFFIAny* data() const { return values_.data(); }
  int32_t size() const { return static_cast<int32_t>(values_.size()); }

 private:
  absl::Status Add(ArgView arg) {
    if (arg.code() == kTVMDLTensorHandle || arg.code() == kTVMNDArrayHandle) {
      AddTensor(static_cast<const DLTensor*>(arg.value().v_handle));
      return absl::OkStatus();
    }
    TVMFFIAny any = Any(kTVMFFINone);
    if (const auto* kind = PlainKindWith(&PlainKind::code, arg.code())) {
      any.type_index = kind->type_index;
      if (!arg.IsNull()) any.v_int64 = arg.value().v_int64;
    } else if (arg.IsText()) {
      NODEWISE_ASSIGN_OR_RETURN(const std::string_view text, arg.AsString());
      any.type_index = kTVMFFIRawStr;  // A string object's text ends with a 0.
      any.v_c_str = text.data();
    } else {
      return NoSuchForm(TypeCodeName(arg.code()));
    }
    values_.push_back(any);
    return absl::OkStatus();
  }

  void AddTensor(const DLTensor* tensor) {
    if (tensor != nullptr) {
      tensor = WithType(tensor, FfiType(tensor->dtype), &renumbered_);
    }
    values_.push_back(
        Any(tensor == nullptr ? kTVMFFINone : kTVMFFIDLTensorPtr));
    values_.back().v_ptr = const_cast<DLTensor*>(tensor);
  }

  std::vector<TVMFFIAny> values_;
  // Copies of tensors whose type has another code in TVM-FFI. A deque leaves
  // its items where they are when it grows, and the arguments point to them.
  std::deque<DLTensor> renumbered_;
};

// The arguments of a TVM-FFI call in classic form. Borrows the originals.
class PackedArguments {
 public:
  absl::Status Set(const TVMFFIAny* args, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      NODEWISE_RETURN_IF_ERROR(At(fmt::format("argument {}", i), Add(args[i])));
    }
    return absl::OkStatus();
  }

  PackedArgs args() const {
    return {values_.data(), codes_.data(), static_cast<int>(values_.size())};
  }

 private:
  absl::Status Add(const TVMFFIAny& arg) {
    if (const auto* kind =
            PlainKindWith(&PlainKind::type_index, arg.type_index)) {
      TVMValue value{};
      if (kind->code != kTVMNullptr) value.v_int64 = arg.v_int64;
      Add(value, kind->code);
      return absl::OkStatus();
    }
    switch (arg.type_index) {
      case kTVMFFIDLTensorPtr:
        AddTensor(static_cast<DLTensor*>(arg.v_ptr));
        return absl::OkStatus();
      case kTVMFFISmallStr:
        AddText(std::string(SmallText(arg)), kTVMStr);
        return absl::OkStatus();
      case kTVMFFISmallBytes:
        AddText(std::string(SmallText(arg)), kTVMBytes);
        return absl::OkStatus();
      case kTVMFFIObjectRValueRef: {
        // The callee might take the object out; we only look at it.
        const auto* object = *static_cast<TVMFFIObject**>(arg.v_ptr);
        return AddObject(object->type_index, object);
      }
      default:
        return AddObject(arg.type_index, static_cast<TVMFFIObject*>(arg.v_ptr));
    }
  }

  absl::Status AddObject(int32_t type_index, const TVMFFIObject* object) {
    if (type_index == kTVMFFIStr || type_index == kTVMFFIBytes) {
      AddText(TextOf(object), type_index == kTVMFFIStr ? kTVMStr : kTVMBytes);
    } else if (type_index == kTVMFFITensor) {
      AddTensor(CellOf<DLTensor>(object));
    } else {
      return NoSuchForm(NameOfType(type_index));
    }
    return absl::OkStatus();
  }

  void AddTensor(const DLTensor* tensor) {
    if (tensor != nullptr && tensor->dtype == kFfiBool) {
      tensor = WithType(tensor, kBool, &renumbered_);
    }
    TVMValue value{};
    value.v_handle = const_cast<DLTensor*>(tensor);
    Add(value, tensor == nullptr ? kTVMNullptr : kTVMDLTensorHandle);
  }

  // The classic convention ends its text with a 0, which TVM-FFI's need not
  // have: it is copied.
  void AddText(std::string text, int code) {
    texts_.push_back(std::move(text));
    TVMValue value{};
    value.v_str = texts_.back().c_str();
    if (code == kTVMBytes) {
      bytes_.push_back({texts_.back().data(), texts_.back().size()});
      value.v_handle = &bytes_.back();
    }
    Add(value, code);
  }

  void Add(TVMValue value, int code) {
    values_.push_back(value);
    codes_.push_back(code);
  }

  std::vector<TVMValue> values_;
  std::vector<int> codes_;
  // What the arguments point to stays in place while the deques grow.
  std::deque<std::string> texts_;
  std::deque<TVMByteArray> bytes_;
  std::deque<DLTensor> renumbered_;
};

absl::StatusOr<Value> ValueOfFfi(TVMFFIAny result) {
  // Hosts before TVM 0.18 know no bool, so it becomes a number.
  if (result.type_index == kTVMFFIBool) return int64_t{result.v_int64 != 0};
  const PlainKind* const kind =
      PlainKindWith(&PlainKind::type_index, result.type_index);
  if (kind != nullptr && !kind->is_borrowed) {
    TVMValue value{};
    value.v_int64 = result.v_int64;
    return Value::Copy(ArgView(value, kind->code));
  }
  switch (result.type_index) {
    case kTVMFFIRawStr:
      return Value(result.v_c_str);
    case kTVMFFISmallStr:
      return Value(SmallText(result));
    case kTVMFFISmallBytes:
      return Value(Value::Bytes{std::string(SmallText(result))});
    default:
      if (result.type_index < kTVMFFIStaticObjectBegin) {
        return NoSuchForm(NameOfType(result.type_index));
      }
      return ValueOfObject(static_cast<TVMFFIObject*>(result.v_ptr));
  }
}

// The receiver owns a counted object in `result`.
absl::Status ValueToFfi(const Value& value, TVMFFIAny* result) {
  if (const auto* text = value.Get<std::string>()) {
    SetText(*text, kTVMFFISmallStr, kTVMFFIStr, result);
    return absl::OkStatus();
  }
  if (const auto* bytes = value.Get<Value::Bytes>()) {
    SetText(bytes->data, kTVMFFISmallBytes, kTVMFFIBytes, result);
    return absl::OkStatus();
  }
  *result = Any(kTVMFFINone);
  const ArgView view = value.View();
  const PlainKind* const kind = PlainKindWith(&PlainKind::code, view.code());
  if (kind == nullptr || kind->is_borrowed) {
    return At("result", NoSuchForm(TypeCodeName(view.code())));
  }
  result->type_index = kind->type_index;
  result->v_int64 = view.value().v_int64;
  return absl::OkStatus();
}

// This runtime must not have a function of the first name: where one is found,
// TVM's own runtime is loaded.
constexpr char kMoveFromRaised[] = "TVMFFIErrorMoveFromRaised";
constexpr char kSetRaised[] = "TVMFFIErrorSetRaisedFromCStr";

// TVM's Python package chooses its exception by the kind.
absl::Status ErrorOf(std::string_view kind, std::string_view message) {
  if (kind.empty()) return absl::InternalError(std::string(message));
  return Internal("{}: {}", kind, message);
}

// Takes an error from TVM's own runtime, which forgets it; OK if there is none.
absl::Status TakeFromTvmFfi() {
  void* const address = dlsym(RTLD_DEFAULT, kMoveFromRaised);
  if (address == nullptr) return absl::OkStatus();
  void* error = nullptr;
  reinterpret_cast<void (*)(void**)>(address)(&error);
  if (error == nullptr) return absl::OkStatus();
  auto* const object = static_cast<TVMFFIObject*>(error);
  const auto* cell = CellOf<TVMFFIErrorCell>(object);
  absl::Status status = ErrorOf({cell->kind.data, cell->kind.size},
                                {cell->message.data, cell->message.size});
  Release(object);
  return status;
}

// If TVM's own runtime was loaded after us, the libraries that it loads raise
// their errors here, while that runtime looks for them in itself.
void PassOnToTvmFfi(const char* kind, const char* message) {
  thread_local bool is_inside = false;
  if (is_inside) return;
  void* const address = FindInTvmFfi(kSetRaised);
  if (address == nullptr ||
      address == reinterpret_cast<void*>(&TVMFFIErrorSetRaisedFromCStr)) {
    return;
  }
  is_inside = true;
  reinterpret_cast<decltype(&TVMFFIErrorSetRaisedFromCStr)>(address)(kind,
                                                                     message);
  is_inside = false;
}

void Raise(const char* kind, const char* message) {
  SetLastError(ErrorOf(kind != nullptr ? kind : "", message));
  PassOnToTvmFfi(kind != nullptr ? kind : "", message);
}

}  // namespace

void DropFfiResult(TVMFFIAny* result) {
  Release(static_cast<TVMFFIObject*>(result->v_ptr));
  *result = Any(kTVMFFINone);
}

// `self` is null for compiled functions, which take no notice of it.
PackedFunc FfiFunction::Make(TVMFFISafeCallType address, void* self,
                             Ref<RefCounted> owner) {
  return PackedFunc(MakeRef<FfiFunction>(address, self, std::move(owner)));
}

FfiFunction::FfiFunction(TVMFFISafeCallType address, void* self,
                         Ref<RefCounted> owner)
    : FunctionObject(&Invoke, this),
      safe_call_(address),
      self_(self),
      owner_(std::move(owner)) {}

absl::StatusOr<Value> FfiFunction::Call(PackedArgs args) const {
  FfiArguments converted;
  NODEWISE_RETURN_IF_ERROR(converted.Set(args));
  TVMFFIAny result = Any(kTVMFFINone);
  DropLastError();
  const int rc = safe_call_(self_, converted.data(), converted.size(), &result);
  if (rc != 0) return TakeFfiError();
  return ValueOfFfi(result);
}

int FfiFunction::Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                        int* ret_code, void* self) {
  return ReturnToC(
      static_cast<const FfiFunction*>(self)->Call({args, codes, count}), ret,
      ret_code);
}

FfiClosure::FfiClosure(Ref<FunctionObject> function)
    : object_{{}, {&Invoke, nullptr}, this}, function_(std::move(function)) {
  // Never freed by its count: the code that holds it does not count.
  object_.head = {kStrongOne + kWeakOne, kTVMFFIFunction, 0, nullptr};
}

absl::StatusOr<Value> FfiClosure::Call(const TVMFFIAny* args,
                                       int32_t count) const {
  PackedArguments converted;
  NODEWISE_RETURN_IF_ERROR(converted.Set(args, count));
  return PackedFunc(function_).CallPacked(converted.args());
}

int FfiClosure::Invoke(void* self, const TVMFFIAny* args, int32_t count,
                       TVMFFIAny* result) {
  const FfiClosure* closure = static_cast<FunctionHead*>(self)->owner;
  // A function of TVM-FFI's convention takes the arguments as they are.
  if (const auto* ffi =
          dynamic_cast<const FfiFunction*>(closure->function_.get())) {
    return ffi->safe_call()(ffi->self(), args, count, result);
  }
  const absl::StatusOr<Value> value = closure->Call(args, count);
  return Report(value.ok() ? ValueToFfi(*value, result) : value.status());
}

void* FindInTvmFfi(std::string_view symbol) {
  void* const address = dlsym(RTLD_DEFAULT, kMoveFromRaised);
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return nullptr;
  // The handle is needed: by name alone we would find our own symbols.
  void* const handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, std::string(symbol).c_str());
  dlclose(handle);
  return found;
}

absl::Status TakeFfiError() {
  // Taken even if our own error counts: an error that is left there would be
  // reported for a later failure.
  absl::Status theirs = TakeFromTvmFfi();
  if (HasLastError() || theirs.ok()) return TakeLastError();
  return theirs;
}

}  // namespace nodewise

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  nodewise::Raise(kind, message != nullptr ? message : "");
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                       int32_t num_parts) {
  std::string message;
  if (parts == nullptr) num_parts = 0;
  for (int32_t i = 0; i < num_parts; ++i) {
    if (parts[i] != nullptr) message += parts[i];
  }
  nodewise::Raise(kind, message.c_str());
}
