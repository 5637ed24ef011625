// Runs a network operation by operation. A Plan is worked out once for all
// runs: which types are known beforehand, so that operators need not be
// checked again, and who reads a value last, so that its memory can be let go
// or written over.

#include "nodewise/interp/interpreter.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

class RowEvaluator : public Evaluator {
 public:
  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    const OpAttrs& attrs = call.operation.attrs;
    if (call.types.empty()) {
      return nodewise::Evaluate(attrs, std::move(call.inputs), call.wanted,
                                options);
    }
    return EvaluateChecked(attrs, std::move(call.inputs), call.types,
                           call.wanted, options);
  }
};

// An operation whose types are all known beforehand is checked and inferred
// only once, when the interpreter is made; any other pays for that in each run.
Support QueryReference(const OpAttrs& attrs, const Inputs& inputs,
                       absl::Span<const OutputInfo> outputs) {
  Support support;
  if (attrs.def().evaluate == nullptr) {
    return {false, "it has no definition to compute it by", {}};
  }
  bool is_known = true;
  for (const OutputInfo& output : outputs) is_known &= output.type.is_static();
  for (size_t i = 0; i < inputs.size(); ++i) {
    is_known &= !inputs.has(i) || inputs.type(i).is_static();
  }
  if (!is_known) {
    support.penalties = {
        "its types are not all known beforehand, so it is checked and inferred "
        "again in each run"};
  }
  return support;
}

bool IsStatic(const TensorType& type) {
  return type.has_dtype() && type.is_static();
}

absl::StatusOr<size_t> BytesOf(const TensorType& type) {
  return TensorBytes(*type.sizes(), type.dtype);
}

// Tries to allocate the memory of its outputs, as running it will. An output no
// larger than an input may be a view of it.
absl::Status TryMemory(const Network& network, const Operation& operation) {
  // Trying smaller outputs is not worth the trouble.
  constexpr size_t kLittle = size_t{1} << 30;
  size_t most = kLittle;
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const TensorType& type = network.value(id).type;
    if (!IsStatic(type)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(type));
    most = std::max(most, bytes);
  }
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue || !IsStatic(network.value(id).type)) continue;
    const TensorType& type = network.value(id).type;
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(type));
    if (bytes <= most) continue;
    NODEWISE_RETURN_IF_ERROR(
        NDArray::Empty(*type.sizes(), type.dtype, kCpu).status());
  }
  return absl::OkStatus();
}

std::string PlaceOfRun(const Operation& operation) {
  return fmt::format("operation {} ({})", operation.name, operation.kind());
}

// All outputs are tried before the run: a chain of operations that each double
// what they read would otherwise run as long as there is any memory, and fail
// only then.
absl::Status TryMemory(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const absl::Status status = TryMemory(network, operation);
    if (status.ok()) continue;
    return At(PlaceOfRun(operation), status);
  }
  return absl::OkStatus();
}

// IsOfType() decides the usual case, all types known, without making a type.
absl::Status CheckInputs(const Network& network,
                         absl::Span<const NDArray> inputs) {
  if (inputs.size() != network.inputs().size()) {
    return InvalidArgument("network {}: found {} inputs, expected {}",
                           network.name(), inputs.size(),
                           network.inputs().size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NetworkValue& value = network.value(network.inputs()[i]);
    if (!inputs[i].defined()) {
      return InvalidArgument("input {}: is not given", value.name);
    }
    if (IsOfType(inputs[i], value.type)) continue;
    const TensorType type = TensorType::From(*inputs[i]);
    if (AreCompatible(type, value.type)) continue;
    return InvalidArgument("input {}: is {}, expected {}", value.name,
                           ToString(type), ToString(value.type));
  }
  return absl::OkStatus();
}

// Works out the sizes that the names stand for in this run; fails with
// kInvalidArgument if an input contradicts one before it.
absl::Status CheckNames(const Network& network,
                        absl::Span<const NDArray> inputs) {
  std::map<std::string, int64_t> sizes;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const NetworkValue& value = network.value(network.inputs()[k]);
    if (!value.type.has_rank()) continue;
    for (size_t i = 0; i < value.type.shape->size(); ++i) {
      const Dim& side = (*value.type.shape)[i];
      if (side.is_known() || side.name().empty()) continue;
      const int64_t size = inputs[k].shape()[i];
      const auto [bound, is_new] = sizes.emplace(side.name(), size);
      if (is_new || bound->second == size) continue;
      return InvalidArgument(
          "input {}: side {} ({}) is {}, expected {} as in the inputs before",
          value.name, i, side.name(), size, bound->second);
    }
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
    // The operation's inputs have the types that are known for them, regardless
    // of what the network is given.
    bool is_sure;
    // One for each output.
    std::vector<const TensorType*> types;
    absl::InlinedVector<bool, 4> wanted;
    // For each input: nothing reads it afterwards.
    absl::InlinedVector<bool, 4> is_last_use;
  };

  explicit Plan(const Network& network)
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

  std::vector<Step> steps;
  std::vector<bool> is_read;       // By value.
  std::vector<NDArray> constants;  // By value.
  absl::Status status;             // What failed while preparing, if anything.

 private:
  Step StepOf(const Network& network, const Operation& operation) const {
    Step step{&operation, true, true, {}, {}, {}};
    for (const ValueId id : operation.outputs) {
      step.wanted.push_back(id != kNoValue);
      // A type that one run found need not hold in the next.
      step.is_static &= id != kNoValue && IsStatic(network.value(id).type) &&
                        !network.value(id).found.has_value();
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

  // Walks backwards: the first that reads a value is the last one to use it.
  void FindLastUses(const Network& network) {
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

  std::vector<bool> is_sure_;  // By value: it has its type, which is static.
};

const Evaluator& ReferenceEvaluator() {
  static const RowEvaluator evaluator;
  return evaluator;
}

const Target& ReferenceTarget() {
  static constexpr Target kReference = {{"reference", "cpu"}, &QueryReference};
  return kReference;
}

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
    if (!result.ok()) return At(PlaceOfRun(operation), result.status());
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

  // An input is moved out at its last use, so that the operation holds it
  // alone and may write over it. Constants stay: their plan is shared by all
  // runs.
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

  // Values that are replaced go in behind the computation, which is left out
  // if it has nothing else to make.
  absl::StatusOr<Evaluated> EvaluateStep(const Plan::Step& step) {
    const Operation& operation = *step.operation;
    Tensors inputs = TakeInputs(step);
    if (options_.replaced.empty()) return Compute(step, std::move(inputs));
    const auto replaced = [&](ValueId id) {
      return options_.replaced.find(id);
    };
    const auto none = options_.replaced.end();
    Evaluated result;
    if (std::ranges::any_of(operation.outputs, [&](ValueId id) {
          return id != kNoValue && replaced(id) == none;
        })) {
      NODEWISE_ASSIGN_OR_RETURN(result, Compute(step, std::move(inputs)));
    }
    result.outputs.resize(operation.outputs.size());
    if (options_.with_bounds) result.bounds.resize(operation.outputs.size());
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const auto given = replaced(operation.outputs[i]);
      if (given == none) continue;
      result.outputs[i] = given->second;
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

  // A step that is static but not sure was inferred with types that a run of
  // other sizes does not have.
  bool AreOfTypes(const Operation& operation,
                  absl::Span<const NDArray> inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = operation.inputs[i];
      if (id == kNoValue) continue;
      if (!IsOfType(inputs[i], network_.value(id).type)) return false;
    }
    return true;
  }

  // A loop runs its body many times, so each body's interpreter is kept.
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

// Numbers must not depend on what a program has set the floating-point
// environment to, and names of sides must mean one size in all inputs.
absl::StatusOr<std::vector<NDArray>> Interpreter::RunShared(
    std::vector<NDArray> inputs, const InterpretOptions& options) const {
  const DefaultFloatEnvironment floats;
  NODEWISE_RETURN_IF_ERROR(plan_->status);
  NODEWISE_RETURN_IF_ERROR(CheckInputs(network_, inputs));
  NODEWISE_RETURN_IF_ERROR(CheckNames(network_, inputs));
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
