#include "nodewise/func/prepared_call.h"

#include <algorithm>
#include <new>
#include <utility>

#include "nodewise/func/c_errors.h"
#include "nodewise/support/check.h"

namespace nodewise {

// A tensor, and the copy that the function is shown, whose type has the code of
// the function's convention.
struct CallMemory::ShownTensor {
  const DLTensor* tensor;
  DLTensor shown;
};

// Stands in for a function whose convention has other codes for its tensors'
// types. The tensors move (another plan, another input), so the copies are
// updated at each call.
struct CallMemory::StandIn {
  PreparedCall call;  // The call of the function itself.
  absl::Span<ShownTensor> tensors;

  void Follow() const {
    for (ShownTensor& tensor : tensors) {
      const DLDataType dtype = tensor.shown.dtype;
      tensor.shown = *tensor.tensor;
      tensor.shown.dtype = dtype;
    }
  }
  static int RunPacked(TVMValue* args, int* codes, int count, TVMValue* ret,
                       int* ret_code, void* self) {
    const auto* stand_in = static_cast<const StandIn*>(self);
    stand_in->Follow();
    return stand_in->call.packed_(args, codes, count, ret, ret_code,
                                  stand_in->call.resource_);
  }
  static int RunFfi(void* self, const TVMFFIAny* args, int32_t count,
                    TVMFFIAny* result) {
    const auto* stand_in = static_cast<const StandIn*>(self);
    stand_in->Follow();
    return stand_in->call.safe_call_(stand_in->call.resource_, args, count,
                                     result);
  }
};

namespace {

// Calls of one network lie next to each other in few blocks, in the order in
// which they run.
constexpr size_t kBlockBytes = 1 << 16;
constexpr size_t kAlignment = alignof(std::max_align_t);

// Calls `set_number` or `set_tensor` with each place of a call and its
// argument. A number's place is that among all arguments; tensors fill the
// others in their order.
template <typename SetTensor, typename SetNumber>
void ForEachArgument(absl::Span<const DLTensor* const> tensors,
                     absl::Span<const CallNumber> numbers, SetTensor set_tensor,
                     SetNumber set_number) {
  const size_t count = tensors.size() + numbers.size();
  auto tensor = tensors.begin();
  auto number = numbers.begin();
  for (size_t i = 0; i < count; ++i) {
    if (number != numbers.end() && number->place == i) {
      set_number(i, (number++)->value);
    } else {
      NODEWISE_CHECK(tensor != tensors.end());
      set_tensor(i, const_cast<DLTensor*>(*tensor++));
    }
  }
}

}  // namespace

// Each convention leaves its error in a place of its own.
absl::Status PreparedCall::Error() const {
  return codes_ != nullptr ? TakeLastError() : TakeFfiError();
}

int PreparedCall::KeepException() {
  SetLastError(StatusOfThrowingFunction());
  return -1;
}

void* CallMemory::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > left_) {
    left_ = std::max(bytes, kBlockBytes);
    blocks_.push_back(std::make_unique<std::byte[]>(left_));
    next_ = blocks_.back().get();
  }
  left_ -= bytes;
  return std::exchange(next_, next_ + bytes);
}

// All that a call needs is laid out once, so that running it touches nothing
// but its arguments.
PreparedCall CallMemory::Prepare(PackedFunc function,
                                 absl::Span<const DLTensor* const> tensors,
                                 absl::Span<const CallNumber> numbers) {
  NODEWISE_CHECK(function);
  const FunctionObject& object = *function.object();
  const auto* ffi = dynamic_cast<const FfiFunction*>(&object);
  std::vector<const DLTensor*> shown(tensors.begin(), tensors.end());
  const absl::Span<ShownTensor> changed =
      Show(ffi != nullptr ? &FfiType : &ClassicType, &shown);
  PreparedCall call;
  call.count_ = static_cast<int>(shown.size() + numbers.size());
  if (ffi != nullptr) {
    call.safe_call_ = ffi->safe_call();
    call.resource_ = ffi->self();
    LayOutFfi(shown, numbers, &call);
  } else {
    call.packed_ = object.address();
    call.resource_ = object.resource();
    LayOutPacked(shown, numbers, &call);
  }
  functions_.push_back(std::move(function));
  if (changed.empty()) return call;
  PreparedCall outer = call;
  outer.resource_ = new (Allocate(sizeof(StandIn))) StandIn{call, changed};
  if (ffi != nullptr) {
    outer.safe_call_ = &StandIn::RunFfi;
  } else {
    outer.packed_ = &StandIn::RunPacked;
  }
  return outer;
}

// Two conventions number a few element types differently, bool among them. Most
// calls have no such tensor and go without a stand-in.
absl::Span<CallMemory::ShownTensor> CallMemory::Show(
    DLDataType (*numbering)(DLDataType),
    std::vector<const DLTensor*>* tensors) {
  const auto count = static_cast<size_t>(
      std::ranges::count_if(*tensors, [&](const auto* tensor) {
        return !(numbering(tensor->dtype) == tensor->dtype);
      }));
  if (count == 0) return {};
  auto* const all =
      static_cast<ShownTensor*>(Allocate(count * sizeof(ShownTensor)));
  ShownTensor* next = all;
  for (const DLTensor*& tensor : *tensors) {
    const DLDataType dtype = numbering(tensor->dtype);
    if (dtype == tensor->dtype) continue;
    auto* const shown = new (next++) ShownTensor{tensor, *tensor};
    shown->shown.dtype = dtype;
    tensor = &shown->shown;
  }
  return {all, count};
}

void CallMemory::LayOutPacked(absl::Span<const DLTensor* const> tensors,
                              absl::Span<const CallNumber> numbers,
                              PreparedCall* call) {
  const size_t count = tensors.size() + numbers.size();
  // There is one extra code, so that a call without arguments has an address
  // too.
  void* const memory =
      Allocate(count * sizeof(TVMValue) + (count + 1) * sizeof(int));
  auto* const values = static_cast<TVMValue*>(memory);
  auto* const codes = reinterpret_cast<int*>(values + count);
  ForEachArgument(
      tensors, numbers,
      [&](size_t i, DLTensor* tensor) {
        values[i].v_handle = tensor;
        codes[i] = kTVMDLTensorHandle;
      },
      [&](size_t i, int64_t number) {
        values[i].v_int64 = number;
        codes[i] = kTVMArgInt;
      });
  call->args_ = values;
  call->codes_ = codes;
}

void CallMemory::LayOutFfi(absl::Span<const DLTensor* const> tensors,
                           absl::Span<const CallNumber> numbers,
                           PreparedCall* call) {
  const size_t count = tensors.size() + numbers.size();
  auto* const args =
      static_cast<TVMFFIAny*>(Allocate(count * sizeof(TVMFFIAny)));
  ForEachArgument(
      tensors, numbers,
      [&](size_t i, DLTensor* tensor) {
        args[i] = {kTVMFFIDLTensorPtr, 0, {0}};
        args[i].v_ptr = tensor;
      },
      [&](size_t i, int64_t number) {
        args[i] = {kTVMFFIInt, 0, {number}};
      });
  call->args_ = args;
}

}  // namespace nodewise
