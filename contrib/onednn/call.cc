#include "contrib/onednn/call.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise::onednn {
namespace {

// oneDNN counts with 64 bits in its descriptions, but with 32 in the code that
// it makes of them: where these overflow, it divides by 0, or computes less
// than all.
constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

// A side of 0 must not hide others that are too large, so it counts as 1.
bool IsTooLarge(const Sizes& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size > kMostElements / product) return true;
    product *= std::max<int64_t>(size, 1);
  }
  return false;
}

// Kernels are made for their sizes. A tensor without elements is left to the
// operator, which has nothing to calculate.
absl::StatusOr<Sizes> KnownSizes(const std::string& name,
                                 const TensorType& type) {
  auto sizes = type.sizes();
  if (!sizes.has_value()) {
    return Refuse("{}: is {}, whose sizes are not all known", name,
                  ToString(type));
  }
  if (IsTooLarge(*sizes)) {
    return Refuse("{}: is {}, expected {} elements at most", name,
                  ToString(type), kMostElements);
  }
  if (ProductOf(*sizes) == 0) return Refuse("{}: has no elements", name);
  return *std::move(sizes);
}

// Rows rely on what the operator says of its inputs and its output.
absl::Status CheckByOperator(const OneDnnCall& call) {
  const OperatorDef& def = call.op.def();
  std::vector<InputInfo> infos(call.inputs.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const OneDnnInput& input = call.inputs[i];
    if (!input.type.has_dtype()) continue;
    const NDArray* const data =
        input.constant.defined() ? &input.constant : nullptr;
    infos[i] = {true, input.type, data, nullptr};
  }
  const Inputs inputs(infos);
  for (size_t i = 0; i < def.inputs.size(); ++i) {
    if (def.inputs[i].kind == Param::Kind::kRequired && !inputs.has(i)) {
      return InvalidArgument("input {} ({}) is not given", i,
                             def.inputs[i].name);
    }
  }
  NODEWISE_RETURN_IF_ERROR(def.check(call.op.get(), inputs));
  NODEWISE_ASSIGN_OR_RETURN(const OutputInfos outputs,
                            def.infer(call.op.get(), inputs, 1));
  if (AreCompatible(outputs[0].type, call.output)) return absl::OkStatus();
  return InvalidArgument("the output is {}, expected {}", ToString(call.output),
                         ToString(outputs[0].type));
}

}  // namespace

// IsTooLarge() has made sure that products of all sides fit.
int64_t ProductOf(absl::Span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

absl::StatusOr<DataType> DataTypeOf(DLDataType dtype) {
  if (dtype == kFloat32) return DataType::f32;
  if (dtype == kInt32) return DataType::s32;
  if (dtype == kInt8) return DataType::s8;
  if (dtype == kUint8) return DataType::u8;
  if (dtype == kFloat16 || dtype == kBfloat16) {
    return Refuse(
        "is of type {}, for which oneDNN has kernels from AVX-512 on only "
        "(convert to float32 before and back behind)",
        ToString(dtype));
  }
  return Refuse("is of type {}, which oneDNN does not have", ToString(dtype));
}

// Layouts are told to oneDNN by their strides alone.
Dims StridesOf(const Sizes& sizes, TensorLayout layout) {
  const bool is_last =
      layout == TensorLayout::kChannelsLast && sizes.size() > 2;
  Dims strides(sizes.size());
  int64_t stride = is_last ? sizes[1] : 1;
  for (size_t side = sizes.size(); side-- > 0;) {
    // The channels lie one behind the other.
    const bool is_channel = is_last && side == 1;
    strides[side] = is_channel ? 1 : stride;
    if (!is_channel) stride *= sizes[side];
  }
  return strides;
}

Desc DescOf(const Sizes& sizes, DataType type, TensorLayout layout) {
  // oneDNN has no tensors of rank 0.
  if (sizes.empty()) return {{1}, type, Dims{1}};
  return {Dims(sizes.begin(), sizes.end()), type, StridesOf(sizes, layout)};
}

Desc ListDesc(int64_t size) { return {{size}, DataType::f32, Dims{1}}; }

// A primitive that is made with such a description says afterwards which order
// it has chosen (ArgumentOf).
Desc AnyOrder(const Sizes& sizes, DataType type) {
  return {Dims(sizes.begin(), sizes.end()), type,
          dnnl::memory::format_tag::any};
}

// Tensors are looked through one by one: their sizes have to be known, and a
// constant has to be what its type says, so that rows need not check it.
absl::Status Call::Append(const OneDnnInput& input) {
  Entry entry{&input, {}, input.layout};
  if (input.type.has_dtype()) {
    const std::string name = fmt::format("input {}", inputs_.size());
    NODEWISE_ASSIGN_OR_RETURN(entry.sizes, KnownSizes(name, input.type));
    if (input.constant.defined() && !IsOfType(input.constant, input.type)) {
      return InvalidArgument(
          "{}: the constant is {}, expected {}", name,
          TypeToString(input.constant.shape(), input.constant.dtype()),
          ToString(input.type));
    }
    if (input.constant.defined() && input.layout != TensorLayout::kPlain) {
      return InvalidArgument("{}: constants are plain", name);
    }
  }
  inputs_.push_back(std::move(entry));
  return absl::OkStatus();
}

// Inputs of the operation come first, then those of each post-operation, which
// is the order in which a run is given them.
absl::StatusOr<Call> Call::Read(const OneDnnCall& call) {
  if (!call.op.defined()) return InvalidArgument("the call has no operator");
  Call read;
  read.call_ = &call;
  for (const OneDnnInput& input : call.inputs) {
    NODEWISE_RETURN_IF_ERROR(read.Append(input));
  }
  for (const OneDnnPostOp& post_op : call.post_ops) {
    if (!post_op.op.defined()) {
      return InvalidArgument("a post-operation has no operator");
    }
    read.first_others_.push_back(read.inputs_.size());
    for (const OneDnnInput& other : post_op.others) {
      NODEWISE_RETURN_IF_ERROR(read.Append(other));
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(read.output_sizes_,
                            KnownSizes("the output", call.output));
  read.output_layout_ = call.output_layout;
  read.ChooseLayouts();
  NODEWISE_RETURN_IF_ERROR(CheckByOperator(call));
  return read;
}

// oneDNN tells layouts apart by strides, even those of sides that have no
// neighbours, and is fast where all its tensors have the same.
void Call::ChooseLayouts() {
  bool is_last = output_layout_ == TensorLayout::kChannelsLast;
  for (const Entry& entry : inputs_) {
    is_last = is_last || entry.layout == TensorLayout::kChannelsLast;
  }
  if (!is_last) return;
  for (Entry& entry : inputs_) {
    if (entry.input->type.has_dtype() && !HasLayouts(entry.input->type)) {
      entry.layout = TensorLayout::kChannelsLast;
    }
  }
  if (!HasLayouts(call_->output)) output_layout_ = TensorLayout::kChannelsLast;
}

absl::StatusOr<Desc> Call::InputDesc(size_t i) const {
  const auto type = DataTypeOf(dtype(i));
  if (!type.ok()) return At(NameOf(i), type.status());
  return DescOf(sizes(i), *type, layout(i));
}

absl::StatusOr<Desc> Call::OutputDesc() const {
  const auto type = DataTypeOf(output_dtype());
  if (!type.ok()) return At("the output", type.status());
  return DescOf(output_sizes_, *type, output_layout());
}

// The last parameter of an operator with any number of inputs names all the
// rest.
std::string Call::NameOf(size_t i) const {
  const auto& params = op().def().inputs;
  const size_t count = call_->inputs.size();
  if (i >= count) return fmt::format("input {} of what is fused", i - count);
  if (params.empty()) return fmt::format("input {}", i);
  return fmt::format("input {} ({})", i,
                     params[std::min(i, params.size() - 1)].name);
}

// A type that oneDNN does not have at all is refused with that reason, which
// says more.
absl::Status Call::RequireFloat32(size_t i) const {
  if (!is_given(i) || dtype(i) == kFloat32) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(At(NameOf(i), DataTypeOf(dtype(i)).status()));
  return Refuse("{}: is of type {}, expected float32", NameOf(i),
                ToString(dtype(i)));
}

absl::Status Call::RequireAllFloat32() const {
  for (size_t i = 0; i < num_inputs(); ++i) {
    NODEWISE_RETURN_IF_ERROR(RequireFloat32(i));
  }
  if (output_dtype() == kFloat32) return absl::OkStatus();
  return Refuse("the output is of type {}, expected float32",
                ToString(output_dtype()));
}

// A tensor whose bytes are the same in both layouts counts as plain.
absl::Status Call::RequirePlain(size_t i) const {
  if (!is_given(i) || layout(i) == TensorLayout::kPlain ||
      !HasLayouts(inputs_[i].input->type)) {
    return absl::OkStatus();
  }
  return Refuse("{}: has its channels last, expected it plain", NameOf(i));
}

absl::Status Call::RequirePlainOutput() const {
  if (output_sizes_.size() <= 2 || output_layout_ == TensorLayout::kPlain) {
    return absl::OkStatus();
  }
  return Refuse("the output has its channels last, expected it plain");
}

absl::Status Call::RequireRank(size_t least, size_t most) const {
  const size_t rank = sizes(0).size();
  if (least <= rank && rank <= most) return absl::OkStatus();
  return Refuse("has {} sides, expected {} to {}", rank, least, most);
}

// Layouts of up to two sides are the same.
absl::Status Call::RequireOutputLike(size_t i) const {
  if (output_sizes_.size() > 2 && layout(i) != output_layout()) {
    return Refuse("changes the layout of its tensor");
  }
  if (sizes(i) == output_sizes_) return absl::OkStatus();
  return Refuse("{}: has another shape than the output", NameOf(i));
}

absl::Status Call::RequireNoPostOps() const {
  if (call_->post_ops.empty()) return absl::OkStatus();
  return Refuse("nothing can be fused behind this operator");
}

absl::StatusOr<const NDArray*> Call::RequireConstant(size_t i) const {
  if (const NDArray* const data = constant(i)) return data;
  return Refuse("{}: is not constant", NameOf(i));
}

absl::StatusOr<std::vector<double>> Call::RequireNumbers(size_t i) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const data, RequireConstant(i));
  return ToDoubles(*data);
}

// Numbers are bounded before anything is calculated with them, in 64 bits here
// and in 32 by oneDNN.
absl::Status CheckWindows(const Sizes& input, const WindowNumbers& windows) {
  // Sums of a few of these stay below what 32 bits hold.
  constexpr int64_t kMost = kMostElements / 4;
  const auto is_too_large = [](const Sizes& numbers) {
    return std::ranges::any_of(numbers, [](int64_t number) {
      return number > kMost || number < -kMost;
    });
  };
  bool is_refused =
      is_too_large(windows.strides) || is_too_large(windows.dilations) ||
      is_too_large(windows.pads_begin) || is_too_large(windows.pads_end) ||
      is_too_large(windows.kernel);
  for (size_t s = 0; !is_refused && s < windows.kernel.size(); ++s) {
    // oneDNN's dilations are 0 where there are no gaps.
    const int64_t reach =
        (windows.kernel[s] - 1) * (windows.dilations[s] + 1) + 1;
    is_refused = reach > kMost || input[s + 2] > kMost;
  }
  if (!is_refused) return absl::OkStatus();
  return Refuse("has windows, strides, pads or sides of more than {} elements",
                kMost);
}

absl::StatusOr<double> OneNumber(const Call& call, size_t i) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                            call.RequireNumbers(i));
  if (numbers.size() == 1) return numbers[0];
  return Refuse("{}: has {} elements, expected 1", call.NameOf(i),
                numbers.size());
}

}  // namespace nodewise::onednn
