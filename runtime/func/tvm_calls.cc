#include "runtime/func/tvm_calls.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>

#include "nodewise/func/c_call.h"
#include "nodewise/func/last_error.h"
#include "nodewise/support/status_macros.h"

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

// --- compiled C++ calls us --------------------------------------------------

// Where compiled C++ holds one of our functions: its header, or the storage of
// a std::function that Manage() filled: the header's address, and that of the
// deleter, which is in the header at that place, too.
FunctionObject* FunctionIn(const void* place) {
  auto* header = static_cast<ObjectHeader*>(const_cast<void*>(place));
  if (header->type_index != kFunctionType) {
    header = *static_cast<ObjectHeader* const*>(place);
  }
  return static_cast<FunctionObject*>(Object::OfHandle(header));
}

bool Manage(TvmStdFunction::Storage* to, const TvmStdFunction::Storage* from,
            int operation) {
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
// its std::function. The second argument tells who calls: that of a manager is
// a place of a function, whose second word is our deleter; that of a call is
// the result, whose second word is a type code. (Its third argument is on the
// stack, which is why this cannot be said in C++.)
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

void Drop(TvmRetValue* result) {
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

void Call(const FunctionObject& function, TvmArgs args, TvmRetValue* result) {
  Drop(result);
  const PackedFunc callee(
      Ref<FunctionObject>(const_cast<FunctionObject*>(&function)));
  absl::StatusOr<Value> value =
      callee.CallPacked(PackedArgs(args.values, args.codes, args.count));
  if (!value.ok()) {
    // The caller's language, and all that its convention has for errors.
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

void InvokeStdFunction(const TvmStdFunction::Storage* place, TvmArgs* args,
                       TvmRetValue** result) {
  Call(*FunctionIn(place), *args, *result);
  if ((*result)->code != kTVMPackedFuncHandle) return;
  // TVM 0.8 deletes a function that it was returned.
  const auto* ours = static_cast<TvmStdFunction*>((*result)->value.v_handle);
  auto* const copy = new TvmStdFunction(*ours);
  copy->storage.words[0] = (*result)->value.v_handle;
  copy->storage.words[1] = reinterpret_cast<void*>(&DeleteObject);
  (*result)->value.v_handle = copy;
}

// --- we call compiled C++ ---------------------------------------------------

// Takes over what a function of TVM's has returned.
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

// A function of compiled C++ as one of ours.
template <typename Callee>
class TvmCallee final : public FunctionObject {
 public:
  explicit TvmCallee(Callee callee)
      : FunctionObject(&Invoke, this), callee_(std::move(callee)) {}

 private:
  static int Invoke(TVMValue* args, int* codes, int count, TVMValue* ret,
                    int* ret_code, void* self) {
    TvmRetValue result{{}, kTVMNullptr};
    try {
      static_cast<TvmCallee*>(self)->callee_({args, codes, count}, &result);
    } catch (...) {
      return Report(absl::InternalError("the function " + TextOfException()));
    }
    absl::StatusOr<Value> value = TakeResult(&result);
    if (!value.ok()) return Report(value.status());
    (*std::move(value)).MoveToC(ret, ret_code);
    return 0;
  }

  Callee callee_;
};

// Holds a count of a function of TVM 0.9 and later.
class ObjectCallee {
 public:
  explicit ObjectCallee(TvmFunction* function) : function_(function) {}
  ObjectCallee(ObjectCallee&& other) noexcept
      : function_(std::exchange(other.function_, nullptr)) {}
  ~ObjectCallee() {
    if (function_ != nullptr) function_->header.Release();
  }

  void operator()(TvmArgs args, TvmRetValue* result) const {
    function_->call(function_, args, result);
  }

 private:
  TvmFunction* function_;
};

// Owns a function of TVM 0.8.
class StdCallee {
 public:
  explicit StdCallee(TvmStdFunction* function) : function_(function) {}
  StdCallee(StdCallee&& other) noexcept
      : function_(std::exchange(other.function_, nullptr)) {}
  ~StdCallee() {
    if (function_ == nullptr) return;
    function_->manage(&function_->storage, &function_->storage,
                      TvmStdFunction::kDestroy);
    ::operator delete(function_);
  }

  void operator()(TvmArgs args, TvmRetValue* result) const {
    function_->invoke(&function_->storage, &args, &result);
  }

 private:
  TvmStdFunction* function_;
};

}  // namespace

FunctionObject::FunctionObject(TVMBackendPackedCFunc address, void* resource)
    : Object(kFunctionType),
      call_or_manage_(reinterpret_cast<const void*>(kCallOrManage)),
      invoke_(reinterpret_cast<const void*>(&InvokeStdFunction)),
      address_(address),
      resource_(resource) {}

Ref<FunctionObject> AdoptTvmFunction(TvmFunction* function) {
  return MakeRef<TvmCallee<ObjectCallee>>(ObjectCallee(function));
}

Ref<FunctionObject> AdoptTvmFunction(TvmStdFunction* function) {
  return MakeRef<TvmCallee<StdCallee>>(StdCallee(function));
}

}  // namespace nodewise

bool nodewise_manage_function(nodewise::TvmStdFunction::Storage* to,
                              const nodewise::TvmStdFunction::Storage* from,
                              int operation) {
  return nodewise::Manage(to, from, operation);
}

void nodewise_call_function(const void* place, nodewise::TvmArgs args,
                            nodewise::TvmRetValue* result) {
  nodewise::Call(*nodewise::FunctionIn(place), args, result);
}
