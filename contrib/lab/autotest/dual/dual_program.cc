#include "nodewise/autotest/dual_program.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "absl/status/statusor.h"
#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/draw/shrink_case.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {

struct DualObject::State {
  enum class Kind { kRuntimes, kOperator, kTensor, kPlain };
  Kind kind = Kind::kPlain;
  std::string name;
  DualCase* owner = nullptr;
  GeneratedValue reference = {};
  GeneratedValue tested = {};
  // kOperator: what it is, and what is bound to it.
  const OperatorDef* def = nullptr;
  std::vector<DualInput> first_inputs = {};
  std::vector<DualInput> parameters = {};
  std::vector<DualAttribute> attributes = {};
  // kTensor: its value in the network of the case, and its siblings.
  ValueId value = kNoValue;
  std::vector<DualObject> outputs = {};
};

namespace {

// A page of numbers. A program with a larger tensor can still be drawn again.
constexpr size_t kMostWritten = 256;

// The kind of value that an attribute takes is found out by trying, on an
// operation that nothing else uses. Rows have a setter for each attribute and
// no type.
class AttributeKind {
 public:
  AttributeKind(const OperatorDef& def, const AttrField& field)
      : field_(field), scratch_(def.make()) {}

  // A flag takes 1 and not 2. Whole numbers go before floats, since an
  // attribute that takes either means the whole ones.
  Annotation annotation() const {
    const bool takes_one = Takes(int64_t{1});
    if (takes_one && !Takes(int64_t{2})) return Annotation::kBool;
    if (takes_one || Takes(std::vector<int64_t>{1})) return Annotation::kInt;
    if (Takes(1.0F) || Takes(std::vector<float>{1})) return Annotation::kFloat;
    return Annotation::kAny;
  }

  absl::StatusOr<AttrValue> Convert(const GeneratedValue& value) const {
    for (AttrValue& form : FormsOf(value)) {
      if (Takes(form)) return std::move(form);
    }
    return InvalidArgument("attribute {}: cannot be {}", field_.name,
                           ToString(value));
  }

 private:
  bool Takes(AttrValue value) const {
    return field_.set(scratch_.get(), std::move(value)).ok();
  }

  // All that a value may be meant as, the form that keeps most of it first. A
  // tuple is a list of numbers if all of its elements are numbers.
  static std::vector<AttrValue> FormsOf(const GeneratedValue& value) {
    std::vector<AttrValue> forms;
    if (const auto whole = value.AsInt()) forms.emplace_back(*whole);
    if (const auto number = value.AsDouble()) {
      forms.emplace_back(static_cast<float>(*number));
    }
    if (const auto* const text = value.As<std::string>()) {
      forms.emplace_back(*text);
    }
    if (const auto* const tensor = value.As<NDArray>()) {
      forms.emplace_back(*tensor);
    }
    const auto* const elements = value.As<GeneratedTuple>();
    if (elements == nullptr) return forms;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    for (const GeneratedValue& element : *elements) {
      if (const auto whole = element.AsInt()) ints.push_back(*whole);
      if (const auto number = element.AsDouble()) {
        floats.push_back(static_cast<float>(*number));
      }
    }
    if (ints.size() == elements->size()) forms.emplace_back(std::move(ints));
    if (floats.size() == elements->size()) {
      forms.emplace_back(std::move(floats));
    }
    return forms;
  }

  const AttrField& field_;
  const std::shared_ptr<void> scratch_;
};

// The error about an unknown attribute names those that the operator has.
absl::StatusOr<const AttrField*> FieldOf(const OperatorDef& def,
                                         const std::string& name) {
  std::vector<std::string> names;
  for (const AttrField& field : def.fields) {
    if (field.name == name) return &field;
    names.emplace_back(field.name);
  }
  return InvalidArgument(
      "{} has no attribute {}, expected {}", std::string(def.name), name,
      names.empty() ? "none"
                    : fmt::format("one of: {}", fmt::join(names, ", ")));
}

// As a program would write the value: a text in quotes, a tuple as a call.
std::string CppText(const GeneratedValue& value) {
  if (const auto* const text = value.As<std::string>()) {
    return fmt::format("\"{}\"", *text);
  }
  const auto* const elements = value.As<GeneratedTuple>();
  if (elements == nullptr) return ToString(value);
  std::vector<std::string> texts;
  for (const GeneratedValue& each : *elements) texts.push_back(CppText(each));
  return fmt::format("tuple({{{}}})", fmt::join(texts, ", "));
}

// Draws the attributes of a call and gives them the types that the operator's
// own have; `text` gets them as C++. Fails with kInvalidArgument, naming the
// attribute.
absl::StatusOr<std::vector<NamedAttr>> DrawAttributes(
    const OperatorDef& def, const std::vector<DualAttribute>& attributes,
    CaseDraw& draw, std::string* text) {
  std::vector<NamedAttr> drawn;
  std::vector<std::string> texts;
  for (const DualAttribute& attr : attributes) {
    NODEWISE_ASSIGN_OR_RETURN(const AttrField* field, FieldOf(def, attr.name));
    const AttributeKind kind(def, *field);
    attr.value.to(kind.annotation());
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue value,
                              attr.value.value(draw));
    if (value.is_nothing()) continue;
    NODEWISE_ASSIGN_OR_RETURN(AttrValue converted, kind.Convert(value));
    drawn.push_back({attr.name, std::move(converted)});
    texts.push_back(fmt::format("{{\"{}\", {}}}", attr.name, CppText(value)));
  }
  if (!texts.empty()) *text = fmt::format("{{{}}}", fmt::join(texts, ", "));
  return drawn;
}

// Returns a tensor as C++ that makes it again, as far as it is small.
std::string TensorText(const NDArray& tensor) {
  const std::string type = ToString(TensorType::From(*tensor));
  const auto count = static_cast<size_t>(CountOf(tensor));
  std::vector<double> numbers(count);
  if (count > kMostWritten ||
      !DecodeToDoubles(tensor.dtype(), tensor.data(), count, numbers.data())) {
    return fmt::format("Tensor(\"{}\") /* {} elements, as drawn */", type,
                       count);
  }
  std::vector<std::string> texts;
  for (const double x : numbers) {
    texts.push_back(std::isnan(x)   ? "NAN"
                    : std::isinf(x) ? (x < 0 ? "-INFINITY" : "INFINITY")
                                    : fmt::format("{}", x));
  }
  return fmt::format("Tensor(\"{}\", {{{}}})", type, fmt::join(texts, ", "));
}

using DualKind = DualObject::State::Kind;

// Programs can make generators of a shape, as of any tuple of numbers.
GeneratedValue ShapeAsTuple(const GeneratedValue& tensor) {
  GeneratedTuple sides;
  for (const int64_t side : tensor.As<NDArray>()->shape()) {
    sides.push_back({side});
  }
  return {std::move(sides)};
}

// A copy that the tested side may do with what it likes.
absl::StatusOr<std::vector<NDArray>> CopiesOf(const std::vector<NDArray>& all) {
  std::vector<NDArray> copies;
  for (const NDArray& tensor : all) {
    NODEWISE_ASSIGN_OR_RETURN(copies.emplace_back(), tensor.CopyToHost());
  }
  return copies;
}

}  // namespace

// A program names the reference's runtime alone; the object stands for both.
DualObject GetDualObject(const std::string& name, DualCase* owner) {
  DualObject::State state{DualKind::kRuntimes, name, owner};
  return DualObject(
      std::make_shared<const DualObject::State>(std::move(state)));
}

// One case of a program: what has been drawn and called so far, on both sides.
class DualCase {
 public:
  using State = DualObject::State;

  DualCase(const OpSet& ops, Candidate& tested, const DualOptions& options,
           Choices* choices)
      : ops_(ops), tested_(tested), options_(options), draw_(choices) {
    status_ = network_.SetOpset("", options.opset);
  }

  // Fails if the program, the reference or the tested side does.
  absl::Status Run(const std::function<void(DualObject& onnx)>& program) {
    DualObject onnx = GetDualObject("onnx", this);
    program(onnx);
    if (status_.ok() && draw_.choices()->is_exhausted()) {
      status_ = ResourceExhausted("the program makes more than {} choices",
                                  Choices::kMost);
    }
    return status_;
  }

  absl::Status Compare() {
    NODEWISE_RETURN_IF_ERROR(status_);
    NODEWISE_RETURN_IF_ERROR(CheckModules());
    if (Wants(DualExecution::kEager)) {
      for (const DoneCall& call : calls_) {
        NODEWISE_RETURN_IF_ERROR(JudgeOn(*call.alone, call.inputs, call.outputs,
                                         "called by itself"));
      }
    }
    for (const DualExecution execution :
         {DualExecution::kGraph, DualExecution::kConcurrent}) {
      if (!Wants(execution)) continue;
      NODEWISE_RETURN_IF_ERROR(CompareGraph(execution));
    }
    return options_.with_gradients ? CompareGradients() : absl::OkStatus();
  }

  bool is_refused() const { return is_refused_; }  // By the reference.
  // The program with drawn values, as C++.
  const std::string& text() const { return text_; }

  // --- For DualObject.
  // Sides of a tensor may differ between the two runtimes, which is told when
  // the call that made it is compared; until then each goes on with its own.
  DualObject Attribute(const State& of, std::string_view attribute) {
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
      return Fail(InvalidArgument("{} has no attribute {}", of.name, name));
    }
    const OperatorDef* const def = ops_.Find("", name, options_.opset);
    if (def == nullptr) {
      return Fail(InvalidArgument("{}: there is no operator {} in opset {}{}",
                                  of.name, name, options_.opset,
                                  DidYouMean(name, ops_.Names())));
    }
    State state{DualKind::kOperator, name, this};
    state.def = def;
    if (of.kind == DualKind::kTensor) {
      // A method: the tensor is the first input.
      for (const DualObject& tensor : dual_objects_to_test_) {
        if (tensor.state_.get() == &of) state.first_inputs = {tensor};
      }
    }
    return Made(std::move(state));
  }

  // Parameters are drawn only by the calls that use the module. All calls of
  // one case get the same ones.
  DualObject Bind(const State& of, std::vector<DualAttribute> attributes,
                  std::vector<DualInput> parameters) {
    if (!status_.ok()) return Fail(status_);
    if (of.kind != DualKind::kOperator) {
      return Fail(InvalidArgument(
          "{} is not an operator, and cannot become a module", of.name));
    }
    NoteUse(of);
    State state = of;
    state.attributes = std::move(attributes);
    state.parameters = std::move(parameters);
    DualObject module = Made(std::move(state));
    dual_modules_to_test_.push_back(module);
    return module;
  }

  // A call that fails ends the case; the program may go on.
  DualObject Call(const State& of, std::vector<DualInput> inputs,
                  std::vector<DualAttribute> attributes, size_t num_outputs) {
    if (!status_.ok()) return Fail(status_);
    NoteUse(of);
    auto made =
        TryCall(of, std::move(inputs), std::move(attributes), num_outputs);
    return made.ok() ? *std::move(made) : Fail(made.status());
  }

 private:
  // A call that has been made, to be run again as it was made.
  struct DoneCall {
    OperationId operation = kNoOperation;
    std::shared_ptr<const Network> alone;  // As a network of its own.
    std::vector<NDArray> inputs;           // What the tested side read.
    CandidateOutputs outputs = std::vector<NDArray>();
  };

  // A call is drawn, written down, added to the network of the case, evaluated
  // by the reference and run by the tested side, in this order: what the
  // reference refuses is not a fault of the program, and the case is drawn
  // again then.
  absl::StatusOr<DualObject> TryCall(const State& of,
                                     std::vector<DualInput> inputs,
                                     std::vector<DualAttribute> attributes,
                                     size_t num_outputs) {
    if (of.kind != DualKind::kOperator) {
      return InvalidArgument("{} cannot be called: it is not an operator",
                             of.name);
    }
    inputs.insert(inputs.begin(), of.first_inputs.begin(),
                  of.first_inputs.end());
    inputs.insert(inputs.end(), of.parameters.begin(), of.parameters.end());
    attributes.insert(attributes.begin(), of.attributes.begin(),
                      of.attributes.end());
    std::string attribute_text;
    NODEWISE_ASSIGN_OR_RETURN(
        const auto drawn,
        DrawAttributes(*of.def, attributes, draw_, &attribute_text));
    NODEWISE_ASSIGN_OR_RETURN(const auto read, InputsOf(inputs));
    const std::string name = fmt::format("y{}", calls_.size());
    NewOperation added;
    auto attrs = MakeAttrs(*of.def, drawn);
    is_refused_ = !attrs.ok();
    NODEWISE_ASSIGN_OR_RETURN(added.attrs, std::move(attrs));
    std::vector<std::string> texts;
    Tensors tensors;
    for (const DualObject& input : read) {
      added.inputs.push_back(input.state_->value);
      // An input that is left out is called nothing(), and has no tensor.
      texts.push_back(input.name());
      const auto* const tensor = input.reference().As<NDArray>();
      tensors.push_back(tensor == nullptr ? NDArray() : *tensor);
    }
    for (size_t i = 0; i < num_outputs; ++i) {
      added.outputs.push_back(i == 0 ? name : fmt::format("{}_{}", name, i));
    }
    text_ += fmt::format(
        "const DualObject {} = onnx[\"{}\"].Call({{{}}}, {}, {});\n", name,
        std::string(of.def->name), fmt::join(texts, ", "),
        attribute_text.empty() ? "{}" : attribute_text, num_outputs);
    const auto id = network_.AddOperation(std::move(added));
    is_refused_ = !id.ok();
    NODEWISE_RETURN_IF_ERROR(id.status());
    const absl::InlinedVector<bool, 4> wanted(num_outputs, true);
    auto expected =
        Evaluate(network_.operation(*id).attrs, std::move(tensors), wanted);
    is_refused_ = !expected.ok();
    NODEWISE_RETURN_IF_ERROR(expected.status());
    NODEWISE_ASSIGN_OR_RETURN(DoneCall call, RunTested(*id, read));
    return KeepOutputs(expected->outputs, std::move(call));
  }

  // Makes objects of what a call gave on both sides, and returns the first.
  // Where the tested side gave nothing, the program goes on with the
  // reference's.
  DualObject KeepOutputs(absl::Span<const NDArray> expected, DoneCall call) {
    const Operation& operation = network_.operation(call.operation);
    std::vector<DualObject> outputs;
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId value = operation.outputs[i];
      State state{DualKind::kTensor, network_.value(value).name, this};
      state.reference = {expected[i]};
      state.tested = {call.outputs.ok() && i < call.outputs->size()
                          ? (*call.outputs)[i]
                          : expected[i]};
      state.value = value;
      outputs.push_back(Made(std::move(state)));
    }
    calls_.push_back(std::move(call));
    // The first output also holds a list of all; the copy of it in that list
    // does not have one.
    State first = *outputs[0].state_;
    first.outputs = outputs;
    outputs[0] = Made(std::move(first));
    dual_objects_to_test_.insert(dual_objects_to_test_.end(), outputs.begin(),
                                 outputs.end());
    return outputs[0];
  }

  absl::StatusOr<std::vector<DualObject>> InputsOf(
      const std::vector<DualInput>& inputs) {
    std::vector<DualObject> read;
    for (const DualInput& input : inputs) {
      if (const auto* const object = std::get_if<DualObject>(&input)) {
        if (object->state_->kind != DualKind::kTensor) {
          return InvalidArgument("{} is not a tensor, and cannot be an input",
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

  // A generator that is nothing leaves an argument out. It is not kept among
  // the leaves: its value is the same in this case, and it has no tensor.
  absl::StatusOr<DualObject> Leaf(const generator& from) {
    for (const auto& [known, object] : leaves_) {
      if (known.node() == from.node()) return object;
    }
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue value, from.value(draw_));
    if (value.is_nothing()) return Made({DualKind::kTensor, "nothing()"});
    const auto* const tensor = value.As<NDArray>();
    if (tensor == nullptr) {
      return InvalidArgument("found {} as an input, expected a tensor",
                             ToString(value));
    }
    const std::string name = fmt::format("x{}", inputs_.size());
    State state{DualKind::kTensor, name, this, value, value};
    NODEWISE_ASSIGN_OR_RETURN(
        state.value, network_.AddInput(name, TensorType::From(**tensor)));
    inputs_.push_back(*tensor);
    text_ +=
        fmt::format("const generator {} = {};\n", name, TensorText(*tensor));
    DualObject leaf = Made(std::move(state));
    leaves_.emplace_back(from, leaf);
    dual_objects_to_test_.push_back(leaf);
    return leaf;
  }

  // Runs a call as a network of its own, on what the calls before gave on the
  // tested side: so an error is passed on as it would be in a real run, and
  // judged where it arose, since the reference is asked about the same inputs
  // later. A tensor that is read twice is one input.
  absl::StatusOr<DoneCall> RunTested(OperationId id,
                                     const std::vector<DualObject>& inputs) {
    DoneCall call;
    call.operation = id;
    if (!Wants(DualExecution::kEager)) {
      call.outputs = Unimplemented("not run call by call");
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
          alone.AddInput(input.name(), TensorType::From(*tensor)));
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
      return Internal("{}: {} has written to input {}", operation.name,
                      tested_.name(), i);
    }
    return call;
  }

  // A module that no call uses would be compared with nothing.
  absl::Status CheckModules() const {
    for (const DualObject& module : dual_modules_to_test_) {
      if (used_modules_.contains(module.state_.get())) continue;
      return InvalidArgument(
          "module {} is never called, expected a call of it (what it is made "
          "of is compared by its calls)",
          module.name());
    }
    return absl::OkStatus();
  }

  absl::Status SetAllOutputs() {
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
  absl::Status CompareGraph(DualExecution execution) {
    NODEWISE_RETURN_IF_ERROR(SetAllOutputs());
    if (network_.outputs().empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const auto copies, CopiesOf(inputs_));
    if (execution == DualExecution::kGraph) {
      return JudgeOn(network_, inputs_, RunOnce(tested_, network_, copies),
                     "as one network");
    }
    CandidateOutputs other = std::vector<NDArray>();
    const ThreadFloats floats;
    std::thread thread([&] {
      floats.Adopt();
      other = RunOnce(tested_, network_, copies);
    });
    const CandidateOutputs own = RunOnce(tested_, network_, copies);
    thread.join();
    NODEWISE_RETURN_IF_ERROR(JudgeOn(network_, inputs_, own, "in two threads"));
    return JudgeOn(network_, inputs_, other, "in two threads");
  }

  absl::Status CompareGradients() {
    NODEWISE_RETURN_IF_ERROR(SetAllOutputs());
    const std::vector<size_t> wanted = FloatInputs(network_);
    if (network_.outputs().empty() || wanted.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(auto gradient, GradientOf(network_, wanted));
    const BackwardCase backward{network_, std::move(gradient.outputs),
                                std::move(gradient.inputs)};
    const Network& network = gradient.network;
    NODEWISE_ASSIGN_OR_RETURN(
        auto inputs,
        WithCotangents(backward, network, inputs_, draw_.choices()));
    return JudgeOn(network, inputs,
                   RunOnce(tested_, network, inputs, &backward),
                   "as a gradient", true);
  }

  // A tolerance of the program takes the place of the bounds of the reference,
  // for numbers alone: an output of another shape or type is wrong with any
  // tolerance.
  absl::Status JudgeOn(const Network& network,
                       const std::vector<NDArray>& inputs,
                       const CandidateOutputs& made, std::string_view how,
                       bool is_gradient = false) const {
    const CaseReference reference(network, is_gradient);
    const CandidateOutputs expected = reference.Run(inputs);
    NODEWISE_RETURN_IF_ERROR(expected.status());
    CaseVerdict verdict = reference.Judge({inputs}, expected, made);
    const bool has_tolerance = options_.tolerance.has_value();
    if (verdict.outcome == CaseOutcome::kCandidateRefuses) {
      return {made.status().code(),
              fmt::format("{} ({}): {}", tested_.name(), std::string(how),
                          MessageOf(made.status()))};
    }
    if (has_tolerance && verdict.outcome <= CaseOutcome::kMismatch) {
      verdict.outcome = CaseOutcome::kAgrees;
      for (size_t i = 0; i < expected->size(); ++i) {
        NODEWISE_ASSIGN_OR_RETURN(
            const Metrics metrics,
            MeasureDifference(*(*expected)[i], *(*made)[i],
                              *options_.tolerance));
        if (metrics.outside == 0) continue;
        verdict.outcome = CaseOutcome::kMismatch;
        verdict.reason =
            CountOf(metrics.outside, "element") + " beyond the tolerance";
      }
    }
    if (!IsFinding(verdict.outcome)) return absl::OkStatus();
    const auto outputs = network.outputs();
    const ValueId output =
        outputs[std::min(verdict.output, outputs.size() - 1)];
    return Internal("{} of {} ({}): {}: {}", network.value(output).name,
                    tested_.name(), std::string(how),
                    std::string(NameOf(verdict.outcome)), verdict.reason);
  }

  bool Wants(DualExecution execution) const {
    return std::ranges::count(options_.executions, execution) > 0;
  }

  // An operator that is called directly is not a module, and is not kept.
  void NoteUse(const State& of) {
    for (const DualObject& module : dual_modules_to_test_) {
      if (module.state_.get() == &of) used_modules_.insert(&of);
    }
  }

  // The program goes on after an error, with objects of nothing: it is a
  // function of the test, which could not be left otherwise without
  // exceptions.
  DualObject Fail(const absl::Status& status) {
    status_.Update(status);
    return Made({DualKind::kPlain, "nothing"});
  }

  // Objects are shared and never change: what comes of calling or binding one
  // is another object.
  DualObject Made(State state) {
    state.owner = this;
    return DualObject(std::make_shared<const State>(std::move(state)));
  }

  const OpSet& ops_;
  Candidate& tested_;
  const DualOptions& options_;
  CaseDraw draw_;
  absl::Status status_;
  bool is_refused_ = false;
  Network network_{"program"};
  std::vector<NDArray> inputs_;
  // By generator, so that one that is used twice is one tensor.
  std::vector<std::pair<generator, DualObject>> leaves_;
  std::vector<DoneCall> calls_;
  std::vector<DualObject> dual_objects_to_test_;  // Tensors.
  std::vector<DualObject> dual_modules_to_test_;
  std::set<const State*> used_modules_;  // Called, or bound again.
  std::string text_;
};

namespace {

using DualProgram = std::function<void(DualObject& onnx)>;

// A seed of the environment repeats a failure without a change of the test.
uint64_t SeedOf(const DualOptions& options) {
  if (options.seed.has_value()) return *options.seed;
  const char* const given = std::getenv("NODEWISE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

struct Tried {
  absl::Status status;
  bool is_refused = false;
  std::string text;
  std::vector<Choice> made;
  std::vector<ChoiceSpan> groups;
};

// Comparing gradients draws cotangents, so the choices are read only at the
// end.
Tried Try(const OpSet& ops, Candidate& tested, const DualProgram& program,
          const DualOptions& options, Choices choices) {
  Tried tried;
  DualCase one(ops, tested, options, &choices);
  tried.status = one.Run(program);
  tried.is_refused = one.is_refused();
  if (tried.status.ok()) tried.status = one.Compare();
  tried.text = one.text();
  tried.made.assign(choices.made().begin(), choices.made().end());
  tried.groups.assign(choices.groups().begin(), choices.groups().end());
  return tried;
}

// Only what was compared and found wrong: other errors are not worth shrinking.
bool Differs(const Tried& tried) { return absl::IsInternal(tried.status); }

// Returns the simplest case that differs, too. Each simpler sequence of
// choices runs the whole program again; after a success the search begins
// anew, with what that run has chosen. That has to be simpler itself, since
// choices that were changed may be asked for in another order.
Tried Simplest(const OpSet& ops, Candidate& tested, const DualProgram& program,
               const DualOptions& options, Tried best) {
  size_t tries = 0;
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (auto& values :
         SimplerSequences(best.made, best.groups, options.most_tries)) {
      if (++tries > options.most_tries) return best;
      Tried tried =
          Try(ops, tested, program, options, Choices(std::move(values)));
      if (!Differs(tried) ||
          !IsSimpler(ValuesOf(tried.made), ValuesOf(best.made))) {
        continue;
      }
      best = std::move(tried);
      has_changed = true;
      break;
    }
  }
  return best;
}

}  // namespace

const std::string& DualObject::name() const { return state_->name; }
const GeneratedValue& DualObject::reference() const {
  return state_->reference;
}
const GeneratedValue& DualObject::tested() const { return state_->tested; }

// An object asks its case, which has both sides and notes the first error.
DualObject DualObject::operator[](std::string_view attribute) const {
  return state_->owner->Attribute(*state_, attribute);
}
DualObject DualObject::operator()(std::vector<DualInput> inputs,
                                  std::vector<DualAttribute> attributes) const {
  const size_t count = state_->def == nullptr ? 1 : state_->def->min_outputs();
  return Call(std::move(inputs), std::move(attributes), count);
}
DualObject DualObject::Call(std::vector<DualInput> inputs,
                            std::vector<DualAttribute> attributes,
                            size_t num_outputs) const {
  return state_->owner->Call(*state_, std::move(inputs), std::move(attributes),
                             num_outputs);
}
DualObject DualObject::Module(std::vector<DualAttribute> attributes,
                              std::vector<DualInput> parameters) const {
  return state_->owner->Bind(*state_, std::move(attributes),
                             std::move(parameters));
}
DualObject DualObject::Output(size_t output) const {
  return output < state_->outputs.size() ? state_->outputs[output] : *this;
}

// A case that the reference refuses is drawn again, from a stream of its own,
// so that the cases behind it stay the same.
// NOLINTNEXTLINE(readability-identifier-naming)
absl::Status autotest(const OpSet& ops, Candidate& tested,
                      const DualProgram& program, const DualOptions& options) {
  const uint64_t seed = SeedOf(options);
  absl::Status refused;
  for (uint64_t number = 0; number < options.n; ++number) {
    Tried tried;
    uint64_t attempt = 0;
    do {
      tried = Try(ops, tested, program, options,
                  Choices(RandomSource(
                      seed, fmt::format("case {}.{}", number, attempt))));
    } while (tried.is_refused && ++attempt < options.most_refused);
    if (tried.is_refused) {
      return At(fmt::format("seed {}, case {}: none of {} draws is legal", seed,
                            number, options.most_refused),
                tried.status);
    }
    if (tried.status.ok()) continue;
    if (!Differs(tried)) {
      return At(fmt::format("seed {}, case {}", seed, number), tried.status);
    }
    tried = Simplest(ops, tested, program, options, std::move(tried));
    return Internal(
        "{}\n\nThe program, as simple as it could be made:\n\n{}\n"
        "NODEWISE_SEED={} draws case {} again.\n",
        MessageOf(tried.status), tried.text, seed, number);
  }
  return absl::OkStatus();
}

}  // namespace nodewise
