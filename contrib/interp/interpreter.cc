#include "nodewise/interp/interpreter.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "contrib/interp/interpreter_plan.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/machine.h"
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
    if (IsOfType(inputs[i], value.type)) continue;
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

}  // namespace

// One run, which keeps each tensor as long as something will read it.
class Interpreter::Running {
 public:
  Running(const Interpreter& interpreter, const InterpretOptions& options)
      : network_(interpreter.network_),
        evaluator_(interpreter.evaluator_),
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

  // Returns true if the run is to end here.
  absl::StatusOr<bool> RunStep(const Plan::Step& step) {
    const Operation& operation = *step.operation;
    const WorkingOn on(operation.name);
    OperationRun run{operation, {}, {}};
    if (options_.observe) run.time.start_ns = ClockNanoseconds();
    absl::StatusOr<Evaluated> result = EvaluateStep(step);
    if (!result.ok()) {
      return At(
          fmt::format("operation {} ({})", operation.name, operation.kind()),
          result.status());
    }
    run.result = *std::move(result);
    bool is_last = false;
    if (options_.observe) {
      run.time.end_ns = ClockNanoseconds();
      NODEWISE_ASSIGN_OR_RETURN(is_last, options_.observe(run));
    }
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId id = operation.outputs[i];
      if (id == kNoValue || !plan_.is_read[Index(id)]) continue;
      tensors_[Index(id)] = std::move(run.result.outputs[i]);
    }
    return is_last;
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

  Tensors TakeInputs(const Plan::Step& step) {
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
    return inputs;
  }

  absl::StatusOr<Evaluated> EvaluateStep(const Plan::Step& step) {
    const Operation& operation = *step.operation;
    Tensors inputs = TakeInputs(step);
    if (options_.replaced.empty()) return Compute(step, std::move(inputs));
    Evaluated result;
    const auto replaced = [&](size_t i) {
      return options_.replaced.find(operation.outputs[i]);
    };
    bool is_needed = false;
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      is_needed |= operation.outputs[i] != kNoValue &&
                   replaced(i) == options_.replaced.end();
    }
    if (is_needed) {
      NODEWISE_ASSIGN_OR_RETURN(result, Compute(step, std::move(inputs)));
    }
    result.outputs.resize(operation.outputs.size());
    if (options_.with_bounds) result.bounds.resize(operation.outputs.size());
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      if (replaced(i) == options_.replaced.end()) continue;
      result.outputs[i] = replaced(i)->second;
      if (options_.with_bounds) result.bounds[i] = Bounds();
    }
    return result;
  }

  absl::StatusOr<Evaluated> Compute(const Plan::Step& step, Tensors inputs) {
    const bool is_checked =
        step.is_static && (step.is_sure || AreOfTypes(*step.operation, inputs));
    return evaluator_.Evaluate(
        {*step.operation, std::move(inputs), step.wanted,
         is_checked ? absl::MakeConstSpan(step.types)
                    : absl::Span<const TensorType* const>()},
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
      prepared = std::make_unique<const Interpreter>(*body.body, evaluator_);
    }
    return prepared->RunShared(std::move(inputs), {});
  }

  const Network& network_;
  const Evaluator& evaluator_;
  const Plan& plan_;
  const InterpretOptions& options_;
  const EvalArgs::Options evaluation_;
  std::vector<NDArray> tensors_;  // By value, without the constants.
  std::map<const Network*, std::unique_ptr<const Interpreter>> bodies_;
};

Interpreter::Interpreter(const Network& network, const Evaluator& evaluator)
    : network_(network),
      evaluator_(evaluator),
      plan_(std::make_unique<const Plan>(network)) {}
Interpreter::~Interpreter() = default;

absl::StatusOr<std::vector<NDArray>> Interpreter::Run(
    std::vector<NDArray> inputs, const InterpretOptions& options) const {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> outputs,
                            RunShared(std::move(inputs), options));
  // The caller may write to what it gets, which may be a constant.
  for (NDArray& output : outputs) {
    if (!output.is_read_only()) continue;
    NODEWISE_ASSIGN_OR_RETURN(output, output.CopyToHost());
  }
  return outputs;
}

absl::StatusOr<std::vector<NDArray>> Interpreter::RunShared(
    std::vector<NDArray> inputs, const InterpretOptions& options) const {
  const DefaultFloatEnvironment floats;
  NODEWISE_RETURN_IF_ERROR(plan_->status);
  NODEWISE_RETURN_IF_ERROR(CheckInputs(network_, inputs));
  NODEWISE_RETURN_IF_ERROR(BindNames(network_, inputs));
  Running run(*this, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        run.SetInput(network_.inputs()[i], std::move(inputs[i])));
  }
  for (const Plan::Step& step : plan_->steps) {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_last, run.RunStep(step));
    if (is_last) break;
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
