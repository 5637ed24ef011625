#include "contrib/onednn/program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

#include "contrib/onednn/omp_team.h"
#include "contrib/onednn/onednn_api.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {

namespace {

// Below this, waking other threads takes longer than looking at the numbers.
constexpr int64_t kRangeOfOneThread = 1 << 15;
// Products below this have room left for sums of them in a float.
constexpr double kMostMagnitude = 1e37;

// The range of some numbers. A NaN counts as an infinity of its sign.
struct FloatRange {
  float least = 0;
  float most = 0;
};

// The bits of floats, read as integers of sign and magnitude, are in the order
// of the floats, with NaNs beyond the infinities. Compilers vectorise minima of
// integers; those of floats they do not, because of NaN.
__attribute__((always_inline)) inline int32_t OrderOf(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

float FloatAt(int32_t order) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  order = std::clamp(order, OrderOf(-kInfinity), OrderOf(kInfinity));
  return std::bit_cast<float>(order ^ ((order >> 31) & 0x7FFFFFFF));
}

// Compiled for several instruction sets: without AVX2, or at least SSE4,
// processors have no minimum of such integers.
__attribute__((always_inline)) inline FloatRange Range(const float* data,
                                                       int64_t count) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t most = std::numeric_limits<int32_t>::min();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t order = OrderOf(data[i]);
    least = std::min(least, order);
    most = std::max(most, order);
  }
  return {FloatAt(least), FloatAt(most)};
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) FloatRange RangeWithAvx2(const float* data,
                                                         int64_t count) {
  return Range(data, count);
}
#endif

// REQUIRES: 0 < count.
FloatRange RangeOf(const float* data, int64_t count) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return RangeWithAvx2(data, count);
#endif
  return Range(data, count);
}

// A tensor with its channels last, seen as [N, C, ...].
struct PlainView {
  DLTensor tensor;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  PlainView(const NDArray& data, const std::vector<int64_t>& sizes)
      : tensor(*data),
        shape(sizes),
        strides(StridesOf(sizes, TensorLayout::kChannelsLast)) {
    tensor.ndim = static_cast<int>(shape.size());
    tensor.shape = shape.data();
    tensor.strides = strides.data();
  }
  PlainView(const PlainView&) = delete;
};

// Up to rank 2 both layouts are the same.
bool IsPlain(TensorLayout layout, const TensorType& type) {
  return layout == TensorLayout::kPlain || type.rank() < 3;
}

// Operators see tensors as ONNX has them: what lies with its channels last is
// copied into plain order.
absl::StatusOr<NDArray> ReadInput(const OneDnnInput& input,
                                  const NDArray& given) {
  if (!input.type.has_dtype()) return NDArray();
  if (input.constant.defined()) return input.constant;
  if (IsPlain(input.layout, input.type)) {
    // The evaluation may overwrite a tensor that has no other owner.
    return NDArray::Borrow(*given, std::make_shared<NDArray>(given));
  }
  const std::vector<int64_t> sizes = *input.type.sizes();
  const PlainView view(given, sizes);
  NODEWISE_ASSIGN_OR_RETURN(NDArray plain,
                            NDArray::Empty(sizes, input.type.dtype, kCpu));
  NODEWISE_RETURN_IF_ERROR(CopyTensor(view.tensor, *plain));
  return plain;
}

absl::StatusOr<NDArray> First(const OpAttrs& op, Tensors inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const Evaluated evaluated,
                            Evaluate(op, std::move(inputs), {true}));
  return evaluated.outputs[0];
}

// Computes what a call does by the operators' own evaluation, and fails as that
// does. `inputs` and `output` are as in OneDnnKernel::Run.
absl::Status EvaluateCall(const OneDnnCall& call,
                          absl::Span<const NDArray> inputs,
                          const NDArray& output) {
  size_t next = 0;
  Tensors tensors;
  for (const OneDnnInput& input : call.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(),
                              ReadInput(input, inputs[next++]));
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray result, First(call.op, std::move(tensors)));
  for (const OneDnnPostOp& post_op : call.post_ops) {
    tensors = {std::move(result)};
    for (const OneDnnInput& other : post_op.others) {
      NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(),
                                ReadInput(other, inputs[next++]));
    }
    NODEWISE_ASSIGN_OR_RETURN(result, First(post_op.op, std::move(tensors)));
  }
  if (!IsOfType(result, call.output)) {
    return InvalidArgument("the call's output is of another type");
  }
  if (IsPlain(call.output_layout, call.output)) {
    return CopyTensor(*result, *output);
  }
  const PlainView view(output, *call.output.sizes());
  return CopyTensor(*result, view.tensor);
}

FloatRange RangeOnTeam(const float* data, int64_t count, int threads) {
  if (count <= kRangeOfOneThread) threads = 1;
  std::vector<FloatRange> parts(static_cast<size_t>(threads),
                                {data[0], data[0]});
  OnOmpTeam(threads, [&](int index, int team) {
    const int64_t begin = count * index / team;
    const int64_t end = count * (index + 1) / team;
    if (begin == end) return;
    parts[static_cast<size_t>(index)] = RangeOf(data + begin, end - begin);
  });
  FloatRange all = parts[0];
  for (const FloatRange& part : parts) {
    all = {std::min(all.least, part.least), std::max(all.most, part.most)};
  }
  return all;
}

// At least 1, so that a product of several never hides a large one behind small
// ones.
double MagnitudeOf(FloatRange range) {
  return std::max(
      {1.0, std::fabs(double{range.least}), std::fabs(double{range.most})});
}

// Whether all numbers are below infinity and no row consists of -infinities.
bool RowsAreOrdinary(const float* data, const std::array<int64_t, 3>& rows) {
  const auto& [outer, size, inner] = rows;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      float peak = -std::numeric_limits<float>::infinity();
      for (int64_t k = 0; k < size; ++k) {
        const float x = data[(o * size + k) * inner + i];
        if (!(x <= std::numeric_limits<float>::max())) return false;
        peak = std::max(peak, x);
      }
      if (std::isinf(peak)) return false;
    }
  }
  return true;
}

}  // namespace

absl::Status Program::CheckTensors(absl::Span<const NDArray> inputs,
                                   absl::Span<const NDArray> outputs) const {
  if (inputs.size() != num_inputs_ || outputs.size() != 1) {
    return InvalidArgument(
        "{}: is given {} inputs and {} outputs, expected {} and 1",
        call_.op.def().name, inputs.size(), outputs.size(), num_inputs_);
  }
  const auto check = [&](std::optional<size_t> input, const NDArray& given,
                         size_t expected) -> absl::Status {
    const size_t bytes = given.defined() ? given.bytes() : 0;
    if (given.defined() && bytes == expected) return absl::OkStatus();
    return InvalidArgument(
        "{}: {} has {} bytes, expected {}", call_.op.def().name,
        input.has_value() ? fmt::format("input {}", *input) : "the output",
        bytes, expected);
  };
  for (const Tensor& tensor : tensors_) {
    NODEWISE_RETURN_IF_ERROR(
        check(tensor.input, inputs[tensor.input], tensor.bytes));
  }
  return check(std::nullopt, outputs[0], output_bytes_);
}

// A NaN counts as an infinity (FloatRange), so one comparison with the ends of
// the range finds both. Magnitudes of all inputs are multiplied with the number
// of terms: a sum of products cannot become larger than that.
bool Program::IsOrdinary(absl::Span<const NDArray> inputs) const {
  if (!guard_.has_value()) return true;
  if (!constants_are_ordinary_) return false;
  double magnitude = guard_->terms * constant_magnitude_;
  for (const size_t i : guarded_) {
    const NDArray& x = inputs[i];
    const auto count = static_cast<int64_t>(x.bytes() / sizeof(float));
    const FloatRange range = RangeOnTeam(x.As<float>(), count, threads_);
    if (range.least < guard_->least || range.most > guard_->most) {
      return guard_->rows.has_value() &&
             RowsAreOrdinary(x.As<float>(), *guard_->rows);
    }
    magnitude *= MagnitudeOf(range);
  }
  return guard_->terms == 0 || magnitude < kMostMagnitude;
}

// Memories are bound anew for each run, since tensors may lie elsewhere; all
// else was done when the program was made.
absl::Status Program::Run(absl::Span<const NDArray> inputs,
                          absl::Span<const NDArray> outputs) const {
  NODEWISE_RETURN_IF_ERROR(CheckTensors(inputs, outputs));
  const OmpThreads threads(threads_);
  if (!IsOrdinary(inputs)) {
    ++num_evaluated_;
    return At(call_.op.def().name, EvaluateCall(call_, inputs, outputs[0]));
  }
  return Caught([&] {
    for (const Binding& binding : bindings_) {
      const NDArray& tensor = binding.input < 0
                                  ? outputs[0]
                                  : inputs[static_cast<size_t>(binding.input)];
      memories_[binding.memory].set_data_handle(tensor.data());
    }
    for (const Step& step : steps_) {
      dnnl::error::wrap_c_api(
          dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                 static_cast<int>(step.arguments.size()),
                                 step.arguments.data()),
          "could not run a primitive");
    }
    stream_.wait();
  });
}

Desc ArgumentOf(const Planned& planned, int argument) {
  return planned.plan.query_md(dnnl::query::exec_arg_md, argument);
}

ProgramBuilder::ProgramBuilder(const Call& call, bool is_dry)
    : call_(call),
      is_dry_(is_dry),
      is_parameter_(call.num_inputs()),
      program_(new Program(call.get())) {
  Program& program = *program_;
  program.threads_ = OneDnnThreads::Count();
  program.num_inputs_ = call.num_inputs();
  if (is_dry) return;
  program.stream_ = dnnl::stream(Engine());
}

// A dry builder counts values and has no memories.
Value ProgramBuilder::NewValue(const Desc& desc, void* data, bool is_constant) {
  slots_.push_back({desc, is_constant});
  if (!is_dry_) {
    program_->memories_.emplace_back(desc, Engine(), data);
  }
  return Value{static_cast<uint32_t>(slots_.size() - 1)};
}

// A constant needs no binding, since each run has the same data.
Value ProgramBuilder::Input(size_t i, const Desc& desc) {
  if (const NDArray* const data = call_.constant(i)) {
    return Constant(*data, desc);
  }
  program_->bindings_.push_back({slots_.size(), static_cast<int>(i)});
  return NewValue(desc, nullptr, false);
}

Value ProgramBuilder::Output(const Desc& desc) {
  program_->bindings_.push_back({slots_.size(), -1});
  return NewValue(desc, nullptr, false);
}

Value ProgramBuilder::Constant(const NDArray& data, const Desc& desc) {
  program_->kept_[slots_.size()] = data;
  return NewValue(desc, data.data(), true);
}

Value ProgramBuilder::Scratch(const Desc& desc) {
  return NewValue(desc, is_dry_ ? DNNL_MEMORY_NONE : DNNL_MEMORY_ALLOCATE,
                  false);
}

// The list lives in memory of oneDNN's, which the program owns.
Value ProgramBuilder::List(const std::vector<float>& values) {
  const Value value = Scratch(ListDesc(static_cast<int64_t>(values.size())));
  slots_.back().is_constant = true;
  if (!is_dry_) {
    std::copy(values.begin(), values.end(),
              static_cast<float*>(MemoryOf(value).get_data_handle()));
  }
  return value;
}

absl::StatusOr<Value> ProgramBuilder::Reordered(Value value, const Desc& desc) {
  // Scratch() may move the slots.
  const Slot slot = slots_[static_cast<size_t>(value)];
  if (slot.desc == desc) return value;
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanReorder(slot.desc, desc, {}));
  const Value to = Scratch(desc);
  if (!slot.is_constant) {
    NODEWISE_RETURN_IF_ERROR(
        Add(planned, {{DNNL_ARG_FROM, value}, {DNNL_ARG_TO, to}}));
    return to;
  }
  // Weights that never change are brought into order once, and not in each run.
  slots_.back().is_constant = true;
  if (is_dry_) return to;
  NODEWISE_RETURN_IF_ERROR(Caught([&] {
    dnnl::primitive(planned.plan.get())
        .execute(program_->stream_, {{DNNL_ARG_FROM, MemoryOf(value)},
                                     {DNNL_ARG_TO, MemoryOf(to)}});
    program_->stream_.wait();
  }));
  return to;
}

absl::StatusOr<Value> ProgramBuilder::Weights(size_t i, const Desc& desc,
                                              const Planned& planned) {
  return Reordered(Input(i, desc), ArgumentOf(planned, DNNL_ARG_WEIGHTS));
}

absl::Status ProgramBuilder::Add(const Planned& planned,
                                 const Arguments& arguments) {
  return Caught([&] {
    program_->implementation_ = planned.plan.impl_info_str();
    if (is_dry_) return;
    Program::Step step{dnnl::primitive(planned.plan.get()), {}};
    for (const auto& [argument, value] : arguments) {
      step.arguments.push_back({argument, MemoryOf(value).get()});
    }
    for (const auto& [argument, memory] : planned.fixed) {
      step.arguments.push_back({argument, memory.get()});
      program_->fixed_.push_back(memory);
    }
    program_->steps_.push_back(std::move(step));
  });
}

// Most operators are one primitive between their first input and their output.
absl::Status ProgramBuilder::AddFromInput(const Planned& planned,
                                          const Desc& source,
                                          const Desc& output,
                                          Arguments others) {
  others.emplace_back(DNNL_ARG_SRC, Input(0, source));
  others.emplace_back(DNNL_ARG_DST, Output(output));
  return Add(planned, others);
}

// The first guard is taken as it is; rows stay an exception only if all guards
// allow it.
void ProgramBuilder::AddGuard(const Guard& guard) {
  std::optional<Guard>& all = program_->guard_;
  if (!all.has_value()) {
    all = guard;
    return;
  }
  all->least = std::max(all->least, guard.least);
  all->most = std::min(all->most, guard.most);
  all->terms = std::max(all->terms, guard.terms);
  if (!guard.rows.has_value()) all->rows.reset();
}

// Constants are looked at once, here, and only their magnitude is kept.
void ProgramBuilder::GuardInputs() {
  Program& program = *program_;
  for (size_t i = 0; i < call_.num_inputs(); ++i) {
    if (!call_.is_given(i) || is_parameter_[i]) continue;
    if (!(call_.dtype(i) == kFloat32)) continue;
    const NDArray* const data = call_.constant(i);
    if (data == nullptr) {
      program.guarded_.push_back(i);
      continue;
    }
    const FloatRange range =
        RangeOnTeam(data->As<float>(), call_.count(i), program.threads_);
    const double magnitude = MagnitudeOf(range);
    program.constant_magnitude_ *= magnitude;
    if (std::isinf(magnitude)) program.constants_are_ordinary_ = false;
  }
}

// Weights in the order of ONNX are dropped as soon as those in oneDNN's order
// are there: a kernel holds them once.
void ProgramBuilder::DropUnread() {
  Program& program = *program_;
  std::set<dnnl_memory_t> read;
  for (const Program::Step& step : program.steps_) {
    for (const dnnl_exec_arg_t& argument : step.arguments) {
      read.insert(argument.memory);
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    dnnl::memory& memory = program.memories_[i];
    if (!slots_[i].is_constant || read.count(memory.get()) > 0) continue;
    memory = dnnl::memory();
    program.kept_.erase(i);
  }
}

// Constants that steps read directly have to be copied, since a run may be
// given other memory with the same numbers.
absl::Status ProgramBuilder::DropReboundConstants() {
  Program& program = *program_;
  const auto drop = [&](OneDnnInput& input) -> absl::Status {
    if (!input.is_given_again || !input.constant.defined()) {
      return absl::OkStatus();
    }
    for (auto& [i, kept] : program.kept_) {
      if (kept.data() != input.constant.data()) continue;
      // Where little memory is wanted, the kernel goes after its run, and reads
      // the constants where they lie.
      if (LowMemoryScope::IsWanted()) continue;
      NODEWISE_ASSIGN_OR_RETURN(kept, kept.CopyToHost());
      program.memories_[i].set_data_handle(kept.data());
    }
    input.constant = NDArray();
    return absl::OkStatus();
  };
  for (OneDnnInput& input : program.call_.inputs) {
    NODEWISE_RETURN_IF_ERROR(drop(input));
  }
  for (OneDnnPostOp& post_op : program.call_.post_ops) {
    for (OneDnnInput& input : post_op.others) {
      NODEWISE_RETURN_IF_ERROR(drop(input));
    }
  }
  return absl::OkStatus();
}

// "ref" begins the names of reference code, and "simple" those of code without
// vectors.
std::string ProgramBuilder::SlowCode() const {
  const std::string& name = program_->implementation_;
  const bool is_slow = name.starts_with("ref") || name.starts_with("simple");
  return is_slow ? name : "";
}

// Guards are read last, when all steps have added theirs.
absl::StatusOr<std::unique_ptr<OneDnnKernel>> ProgramBuilder::Finish() {
  Program& program = *program_;
  for (size_t i = 0; i < call_.num_inputs(); ++i) {
    if (!call_.is_given(i) || call_.is_kept(i)) continue;
    const auto bytes =
        static_cast<size_t>(call_.count(i)) * ElementBytes(call_.dtype(i));
    program.tensors_.push_back({i, bytes});
  }
  program.output_bytes_ = static_cast<size_t>(ProductOf(call_.output_sizes())) *
                          ElementBytes(call_.output_dtype());
  if (program.guard_.has_value()) GuardInputs();
  DropUnread();
  NODEWISE_RETURN_IF_ERROR(DropReboundConstants());
  return std::unique_ptr<OneDnnKernel>(std::move(program_));
}

}  // namespace nodewise::onednn
