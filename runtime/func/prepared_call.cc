#include "nodewise/runtime/prepared_call.h"

#include <algorithm>
#include <new>
#include <utility>

#include "nodewise/runtime/last_error.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

constexpr size_t kBlockBytes = 1 << 16;
constexpr size_t kAlignment = alignof(TVMFFIAny);

// A tensor of kBool and what the function is shown instead.
struct BoolTensor {
  const DLTensor* tensor;
  DLTensor shown;
};

// Stands in for a function that wants its bools as kFfiBool. The tensors move
// (another plan, another input), so what is shown follows them at each call.
struct BoolCall {
  TVMFFISafeCallType safe_call;
  void* self;
  BoolTensor* tensors;
  size_t num_tensors;

  static int Run(void* self, const TVMFFIAny* args, int32_t count,
                 TVMFFIAny* result) {
    const auto* call = static_cast<const BoolCall*>(self);
    for (size_t i = 0; i < call->num_tensors; ++i) {
      BoolTensor& tensor = call->tensors[i];
      tensor.shown = *tensor.tensor;
      tensor.shown.dtype = kFfiBool;
    }
    return call->safe_call(call->self, args, count, result);
  }
};

}  // namespace

absl::Status PreparedCall::Error() const {
  return codes_ != nullptr ? TakeLastError() : TakeFfiError();
}

void* CallMemory::Take(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > left_) {
    left_ = std::max(bytes, kBlockBytes);
    blocks_.push_back(std::make_unique<std::byte[]>(left_));
    next_ = blocks_.back().get();
  }
  left_ -= bytes;
  return std::exchange(next_, next_ + bytes);
}

PreparedCall CallMemory::Prepare(PackedFunc function,
                                 absl::Span<const DLTensor* const> tensors) {
  NODEWISE_CHECK(function);
  PreparedCall call;
  call.count_ = static_cast<int>(tensors.size());
  const FunctionObject& object = *function.object();
  if (const auto* ffi = dynamic_cast<const FfiFunction*>(&object)) {
    LayOutFfi(*ffi, tensors, &call);
  } else {
    call.packed_ = object.address();
    call.resource_ = object.resource();
    LayOutPacked(tensors, &call);
  }
  functions_.push_back(std::move(function));
  return call;
}

void CallMemory::LayOutPacked(absl::Span<const DLTensor* const> tensors,
                              PreparedCall* call) {
  const size_t count = tensors.size();
  // One code more, so that there is an address without arguments too.
  void* const memory =
      Take(count * sizeof(TVMValue) + (count + 1) * sizeof(int));
  auto* const values = static_cast<TVMValue*>(memory);
  auto* const codes = reinterpret_cast<int*>(values + count);
  for (size_t i = 0; i < count; ++i) {
    values[i].v_handle = const_cast<DLTensor*>(tensors[i]);
    codes[i] = kTVMDLTensorHandle;
  }
  call->args_ = values;
  call->codes_ = codes;
}

void CallMemory::LayOutFfi(const FfiFunction& function,
                           absl::Span<const DLTensor* const> tensors,
                           PreparedCall* call) {
  const size_t count = tensors.size();
  auto* const args = static_cast<TVMFFIAny*>(Take(count * sizeof(TVMFFIAny)));
  size_t num_bools = 0;
  for (size_t i = 0; i < count; ++i) {
    args[i] = {kTVMFFIDLTensorPtr, 0, {}};
    args[i].v_ptr = const_cast<DLTensor*>(tensors[i]);
    if (tensors[i]->dtype == kBool) ++num_bools;
  }
  call->args_ = args;
  call->safe_call_ = function.safe_call();
  call->resource_ = function.self();
  if (num_bools == 0) return;
  auto* const bools =
      static_cast<BoolTensor*>(Take(num_bools * sizeof(BoolTensor)));
  call->resource_ = new (Take(sizeof(BoolCall)))
      BoolCall{function.safe_call(), function.self(), bools, num_bools};
  call->safe_call_ = &BoolCall::Run;
  BoolTensor* next = bools;
  for (size_t i = 0; i < count; ++i) {
    if (!(tensors[i]->dtype == kBool)) continue;
    args[i].v_ptr = &(new (next++) BoolTensor{tensors[i], {}})->shown;
  }
}

}  // namespace nodewise
