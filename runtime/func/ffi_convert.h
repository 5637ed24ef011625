#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// The arguments of a classic call in TVM-FFI's form. Borrows the originals.
class FfiArguments {
 public:
  // Fails with kInvalidArgument, with the number of the argument that has no
  // such form.
  absl::Status Set(PackedArgs args);

  const TVMFFIAny* data() const { return values_.data(); }
  int32_t size() const { return static_cast<int32_t>(values_.size()); }

 private:
  absl::Status Add(ArgView arg);
  void AddTensor(const DLTensor* tensor);

  std::vector<TVMFFIAny> values_;
  std::deque<DLTensor> renumbered_;
};

// The arguments of a TVM-FFI call in classic form. Borrows the originals.
class PackedArguments {
 public:
  absl::Status Set(const TVMFFIAny* args, int32_t count);

  PackedArgs args() const {
    return {values_.data(), codes_.data(), static_cast<int>(values_.size())};
  }

 private:
  absl::Status Add(const TVMFFIAny& arg);
  absl::Status AddObject(int32_t type_index, const TVMFFIObject* object);
  void AddTensor(DLTensor* tensor);
  void AddText(std::string text, int code);
  void Add(TVMValue value, int code);

  std::vector<TVMValue> values_;
  std::vector<int> codes_;
  std::deque<std::string> texts_;
  std::deque<TVMByteArray> bytes_;
  std::deque<DLTensor> renumbered_;
};

// Takes over what a TVM-FFI function returned.
absl::StatusOr<Value> ValueOfFfi(TVMFFIAny result);
// Converts a value to TVM-FFI's form; the receiver owns a counted object in
// `result`.
absl::Status ValueToFfi(const Value& value, TVMFFIAny* result);

}  // namespace nodewise
