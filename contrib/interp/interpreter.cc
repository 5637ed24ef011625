#include "nodewise/interp/interpreter.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckInputs(const Network& network,
                         absl::Span<const NDArray> inputs) {
  if (inputs.size() != network.inputs().size()) {
    return absl::InvalidArgumentError(
        fmt::format("network {}: found {} inputs, expected {}", network.name(),
                    inputs.size(), network.inputs().size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NetworkValue& value = network.value(network.inputs()[i]);
    if (!inputs[i].defined()) {
      return absl::InvalidArgumentError(
          fmt::format("input {}: is not given", value.name));
    }
    const TensorType type = TensorType::Of(*inputs[i]);
    if (AreCompatible(type, value.type)) continue;
    return absl::InvalidArgumentError(
        fmt::format("input {}: is {}, expected {}", value.name, ToString(type),
                    ToString(value.type)));
  }
  return absl::OkStatus();
}

// The sizes that the names stand for in this run; fails with kInvalidArgument
// if an input contradicts one before it.
class BoundNames {
 public:
  absl::Status Bind(const NetworkValue& value, const NDArray& tensor) {
    if (!value.type.has_rank()) return absl::OkStatus();
    for (size_t i = 0; i < value.type.shape->size(); ++i) {
      const Dim& side = (*value.type.shape)[i];
      if (side.is_known() || side.name().empty()) continue;
      const int64_t size = tensor.shape()[i];
      const auto [bound, is_new] = sizes_.emplace(side.name(), size);
      if (is_new || bound->second == size) continue;
      return absl::InvalidArgumentError(fmt::format(
          "input {}: side {} ({}) is {}, expected {} as in the inputs before",
          value.name, i, side.name(), size, bound->second));
    }
    return absl::OkStatus();
  }

 private:
  std::map<std::string, int64_t> sizes_;
};

absl::Status BindNames(const Network& network,
                       absl::Span<const NDArray> inputs) {
  BoundNames names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        names.Bind(network.value(network.inputs()[i]), inputs[i]));
  }
  return absl::OkStatus();
}

// Operators read compact, aligned tensors in host memory; those of mapped files
// may lie anywhere.
absl::Status MakeReadable(NDArray* tensor) {
  if (!tensor->defined()) return absl::OkStatus();
  const auto address = reinterpret_cast<uintptr_t>(tensor->data());
  const size_t width = std::max<size_t>(1, ElementBytes(tensor->dtype()));
  if (DeviceTypeOf(tensor->device()) == kDLCPU && IsCompact(**tensor) &&
      address % width == 0) {
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(*tensor, tensor->CopyToHost());
  return absl::OkStatus();
}

bool IsStatic(const TensorType& type) {
  return type.has_dtype() && type.is_static();
}

// Tries to allocate the memory of its outputs, as running it will. An output no
// larger than an input may be a view of it.
absl::Status TryMemory(const Network& network, const Operation& operation) {
  constexpr size_t kLittle = size_t{1} << 30;
  size_t most = kLittle;
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const TensorType& type = network.value(id).type;
    if (!IsStatic(type)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(*type.sizes(), type.dtype));
    most = std::max(most, bytes);
  }
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue || !IsStatic(network.value(id).type)) continue;
    const TensorType& type = network.value(id).type;
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(*type.sizes(), type.dtype));
    if (bytes <= most) continue;
    NODEWISE_RETURN_IF_ERROR(
        NDArray::Empty(*type.sizes(), type.dtype, kCpu).status());
  }
  return absl::OkStatus();
}

// Otherwise a chain of operations that each double what they read would run as
// long as there is any memory, and fail only then.
absl::Status TryMemory(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const absl::Status status = TryMemory(network, operation);
    if (status.ok()) continue;
    return At(
        fmt::format("operation {} ({})", operation.name, operation.kind()),
        status);
  }
  return absl::OkStatus();
}

}  // namespace

struct Interpreter::Plan {
  struct Step {
    const Operation* operation;
    // Everything that a run could find out is known: all types with all sizes,
    // and the numbers that shapes are made of. So operators have been checked
    // and their outputs inferred, provided that inputs are of their types.
    bool is_static;
    // The inputs are of their types, whatever is given to the network.
    bool is_sure;
    // One for each output.
    std::vector<const TensorType*> types;
    absl::InlinedVector<bool, 4> wanted;
    // For each input: nothing reads it afterwards.
    absl::InlinedVector<bool, 4> is_last_use;
  };

  explicit Plan(const Network& network);

  std::vector<Step> steps;
  std::vector<bool> is_read;       // By value.
  std::vector<NDArray> constants;  // By value.
  absl::Status status;             // What failed while preparing, if anything.

 private:
  Step StepOf(const Network& network, const Operation& operation) const;
  void FindLastUses(const Network& network);

  std::vector<bool> is_sure_;  // By value: it has its type, which is static.
};

Interpreter::Plan::Plan(const Network& network)
    : is_read(network.data().values.size()),
      constants(network.data().values.size()),
      is_sure_(network.data().values.size()) {
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    NDArray& constant = constants[Index(value->id)];
    constant = value->data;
    status.Update(MakeReadable(&constant));
    is_sure_[Index(value->id)] =
        value->kind == NetworkValue::Kind::kConstant ||
        (value->kind == NetworkValue::Kind::kInput && IsStatic(value->type));
  }
  steps.reserve(network.order().size());
  for (const OperationId id : network.order()) {
    steps.push_back(StepOf(network, network.operation(id)));
    const bool is_sure = steps.back().is_static && steps.back().is_sure;
    for (const ValueId output : network.operation(id).outputs) {
      if (output != kNoValue) is_sure_[Index(output)] = is_sure;
    }
  }
  FindLastUses(network);
  status.Update(TryMemory(network));
}

Interpreter::Plan::Step Interpreter::Plan::StepOf(
    const Network& network, const Operation& operation) const {
  Step step{&operation, true, true, {}, {}, {}};
  for (const ValueId id : operation.outputs) {
    step.wanted.push_back(id != kNoValue);
    step.is_static &= id != kNoValue && IsStatic(network.value(id).type);
    if (step.is_static) step.types.push_back(&network.value(id).type);
  }
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const NetworkValue& value = network.value(id);
    const bool may_be_sizes = value.type.dtype.code == kDLInt;
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    step.is_static &= IsStatic(value.type) && (is_constant || !may_be_sizes);
    step.is_sure &= is_sure_[Index(id)];
  }
  return step;
}

void Interpreter::Plan::FindLastUses(const Network& network) {
  // The outputs are read at the end.
  for (const ValueId id : network.outputs()) is_read[Index(id)] = true;
  for (size_t i = steps.size(); i-- > 0;) {
    const std::vector<ValueId>& inputs = steps[i].operation->inputs;
    steps[i].is_last_use.resize(inputs.size());
    for (size_t k = inputs.size(); k-- > 0;) {
      if (inputs[k] == kNoValue) continue;
      steps[i].is_last_use[k] = !is_read[Index(inputs[k])];
      is_read[Index(inputs[k])] = true;
    }
  }
}

// One run, which keeps each tensor as long as something will read it.
class Interpreter::Running {
 public:
  Running(const Interpreter& interpreter, const InterpretOptions& options)
      : network_(interpreter.network_),
        plan_(*interpreter.plan_),
        options_(options),
        evaluation_{options.with_bounds,
                    [this](const Subgraph& body, std::vector<NDArray> inputs) {
                      return RunBody(body, std::move(inputs));
                    }},
        tensors_(plan_.constants.size()) {}

  absl::Status SetInput(ValueId id, NDArray tensor) {
    if (!plan_.is_read[Index(id)]) return absl::OkStatus();
    tensors_[Index(id)] = std::move(tensor);
    return MakeReadable(&tensors_[Index(id)]);
  }

  absl::Status RunStep(const Plan::Step& step) {
    const Operation& operation = *step.operation;
    absl::StatusOr<Evaluated> result = EvaluateStep(step);
    if (!result.ok()) {
      return At(
          fmt::format("operation {} ({})", operation.name, operation.kind()),
          result.status());
    }
    if (options_.observe) {
      NODEWISE_RETURN_IF_ERROR(options_.observe(operation, *result));
    }
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId id = operation.outputs[i];
      if (id == kNoValue || !plan_.is_read[Index(id)]) continue;
      tensors_[Index(id)] = std::move(result->outputs[i]);
    }
    return absl::OkStatus();
  }

  std::vector<NDArray> Outputs() const {
    std::vector<NDArray> outputs;
    for (const ValueId id : network_.outputs()) outputs.push_back(TensorOf(id));
    return outputs;
  }

 private:
  const NDArray& TensorOf(ValueId id) const {
    const NDArray& constant = plan_.constants[Index(id)];
    return constant.defined() ? constant : tensors_[Index(id)];
  }

  absl::StatusOr<Evaluated> EvaluateStep(const Plan::Step& step) {
    const Operation& operation = *step.operation;
    Tensors inputs(operation.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = operation.inputs[i];
      if (id == kNoValue) continue;
      if (step.is_last_use[i] && tensors_[Index(id)].defined()) {
        inputs[i] = std::move(tensors_[Index(id)]);
      } else {
        inputs[i] = TensorOf(id);
      }
    }
    if (step.is_static && (step.is_sure || AreOfTypes(operation, inputs))) {
      return EvaluateChecked(operation.attrs, std::move(inputs), step.types,
                             step.wanted, evaluation_);
    }
    return Evaluate(operation.attrs, std::move(inputs), step.wanted,
                    evaluation_);
  }

  bool AreOfTypes(const Operation& operation,
                  absl::Span<const NDArray> inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = operation.inputs[i];
      if (id == kNoValue) continue;
      if (!IsOfType(inputs[i], network_.value(id).type)) return false;
    }
    return true;
  }

  // A loop runs its body many times.
  absl::StatusOr<std::vector<NDArray>> RunBody(const Subgraph& body,
                                               std::vector<NDArray> inputs) {
    std::unique_ptr<const Interpreter>& prepared = bodies_[body.body.get()];
    if (prepared == nullptr) {
      prepared = std::make_unique<const Interpreter>(*body.body);
    }
    return prepared->Run(std::move(inputs));
  }

  const Network& network_;
  const Plan& plan_;
  const InterpretOptions& options_;
  const EvalArgs::Options evaluation_;
  std::vector<NDArray> tensors_;  // By value, without the constants.
  std::map<const Network*, std::unique_ptr<const Interpreter>> bodies_;
};

Interpreter::Interpreter(const Network& network)
    : network_(network), plan_(std::make_unique<const Plan>(network)) {}
Interpreter::~Interpreter() = default;

absl::StatusOr<std::vector<NDArray>> Interpreter::Run(
    std::vector<NDArray> inputs, const InterpretOptions& options) const {
  NODEWISE_RETURN_IF_ERROR(plan_->status);
  NODEWISE_RETURN_IF_ERROR(CheckInputs(network_, inputs));
  NODEWISE_RETURN_IF_ERROR(BindNames(network_, inputs));
  Running run(*this, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        run.SetInput(network_.inputs()[i], std::move(inputs[i])));
  }
  for (const Plan::Step& step : plan_->steps) {
    NODEWISE_RETURN_IF_ERROR(run.RunStep(step));
  }
  return run.Outputs();
}

absl::StatusOr<std::vector<NDArray>> Interpret(
    const Network& network, std::vector<NDArray> inputs,
    const InterpretOptions& options) {
  return Interpreter(network).Run(std::move(inputs), options);
}

void KeepFreedMemory() {
#ifdef __GLIBC__
  // 32 MiB is the most that glibc takes here.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace nodewise
