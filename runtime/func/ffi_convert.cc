#include "runtime/func/ffi_convert.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr uint64_t kStrongOne = 1;
constexpr uint64_t kWeakOne = uint64_t{1} << 32;
constexpr uint64_t kStrongMask = kWeakOne - 1;
constexpr int kDestroy = 1;
constexpr int kFree = 2;
constexpr uint32_t kMostSmallText = 7;

// Kinds of values with the same layout in both unions; the last two are
// borrowed.
struct PlainKind {
  int32_t type_index;
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

const PlainKind* PlainByCode(int code) {
  for (const PlainKind& kind : kPlainKinds) {
    if (kind.code == code) return &kind;
  }
  return nullptr;
}

const PlainKind* PlainByTypeIndex(int32_t type_index) {
  for (const PlainKind& kind : kPlainKinds) {
    if (kind.type_index == type_index) return &kind;
  }
  return nullptr;
}

TVMFFIAny Any(int32_t type_index) { return {type_index, 0, {0}}; }

// Returns the part of an object after its head.
template <typename T>
T* CellOf(TVMFFIObject* object) {
  return reinterpret_cast<T*>(object + 1);
}
template <typename T>
const T* CellOf(const TVMFFIObject* object) {
  return reinterpret_cast<const T*>(object + 1);
}

// Drops one strong count, by TVM-FFI's rules.
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
  return absl::InvalidArgumentError(fmt::format(
      "{} cannot pass between this runtime and a TVM-FFI library, expected a "
      "number, null, a pointer, a type, a device, text or a tensor",
      what));
}

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

std::string_view SmallText(const TVMFFIAny& value) {
  return {value.v_bytes, std::min(value.small_len, kMostSmallText)};
}

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
    case kTVMFFIStr: {
      const auto* text = CellOf<TVMFFIByteArray>(object);
      return Value(std::string(text->data, text->size));
    }
    case kTVMFFIBytes: {
      const auto* bytes = CellOf<TVMFFIByteArray>(object);
      return Value(Value::Bytes{std::string(bytes->data, bytes->size)});
    }
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

}  // namespace

absl::Status FfiArguments::Set(PackedArgs args) {
  values_.reserve(static_cast<size_t>(args.size()));
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_RETURN_IF_ERROR(At(fmt::format("argument {}", i), Add(arg)));
  }
  return absl::OkStatus();
}

void FfiArguments::AddTensor(const DLTensor* tensor) {
  if (tensor != nullptr && !(FfiType(tensor->dtype) == tensor->dtype)) {
    renumbered_.push_back(*tensor);
    renumbered_.back().dtype = FfiType(tensor->dtype);
    tensor = &renumbered_.back();
  }
  values_.push_back(Any(tensor == nullptr ? kTVMFFINone : kTVMFFIDLTensorPtr));
  values_.back().v_ptr = const_cast<DLTensor*>(tensor);
}

absl::Status FfiArguments::Add(ArgView arg) {
  if (arg.code() == kTVMDLTensorHandle || arg.code() == kTVMNDArrayHandle) {
    AddTensor(static_cast<const DLTensor*>(arg.value().v_handle));
    return absl::OkStatus();
  }
  TVMFFIAny any = Any(kTVMFFINone);
  if (const PlainKind* kind = PlainByCode(arg.code())) {
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

absl::Status PackedArguments::Set(const TVMFFIAny* args, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    NODEWISE_RETURN_IF_ERROR(At(fmt::format("argument {}", i), Add(args[i])));
  }
  return absl::OkStatus();
}

void PackedArguments::Add(TVMValue value, int code) {
  values_.push_back(value);
  codes_.push_back(code);
}

void PackedArguments::AddTensor(DLTensor* tensor) {
  if (tensor != nullptr && tensor->dtype == kFfiBool) {
    renumbered_.push_back(*tensor);
    renumbered_.back().dtype = kBool;
    tensor = &renumbered_.back();
  }
  TVMValue value{};
  value.v_handle = tensor;
  Add(value, tensor == nullptr ? kTVMNullptr : kTVMDLTensorHandle);
}

void PackedArguments::AddText(std::string text, int code) {
  texts_.push_back(std::move(text));
  TVMValue value{};
  value.v_str = texts_.back().c_str();
  if (code == kTVMBytes) {
    bytes_.push_back({texts_.back().data(), texts_.back().size()});
    value.v_handle = &bytes_.back();
  }
  Add(value, code);
}

absl::Status PackedArguments::Add(const TVMFFIAny& arg) {
  if (const PlainKind* kind = PlainByTypeIndex(arg.type_index)) {
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
      const auto* object = *static_cast<TVMFFIObject**>(arg.v_ptr);
      return AddObject(object->type_index, object);
    }
    default:
      return AddObject(arg.type_index, static_cast<TVMFFIObject*>(arg.v_ptr));
  }
}

absl::Status PackedArguments::AddObject(int32_t type_index,
                                        const TVMFFIObject* object) {
  switch (type_index) {
    case kTVMFFIStr:
    case kTVMFFIBytes: {
      const auto* text = CellOf<TVMFFIByteArray>(object);
      AddText(std::string(text->data, text->size),
              type_index == kTVMFFIStr ? kTVMStr : kTVMBytes);
      return absl::OkStatus();
    }
    case kTVMFFITensor:
      AddTensor(const_cast<DLTensor*>(CellOf<DLTensor>(object)));
      return absl::OkStatus();
    default:
      return NoSuchForm(NameOfType(type_index));
  }
}

absl::StatusOr<Value> ValueOfFfi(TVMFFIAny result) {
  switch (result.type_index) {
    case kTVMFFINone:
      return Value();
    case kTVMFFIInt:
      return Value(result.v_int64);
    case kTVMFFIBool:
      return Value(int64_t{result.v_int64 != 0});
    case kTVMFFIFloat:
      return Value(result.v_float64);
    case kTVMFFIOpaquePtr:
      return Value::Handle(result.v_ptr);
    case kTVMFFIDataType:
      return Value(result.v_dtype);
    case kTVMFFIDevice:
      return Value(result.v_device);
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
  const PlainKind* const kind = PlainByCode(view.code());
  if (kind == nullptr || kind->is_borrowed) {
    return At("result", NoSuchForm(TypeCodeName(view.code())));
  }
  result->type_index = kind->type_index;
  result->v_int64 = view.value().v_int64;
  return absl::OkStatus();
}

void DropFfiResult(TVMFFIAny* result) {
  Release(static_cast<TVMFFIObject*>(result->v_ptr));
  *result = Any(kTVMFFINone);
}

}  // namespace nodewise
