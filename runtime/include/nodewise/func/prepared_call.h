#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// A number among the arguments of a call.
struct CallNumber {
  uint32_t place = 0;  // Its place among all arguments.
  int64_t value = 0;
};

// A function with its tensors laid out in the function's own calling
// convention, with that convention's type codes, so that calling it is one
// branch and one indirect call. The tensors' contents may change between calls;
// the addresses of their DLTensors may not. Valid as long as the CallMemory
// that made it.
class PreparedCall {
 public:
  PreparedCall() = default;

  // Returns 0, or else Error() says, once, what went wrong. An exception of the
  // function is such an error.
  int Run() const {
    try {
      return RunUncaught();
    } catch (...) {
      return KeepException();
    }
  }
  // Does what Run() does, but lets exceptions out, for loops with one `try`
  // around all their calls, where that costs nothing.
  int RunUncaught() const {
    if (codes_ != nullptr) [[likely]] {
      TVMValue ret;
      int ret_code = kTVMNullptr;
      return packed_(static_cast<TVMValue*>(args_), codes_, count_, &ret,
                     &ret_code, resource_);
    }
    TVMFFIAny ret;
    ret.type_index = kTVMFFINone;
    ret.small_len = 0;
    const int rc =
        safe_call_(resource_, static_cast<TVMFFIAny*>(args_), count_, &ret);
    if (ret.type_index >= kTVMFFIStaticObjectBegin) [[unlikely]] {
      DropFfiResult(&ret);
    }
    return rc;
  }
  // Makes the exception being handled the error of the call, and returns -1.
  // Called from within `catch`.
  static int KeepException();
  // REQUIRES: the last run on this thread was of this call and failed.
  absl::Status Error() const;

 private:
  friend class CallMemory;

  union {
    TVMBackendPackedCFunc packed_ = nullptr;
    TVMFFISafeCallType safe_call_;
  };
  void* resource_ = nullptr;
  void* args_ = nullptr;
  int* codes_ = nullptr;  // Null if the convention is TVM-FFI's.
  int count_ = 0;
};

// Holds the arguments of prepared calls, one after the other in the order of
// Prepare(). Keeps their functions alive.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // The numbers are in the order of their places; the tensors take the other
  // places. REQUIRES: function is not null; the tensors outlive the call; there
  // is an argument at each place.
  PreparedCall Prepare(PackedFunc function,
                       absl::Span<const DLTensor* const> tensors,
                       absl::Span<const CallNumber> numbers = {});

 private:
  struct ShownTensor;
  struct StandIn;

  void* Allocate(size_t bytes);
  // Replaces the tensors whose type code differs under `numbering` by ones that
  // have that code.
  absl::Span<ShownTensor> Show(DLDataType (*numbering)(DLDataType),
                               std::vector<const DLTensor*>* tensors);
  void LayOutPacked(absl::Span<const DLTensor* const> tensors,
                    absl::Span<const CallNumber> numbers, PreparedCall* call);
  void LayOutFfi(absl::Span<const DLTensor* const> tensors,
                 absl::Span<const CallNumber> numbers, PreparedCall* call);

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  std::vector<PackedFunc> functions_;
};

}  // namespace nodewise
