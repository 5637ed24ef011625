#include "contrib/lab/autotest/dual/dual_case.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using DualKind = DualObject::State::Kind;

GeneratedValue ShapeAsTuple(const GeneratedValue& tensor) {
  GeneratedTuple sides;
  for (const int64_t side : tensor.As<NDArray>()->shape()) {
    sides.push_back({side});
  }
  return {std::move(sides)};
}

// A copy that the tested side may do with what it likes.
absl::StatusOr<std::vector<NDArray>> CopiesOf(
    const std::vector<NDArray>& tensors) {
  std::vector<NDArray> copies;
  for (const NDArray& tensor : tensors) {
    NODEWISE_ASSIGN_OR_RETURN(copies.emplace_back(), tensor.CopyToHost());
  }
  return copies;
}

}  // namespace

DualObject GetDualObject(const std::string& name, DualCase* owner) {
  DualObject::State state{DualKind::kRuntimes, name, owner};
  return DualObject(
      std::make_shared<const DualObject::State>(std::move(state)));
}

DualCase::DualCase(const OpSet& ops, Candidate& tested,
                   const DualOptions& options, Choices* choices)
    : ops_(ops),
      tested_(tested),
      options_(options),
      draw_(choices),
      network_("program") {
  status_ = network_.SetOpset("", options.opset);
}

absl::Status DualCase::Run(
    const std::function<void(DualObject& onnx)>& program) {
  DualObject onnx = GetDualObject("onnx", this);
  program(onnx);
  if (status_.ok() && draw_.choices()->is_exhausted()) {
    status_ = absl::ResourceExhaustedError(
        fmt::format("the program makes more than {} choices", Choices::kMost));
  }
  return status_;
}

DualObject DualCase::Made(DualObject::State state) {
  state.owner = this;
  return DualObject(
      std::make_shared<const DualObject::State>(std::move(state)));
}

// The program goes on after an error, with objects of nothing: it is a function
// of the test, which could not be left otherwise without exceptions.
DualObject DualCase::Fail(const absl::Status& status) {
  status_.Update(status);
  return Made({DualKind::kPlain, "nothing"});
}

// Sides of a tensor may differ between the two, which is told when the call
// that made it is compared; until then each side goes on with its own.
DualObject DualCase::Attribute(const DualObject::State& of,
                               std::string_view attribute) {
  if (!status_.ok()) return Fail(status_);
  const std::string name(attribute);
  if (of.kind == DualKind::kTensor && name == "shape") {
    return Made({DualKind::kPlain, of.name + ".shape", this,
                 ShapeAsTuple(of.reference), ShapeAsTuple(of.tested)});
  }
  if (of.kind == DualKind::kTensor && name == "dtype") {
    return Made({DualKind::kPlain, of.name + ".dtype", this,
                 GeneratedValue{of.reference.As<NDArray>()->dtype()},
                 GeneratedValue{of.tested.As<NDArray>()->dtype()}});
  }
  if (of.kind != DualKind::kTensor && of.kind != DualKind::kRuntimes) {
    return Fail(InvalidProgram("{} has no attribute {}", of.name, name));
  }
  const OperatorDef* const def = ops_.Find("", name, options_.opset);
  if (def == nullptr) {
    return Fail(absl::InvalidArgumentError(
        fmt::format("{}: there is no operator {} in opset {}{}", of.name, name,
                    options_.opset, DidYouMean(name, ops_.Names()))));
  }
  DualObject::State state{DualKind::kOperator, name, this};
  state.def = def;
  if (of.kind == DualKind::kTensor) {
    // A method: the tensor is the first input.
    for (const DualObject& tensor : dual_objects_to_test_) {
      if (tensor.state_.get() == &of) state.first_inputs = {tensor};
    }
  }
  return Made(std::move(state));
}

// Operators that are called directly are no modules, and are not kept.
void DualCase::NoteUse(const DualObject::State& of) {
  for (const DualObject& module : dual_modules_to_test_) {
    if (module.state_.get() == &of) used_modules_.insert(&of);
  }
}

DualObject DualCase::Bind(const DualObject::State& of,
                          std::vector<DualAttribute> attributes,
                          std::vector<DualInput> parameters) {
  if (!status_.ok()) return Fail(status_);
  if (of.kind != DualKind::kOperator) {
    return Fail(InvalidProgram(
        "{} is not an operator, and cannot become a module", of.name));
  }
  NoteUse(of);
  DualObject::State state = of;
  state.attributes = std::move(attributes);
  state.parameters = std::move(parameters);
  DualObject module = Made(std::move(state));
  dual_modules_to_test_.push_back(module);
  return module;
}

DualObject DualCase::Call(const DualObject::State& of,
                          std::vector<DualInput> inputs,
                          std::vector<DualAttribute> attributes,
                          size_t num_outputs) {
  if (!status_.ok()) return Fail(status_);
  NoteUse(of);
  auto made =
      TryCall(of, std::move(inputs), std::move(attributes), num_outputs);
  return made.ok() ? *std::move(made) : Fail(made.status());
}

// A call is drawn, written down, added to the network of the case, evaluated by
// the reference and run by the tested side, in this order: what the reference
// refuses is no fault of the program, and the case is drawn again then.
absl::StatusOr<DualObject> DualCase::TryCall(
    const DualObject::State& of, std::vector<DualInput> inputs,
    std::vector<DualAttribute> attributes, size_t num_outputs) {
  if (of.kind != DualKind::kOperator) {
    return InvalidProgram("{} cannot be called: it is not an operator",
                          of.name);
  }
  inputs.insert(inputs.begin(), of.first_inputs.begin(), of.first_inputs.end());
  inputs.insert(inputs.end(), of.parameters.begin(), of.parameters.end());
  attributes.insert(attributes.begin(), of.attributes.begin(),
                    of.attributes.end());
  std::string attribute_text;
  NODEWISE_ASSIGN_OR_RETURN(
      const auto drawn,
      DrawAttributes(*of.def, attributes, draw_, &attribute_text));
  NODEWISE_ASSIGN_OR_RETURN(const auto read, InputsOf(inputs));
  const std::string name = fmt::format("y{}", calls_.size());
  NewOperation operation;
  auto attrs = MakeAttrs(*of.def, drawn);
  is_refused_ = !attrs.ok();
  NODEWISE_ASSIGN_OR_RETURN(operation.attrs, std::move(attrs));
  std::vector<std::string> texts;
  Tensors tensors;
  for (const DualObject& input : read) {
    operation.inputs.push_back(input.state_->value);
    // Nothing is called that, and has no tensor.
    texts.push_back(input.name());
    const auto* const tensor = input.reference().As<NDArray>();
    tensors.push_back(tensor == nullptr ? NDArray() : *tensor);
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    operation.outputs.push_back(i == 0 ? name : fmt::format("{}_{}", name, i));
  }
  text_ +=
      fmt::format("const DualObject {} = onnx[\"{}\"].Call({{{}}}, {}, {});\n",
                  name, std::string(of.def->name), fmt::join(texts, ", "),
                  attribute_text.empty() ? "{}" : attribute_text, num_outputs);
  const auto id = network_.AddOperation(std::move(operation));
  is_refused_ = !id.ok();
  NODEWISE_RETURN_IF_ERROR(id.status());
  const absl::InlinedVector<bool, 4> wanted(num_outputs, true);
  auto expected =
      Evaluate(network_.operation(*id).attrs, std::move(tensors), wanted);
  is_refused_ = !expected.ok();
  NODEWISE_RETURN_IF_ERROR(expected.status());
  NODEWISE_ASSIGN_OR_RETURN(DoneCall call, RunTested(*id, read));
  std::vector<DualObject> outputs;
  for (size_t i = 0; i < num_outputs; ++i) {
    const ValueId value = network_.operation(*id).outputs[i];
    DualObject::State state{DualKind::kTensor, network_.value(value).name,
                            this};
    state.reference = {expected->outputs[i]};
    state.tested = {call.outputs.ok() && i < call.outputs->size()
                        ? (*call.outputs)[i]
                        : expected->outputs[i]};
    state.value = value;
    outputs.push_back(Made(std::move(state)));
    dual_objects_to_test_.push_back(outputs.back());
  }
  calls_.push_back(std::move(call));
  // The first output knows the others, as they were before it did.
  DualObject::State first = *outputs[0].state_;
  first.outputs = outputs;
  DualObject& known =
      dual_objects_to_test_[dual_objects_to_test_.size() - num_outputs];
  known = Made(std::move(first));
  return known;
}

absl::StatusOr<std::vector<DualObject>> DualCase::InputsOf(
    const std::vector<DualInput>& inputs) {
  std::vector<DualObject> read;
  for (const DualInput& input : inputs) {
    if (const auto* const object = std::get_if<DualObject>(&input)) {
      if (object->state_->kind != DualKind::kTensor) {
        return InvalidProgram("{} is not a tensor, and cannot be an input",
                              object->name());
      }
      read.push_back(*object);
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(auto leaf, Leaf(std::get<generator>(input)));
    read.push_back(std::move(leaf));
  }
  return read;
}

// A generator that is nothing leaves an argument out. It is not kept among the
// leaves: its value is the same in this case, and it has no tensor.
absl::StatusOr<DualObject> DualCase::Leaf(const generator& from) {
  for (const auto& [known, object] : leaves_) {
    if (known.node() == from.node()) return object;
  }
  NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue value, from.value(draw_));
  if (value.is_nothing()) return Made({DualKind::kTensor, "nothing()"});
  const auto* const tensor = value.As<NDArray>();
  if (tensor == nullptr) {
    return InvalidProgram("found {} as an input, expected a tensor",
                          ToString(value));
  }
  const std::string name = fmt::format("x{}", inputs_.size());
  DualObject::State state{DualKind::kTensor, name, this, value, value};
  NODEWISE_ASSIGN_OR_RETURN(state.value,
                            network_.AddInput(name, TensorType::Of(**tensor)));
  inputs_.push_back(*tensor);
  text_ += fmt::format("const generator {} = {};\n", name, TensorText(*tensor));
  DualObject leaf = Made(std::move(state));
  leaves_.emplace_back(from, leaf);
  dual_objects_to_test_.push_back(leaf);
  return leaf;
}

// Runs a call as a network of its own, on what the calls before gave on the
// tested side: so an error is passed on as it would be in a real run, and
// judged where it arose, since the reference is asked about the same inputs
// later. A tensor that is read twice is one input.
absl::StatusOr<DualCase::DoneCall> DualCase::RunTested(
    OperationId id, const std::vector<DualObject>& inputs) {
  DoneCall call;
  call.operation = id;
  if (!Wants(DualExecution::kEager)) {
    call.outputs = absl::UnimplementedError("not run call by call");
    return call;
  }
  Network alone("call");
  NODEWISE_RETURN_IF_ERROR(alone.SetOpset("", options_.opset));
  const Operation& operation = network_.operation(id);
  NewOperation copy{operation.attrs, {}, operation.name};
  std::vector<std::pair<ValueId, ValueId>> known;
  for (const DualObject& input : inputs) {
    const ValueId value = input.state_->value;
    const auto same = std::ranges::find_if(
        known, [&](const auto& pair) { return pair.first == value; });
    if (value == kNoValue || same != known.end()) {
      copy.inputs.push_back(value == kNoValue ? kNoValue : same->second);
      continue;
    }
    const NDArray& tensor = *input.tested().As<NDArray>();
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId added,
        alone.AddInput(input.name(), TensorType::Of(*tensor)));
    known.emplace_back(value, added);
    copy.inputs.push_back(added);
    call.inputs.push_back(tensor);
  }
  for (const ValueId output : operation.outputs) {
    copy.outputs.push_back(network_.value(output).name);
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId added,
                            alone.AddOperation(std::move(copy)));
  NODEWISE_RETURN_IF_ERROR(alone.SetOutputs(alone.operation(added).outputs));
  call.alone = std::make_shared<const Network>(std::move(alone));
  NODEWISE_ASSIGN_OR_RETURN(const auto copies, CopiesOf(call.inputs));
  call.outputs = RunOnce(tested_, *call.alone, copies);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (HasEqualBytes(copies[i], call.inputs[i])) continue;
    return absl::InternalError(fmt::format("{}: {} has written to input {}",
                                           operation.name, tested_.name(), i));
  }
  return call;
}

absl::Status DualCase::Compare() {
  NODEWISE_RETURN_IF_ERROR(status_);
  NODEWISE_RETURN_IF_ERROR(CheckModules());
  if (Wants(DualExecution::kEager)) {
    for (const DoneCall& call : calls_) {
      NODEWISE_RETURN_IF_ERROR(
          JudgeOn(*call.alone, call.inputs, call.outputs, "called by itself"));
    }
  }
  for (const DualExecution execution :
       {DualExecution::kGraph, DualExecution::kConcurrent}) {
    if (!Wants(execution)) continue;
    NODEWISE_RETURN_IF_ERROR(CompareGraph(execution));
  }
  return options_.with_gradients ? CompareGradients() : absl::OkStatus();
}

absl::Status DualCase::CheckModules() const {
  for (const DualObject& module : dual_modules_to_test_) {
    if (used_modules_.contains(module.state_.get())) continue;
    return InvalidProgram(
        "module {} is never called, expected a call of it (what it is made of "
        "is "
        "compared by its calls)",
        module.name());
  }
  return absl::OkStatus();
}

absl::Status DualCase::SetAllOutputs() {
  std::vector<ValueId> outputs;
  for (const DualObject& tensor : dual_objects_to_test_) {
    const ValueId value = tensor.state_->value;
    if (network_.value(value).kind == NetworkValue::Kind::kOutput) {
      outputs.push_back(value);
    }
  }
  return network_.SetOutputs(std::move(outputs));
}

// Two threads run one network at once, each on the same tensors: what they
// share inside of the tested side shows as a difference, or as a crash.
absl::Status DualCase::CompareGraph(DualExecution execution) {
  NODEWISE_RETURN_IF_ERROR(SetAllOutputs());
  if (network_.outputs().empty()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto copies, CopiesOf(inputs_));
  const std::vector<std::vector<NDArray>> sets = {copies};
  const CandidateJob job{&network_, sets};
  if (execution == DualExecution::kGraph) {
    return JudgeOn(network_, inputs_, RunJobs(tested_, {&job, 1})[0].sets[0],
                   "as one network");
  }
  CandidateOutputs other = std::vector<NDArray>();
  const ThreadFloats floats;
  std::thread thread([&] {
    floats.Adopt();
    other = RunJobs(tested_, {&job, 1})[0].sets[0];
  });
  const CandidateOutputs own = RunJobs(tested_, {&job, 1})[0].sets[0];
  thread.join();
  NODEWISE_RETURN_IF_ERROR(JudgeOn(network_, inputs_, own, "in two threads"));
  return JudgeOn(network_, inputs_, other, "in two threads");
}

// A tolerance of the program takes the place of the bounds of the reference,
// for numbers alone: an output of another shape or type is wrong with any
// tolerance.
absl::Status DualCase::JudgeOn(const Network& network,
                               const std::vector<NDArray>& inputs,
                               const CandidateOutputs& made,
                               std::string_view how, bool is_gradient) const {
  const CaseReference reference(network, is_gradient);
  const CandidateOutputs expected = reference.Run(inputs);
  NODEWISE_RETURN_IF_ERROR(expected.status());
  const CaseVerdict verdict = reference.Judge({inputs, false}, expected, made);
  const bool has_tolerance = options_.tolerance.has_value();
  if (verdict.outcome == CaseOutcome::kCandidateRefuses) {
    return {made.status().code(),
            fmt::format("{} ({}): {}", tested_.name(), std::string(how),
                        MessageOf(made.status()))};
  }
  bool is_wrong = IsFinding(verdict.outcome);
  CaseOutcome outcome = verdict.outcome;
  std::string reason = verdict.reason;
  if (has_tolerance && verdict.outcome <= CaseOutcome::kMismatch) {
    is_wrong = false;
    for (size_t i = 0; i < expected->size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          const Metrics metrics,
          MeasureDifference(*(*expected)[i], *(*made)[i], *options_.tolerance));
      if (metrics.outside == 0) continue;
      is_wrong = true;
      outcome = CaseOutcome::kMismatch;
      reason = CountOf(metrics.outside, "element") + " beyond the tolerance";
    }
  }
  if (!is_wrong) return absl::OkStatus();
  const ValueId output =
      network.outputs()[std::min(verdict.output, network.outputs().size() - 1)];
  return absl::InternalError(fmt::format(
      "{} of {} ({}): {}: {}", network.value(output).name, tested_.name(),
      std::string(how), std::string(NameOf(outcome)), reason));
}

// Of all calls as one network, from everything that comes out to all inputs
// that are floats.
absl::Status DualCase::CompareGradients() {
  NODEWISE_RETURN_IF_ERROR(SetAllOutputs());
  const std::vector<size_t> wanted = FloatInputs(network_);
  if (network_.outputs().empty() || wanted.empty()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(GradientNetwork gradient,
                            GradientOf(network_, wanted));
  const BackwardCase backward{network_, std::move(gradient.outputs),
                              std::move(gradient.inputs)};
  const Network& network = gradient.network;
  NODEWISE_ASSIGN_OR_RETURN(
      auto inputs, WithCotangents(backward, network, inputs_, draw_.choices()));
  return JudgeOn(network, inputs, RunOnce(tested_, network, inputs, &backward),
                 "as a gradient", true);
}

}  // namespace nodewise
