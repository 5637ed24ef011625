#pragma once

// The rows read this of a call: sizes, types, constants, and oneDNN's
// descriptions of its tensors.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "contrib/onednn/onednn_api.h"
#include "fmt/format.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {

using Sizes = std::vector<int64_t>;

// kUnimplemented, the reason for which something is not supported.
template <typename... Args>
absl::Status Refuse(fmt::format_string<Args...> reason, Args&&... args) {
  return Unimplemented(reason, std::forward<Args>(args)...);
}

// Returns oneDNN's number for the element type, or refuses it with a word about
// what to do.
absl::StatusOr<DataType> DataTypeOf(DLDataType dtype);

// Returns how far apart the elements of a compact tensor lie, by side.
Dims StridesOf(const Sizes& sizes, TensorLayout layout);
// Returns the description of a compact tensor with these sizes.
Desc DescOf(const Sizes& sizes, DataType type,
            TensorLayout layout = TensorLayout::kPlain);
// A list of floats.
Desc ListDesc(int64_t size);
// A description in which oneDNN chooses the order.
Desc AnyOrder(const Sizes& sizes, DataType type);

int64_t ProductOf(absl::Span<const int64_t> sizes);

// A call that has been looked through. Inputs are numbered as in
// OneDnnKernel::Run: those of the operation, then the others of the
// post-operations.
class Call {
 public:
  // Refuses what no row can do: unknown sizes, tensors without elements.
  // `call` must outlive this.
  static absl::StatusOr<Call> Read(const OneDnnCall& call);

  const OneDnnCall& get() const { return *call_; }
  const OpAttrs& op() const { return call_->op; }
  size_t num_inputs() const { return inputs_.size(); }
  // An input of the operation, given.
  bool has(size_t i) const { return i < call_->inputs.size() && is_given(i); }
  bool is_given(size_t i) const { return inputs_[i].input->type.has_dtype(); }
  // REQUIRE: is_given(i).
  const Sizes& sizes(size_t i) const { return inputs_[i].sizes; }
  DLDataType dtype(size_t i) const { return inputs_[i].input->type.dtype; }
  // Where both are the same to a tensor, the one that the others have.
  TensorLayout layout(size_t i) const { return inputs_[i].layout; }
  // Null unless it is constant.
  const NDArray* constant(size_t i) const {
    const NDArray& data = inputs_[i].input->constant;
    return data.defined() ? &data : nullptr;
  }
  // Whether it is constant and no run is given it.
  bool is_kept(size_t i) const {
    return constant(i) != nullptr && !inputs_[i].input->is_given_again;
  }
  int64_t count(size_t i) const { return ProductOf(sizes(i)); }

  const Sizes& output_sizes() const { return output_sizes_; }
  DLDataType output_dtype() const { return call_->output.dtype; }
  TensorLayout output_layout() const { return output_layout_; }

  // The number of the first of the others of post-operation `k`.
  size_t first_other(size_t k) const { return first_others_[k]; }

  absl::StatusOr<Desc> InputDesc(size_t i) const;
  absl::StatusOr<Desc> OutputDesc() const;

  // Refusals. Words name the input as the operator does.
  absl::Status RequireFloat32(size_t i) const;
  // All inputs given, those of post-operations too, and the output.
  absl::Status RequireAllFloat32() const;
  absl::Status RequirePlain(size_t i) const;
  absl::Status RequirePlainOutput() const;
  absl::Status RequireRank(size_t least, size_t most) const;  // For input 0.
  absl::Status RequireOutputLike(size_t i) const;  // Layout and sizes.
  absl::Status RequireNoPostOps() const;
  absl::StatusOr<const NDArray*> RequireConstant(size_t i) const;
  // As RequireConstant(), as numbers.
  absl::StatusOr<std::vector<double>> RequireNumbers(size_t i) const;
  std::string NameOf(size_t i) const;  // "input 1 (W)"

 private:
  struct Entry {
    const OneDnnInput* input;
    Sizes sizes;
    TensorLayout layout;
  };
  absl::Status Append(const OneDnnInput& input);
  void ChooseLayouts();

  const OneDnnCall* call_ = nullptr;
  std::vector<Entry> inputs_;
  std::vector<size_t> first_others_;
  Sizes output_sizes_;
  TensorLayout output_layout_ = TensorLayout::kPlain;
};

// The windows of a convolution or a pool, as oneDNN has them.
struct WindowNumbers {
  const Sizes& kernel;
  const Sizes& strides;
  const Sizes& dilations;
  const Sizes& pads_begin;
  const Sizes& pads_end;
};
// Refuses what oneDNN cannot compute with. `input` has two sides before those
// that windows lie on.
absl::Status CheckWindows(const Sizes& input, const WindowNumbers& windows);

// Returns the scale that a constant holds, if it is one number.
absl::StatusOr<double> OneNumber(const Call& call, size_t i);

}  // namespace nodewise::onednn
