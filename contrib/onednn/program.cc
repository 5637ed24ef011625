#include "contrib/onednn/program.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "contrib/onednn/evaluated.h"
#include "contrib/onednn/omp_team.h"
#include "contrib/onednn/onednn_catch.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

// Below this, waking other threads takes longer than looking at the numbers.
constexpr int64_t kRangeOfOneThread = 1 << 15;
// Products below this have room left for sums of them in a float.
constexpr double kMostMagnitude = 1e37;

FloatRange Both(FloatRange a, FloatRange b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most)};
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
  return std::accumulate(parts.begin() + 1, parts.end(), parts[0], Both);
}

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
    return absl::InvalidArgumentError(fmt::format(
        "{}: is given {} inputs and {} outputs, expected {} and 1",
        call_.op.def().name, inputs.size(), outputs.size(), num_inputs_));
  }
  for (const Tensor& tensor : tensors_) {
    const NDArray& given = inputs[tensor.input];
    if (given.defined() && given.bytes() == tensor.bytes) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: input {} has {} bytes, expected {}", call_.op.def().name,
        tensor.input, given.defined() ? given.bytes() : 0, tensor.bytes));
  }
  if (outputs[0].defined() && outputs[0].bytes() == output_bytes_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: the output has {} bytes, expected {}", call_.op.def().name,
      outputs[0].defined() ? outputs[0].bytes() : 0, output_bytes_));
}

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

absl::Status Program::Run(absl::Span<const NDArray> inputs,
                          absl::Span<const NDArray> outputs) const {
  NODEWISE_RETURN_IF_ERROR(CheckTensors(inputs, outputs));
  const OmpThreads threads(threads_);
  if (!IsOrdinary(inputs)) {
    ++num_evaluated_;
    return At(call_.op.def().name, EvaluateCall(call_, inputs, outputs[0]));
  }
  return CaughtStatus([&] {
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

Value ProgramBuilder::NewValue(const Desc& desc, void* data, bool is_constant) {
  slots_.push_back({desc, is_constant});
  if (!is_dry_) {
    program_->memories_.emplace_back(desc, Engine(), data);
  }
  return Value{static_cast<uint32_t>(slots_.size() - 1)};
}

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

Value ProgramBuilder::List(const std::vector<float>& values) {
  const auto size = static_cast<int64_t>(values.size());
  const Desc desc({size}, DataType::f32, Dims{1});
  const Value value =
      NewValue(desc, is_dry_ ? DNNL_MEMORY_NONE : DNNL_MEMORY_ALLOCATE, true);
  if (!is_dry_) {
    std::copy(
        values.begin(), values.end(),
        static_cast<float*>(program_->memories_.back().get_data_handle()));
  }
  return value;
}

Value ProgramBuilder::Scratch(const Desc& desc) {
  return NewValue(desc, is_dry_ ? DNNL_MEMORY_NONE : DNNL_MEMORY_ALLOCATE,
                  false);
}

absl::StatusOr<Value> ProgramBuilder::Reordered(Value value, const Desc& desc) {
  const Slot& slot = slots_[static_cast<size_t>(value)];
  if (slot.desc == desc) return value;
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanReorder(slot.desc, desc, {}));
  const bool is_constant = slot.is_constant;
  const Value to = Scratch(desc);
  if (!is_constant) {
    NODEWISE_RETURN_IF_ERROR(
        Add(planned, {{DNNL_ARG_FROM, value}, {DNNL_ARG_TO, to}}));
    return to;
  }
  slots_.back().is_constant = true;
  if (!is_dry_) NODEWISE_RETURN_IF_ERROR(Execute(planned, value, to));
  return to;
}

absl::Status ProgramBuilder::Execute(const Planned& planned, Value from,
                                     Value to) {
  auto& memories = program_->memories_;
  return CaughtStatus([&] {
    dnnl::primitive(planned.plan.get())
        .execute(program_->stream_,
                 {{DNNL_ARG_FROM, memories[static_cast<size_t>(from)]},
                  {DNNL_ARG_TO, memories[static_cast<size_t>(to)]}});
    program_->stream_.wait();
  });
}

absl::Status ProgramBuilder::Add(
    const Planned& planned, absl::Span<const std::pair<int, Value>> arguments) {
  return CaughtStatus([&] {
    program_->implementation_ = planned.plan.impl_info_str();
    if (is_dry_) return;
    Program::Step step{dnnl::primitive(planned.plan.get()), {}};
    for (const auto& [argument, value] : arguments) {
      step.arguments.push_back(
          {argument, program_->memories_[static_cast<size_t>(value)].get()});
    }
    for (const auto& [argument, memory] : planned.fixed) {
      step.arguments.push_back({argument, memory.get()});
      program_->fixed_.push_back(memory);
    }
    program_->steps_.push_back(std::move(step));
  });
}

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

absl::Status ProgramBuilder::DropGivenAgain() {
  Program& program = *program_;
  const auto drop = [&](OneDnnInput& input) -> absl::Status {
    if (!input.is_given_again || !input.constant.defined()) {
      return absl::OkStatus();
    }
    for (auto& [i, kept] : program.kept_) {
      if (kept.data() != input.constant.data()) continue;
      // A kernel that is forgotten behind the run reads them where they lie.
      if (LittleMemory::IsWanted()) continue;
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

std::string ProgramBuilder::SlowCode() const {
  const std::string& name = program_->implementation_;
  const bool is_slow =
      name.rfind("ref", 0) == 0 || name.rfind("simple", 0) == 0;
  return is_slow ? name : "";
}

absl::StatusOr<std::unique_ptr<OneDnnKernel>> ProgramBuilder::Finish() {
  Program& program = *program_;
  for (size_t i = 0; i < call_.num_inputs(); ++i) {
    if (!call_.is_given(i) || call_.is_kept(i)) continue;
    const auto bytes =
        static_cast<size_t>(call_.count(i)) * ElementBytes(call_.dtype(i));
    program.tensors_.push_back({i, bytes});
  }
  int64_t count = 1;
  for (const int64_t size : call_.output_sizes()) count *= size;
  program.output_bytes_ =
      static_cast<size_t>(count) * ElementBytes(call_.output_dtype());
  if (program.guard_.has_value()) GuardInputs();
  DropUnread();
  NODEWISE_RETURN_IF_ERROR(DropGivenAgain());
  return std::unique_ptr<OneDnnKernel>(std::move(program_));
}

}  // namespace nodewise::onednn
