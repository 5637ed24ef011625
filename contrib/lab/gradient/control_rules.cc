#include <algorithm>
#include <iterator>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/status.h"

// Operators that run bodies: networks of their own, which other bodies are made
// of.

namespace nodewise::gradient {
namespace {

using Numbers = std::vector<size_t>;

// Types of the first two inputs of a loop's body: the number of the trip, and
// whether the loop goes on.
TensorType NumberType() { return TensorType(kInt64, Shape()); }
TensorType TruthType() { return TensorType(kBool, Shape()); }

// A Scan may leave out its lists of axes and directions, which then count as
// zeros.
int64_t AttributeAt(absl::Span<const int64_t> list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

// --- Bodies are told what is known outside of them ---

class Closing {
 public:
  Closing(const Operation& operation, Network* network)
      : operation_(operation), network_(*network) {}

  absl::Status Run() {
    const OpAttrs& attrs = operation_.attrs;
    if (const auto* op = attrs.As<ops::If>()) return CloseIf(*op);
    if (const auto* op = attrs.As<ops::Loop>()) return CloseLoop(*op);
    if (const auto* op = attrs.As<ops::Scan>()) return CloseScan(*op);
    return absl::OkStatus();
  }

 private:
  const TensorType& TypeOf(size_t input) const {
    return network_.value(operation_.inputs[input]).type;
  }

  absl::Status CloseIf(ops::If op) {
    NODEWISE_RETURN_IF_ERROR(Close({}, 1, &op.else_branch));
    NODEWISE_RETURN_IF_ERROR(
        Close({}, 1 + op.else_branch.captures, &op.then_branch));
    return Replace(op);
  }

  absl::Status CloseLoop(ops::Loop op) {
    const size_t carried = operation_.inputs.size() - 2 - op.body.captures;
    std::vector<TensorType> types = {NumberType(), TruthType()};
    for (size_t i = 0; i < carried; ++i) types.push_back(TypeOf(2 + i));
    NODEWISE_RETURN_IF_ERROR(Close(types, 2 + carried, &op.body));
    for (size_t i = 0; i < carried; ++i) {
      const ValueId made = op.body.body->outputs()[1 + i];
      // If a trip changes the type of a carried value, the types that the body
      // has been given hold for the first trip alone, and the loop stays as it
      // was.
      if (!(op.body.body->value(made).type == types[2 + i])) {
        return absl::OkStatus();
      }
    }
    return Replace(op);
  }

  absl::Status CloseScan(ops::Scan op) {
    const size_t given = operation_.inputs.size() - op.body.captures;
    const size_t states = given - static_cast<size_t>(op.num_scan_inputs);
    std::vector<TensorType> types;
    for (size_t i = 0; i < given; ++i) {
      TensorType type = TypeOf(i);
      if (i >= states && type.has_rank()) {
        const int64_t axis =
            FromFront(AttributeAt(op.scan_input_axes, i - states), type.rank());
        type.shape->erase(type.shape->begin() + axis);
      }
      types.push_back(std::move(type));
    }
    NODEWISE_RETURN_IF_ERROR(Close(types, given, &op.body));
    return Replace(op);
  }

  // `types` are those of the inputs that the operator defines; captures begin
  // with input `first` of the operation.
  absl::Status Close(absl::Span<const TensorType> types, size_t first,
                     Subgraph* graph) const {
    Network body = *graph->body;
    const std::vector<ValueId> old(body.inputs().begin(), body.inputs().end());
    for (size_t i = 0; i < old.size(); ++i) {
      const bool is_captured = i >= types.size();
      const NetworkValue* const source =
          is_captured
              ? &network_.value(operation_.inputs[first + i - types.size()])
              : nullptr;
      // A constant becomes the body's own: sizes and indices that depend on it
      // are known inside then. The capture stays, and nothing reads it.
      if (is_captured && source->kind == NetworkValue::Kind::kConstant) {
        NODEWISE_ASSIGN_OR_RETURN(const ValueId data,
                                  body.AddConstant("", source->data));
        NODEWISE_RETURN_IF_ERROR(body.ReplaceUses({&old[i], 1}, {&data, 1}));
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(TensorType type,
                                Unite(body.value(old[i]).type,
                                      is_captured ? source->type : types[i]));
      if (!(type == body.value(old[i]).type)) {
        NODEWISE_RETURN_IF_ERROR(body.SetInputType(old[i], std::move(type)));
      }
    }
    graph->body = ShareNetwork(std::move(body));
    return absl::OkStatus();
  }

  template <typename Class>
  absl::Status Replace(const Class& op) {
    NewOperation copy{OpAttrs::From(&operation_.def(), op), operation_.inputs};
    std::vector<ValueId> from;
    for (const ValueId output : operation_.outputs) {
      if (output == kNoValue) {
        copy.outputs.emplace_back();
        continue;
      }
      copy.outputs.push_back(
          FreeName(network_, network_.value(output).name + "_closed"));
      from.push_back(output);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                              network_.AddOperation(std::move(copy)));
    std::vector<ValueId> to = network_.operation(id).outputs;
    std::erase(to, kNoValue);
    NODEWISE_RETURN_IF_ERROR(network_.ReplaceUses(from, to));
    return network_.Remove(operation_.id);
  }

  // A copy: adding the operation that replaces it moves the network's own.
  const Operation operation_;
  Network& network_;
};

// --- Bodies are made of others ---

// Returns the gradient for these inputs of a body, of these outputs: its inputs
// are the body's, then a cotangent for each of the outputs. Fails as GradientOf
// does. REQUIRES: both lists have an element, and all are floats.
absl::StatusOr<Network> GradientOfBody(Network body, const Numbers& outputs,
                                       const Numbers& inputs) {
  std::vector<ValueId> reached;
  for (const size_t i : outputs) reached.push_back(body.outputs()[i]);
  NODEWISE_RETURN_IF_ERROR(body.SetOutputs(std::move(reached)));
  auto made = GradientOf(body, inputs);
  if (!made.ok()) return At("in a body", made.status());
  return std::move(made->network);
}

TensorType TypeOutside(Term term) {
  return term.writer().network().value(term.id()).type;
}

// Gives a network other inputs, from which the old ones are calculated. First
// come those that an operator defines, then captures.
class BodyEditor {
 public:
  explicit BodyEditor(Network network) : network_(std::move(network)) {}
  BodyEditor(const BodyEditor&) = delete;
  BodyEditor& operator=(const BodyEditor&) = delete;

  Writer& writer() { return writer_; }
  bool Reads(size_t old) const {
    const auto outputs = network_.outputs();
    return !network_.value(old_[old]).uses.empty() ||
           std::ranges::count(outputs, old_[old]) > 0;
  }
  TensorType TypeOf(size_t old) const { return network_.value(old_[old]).type; }
  Term AddInput(const TensorType& type) {
    if (!writer_.status().ok()) return writer_.TermOf(kNoValue);
    return writer_.TermOf(
        network_.AddInput(FreeName(network_, "input_of_gradient"), type));
  }
  // Adds an input for a value of the network outside.
  Term Capture(Term outer) { return Capture(outer, TypeOutside(outer)); }
  void Replace(size_t old, Term by) { by_[old] = by; }
  // Does nothing about an input that is not read.
  void ReplaceByCapture(size_t old, Term outer) {
    if (Reads(old)) Replace(old, Capture(outer, TypeOf(old)));
  }

  // Ends the replacements, and returns the outputs. REQUIRES: there is one for
  // each input that is read.
  Terms Outputs() {
    std::vector<ValueId> from, to;
    for (const auto& [old, by] : by_) {
      from.push_back(old_[old]);
      to.push_back(by.id());
    }
    if (writer_.status().ok() && !from.empty()) {
      writer_.Fail(network_.ReplaceUses(from, to));
    }
    Terms outputs;
    for (const ValueId id : network_.outputs()) {
      outputs.push_back(writer_.TermOf(id));
    }
    return outputs;
  }
  // Returns the body that makes `outputs`, and appends to `read` what it
  // captures, in the order of its last inputs.
  absl::StatusOr<Subgraph> Finish(const Terms& outputs, Terms* read) {
    NODEWISE_RETURN_IF_ERROR(writer_.status());
    std::vector<ValueId> ids;
    for (const Term& output : outputs) ids.push_back(output.id());
    NODEWISE_RETURN_IF_ERROR(network_.SetOutputs(std::move(ids)));
    network_.RemoveUnused();
    for (const ValueId id : old_) {
      NODEWISE_RETURN_IF_ERROR(network_.RemoveInput(id));
    }
    read->insert(read->end(), captured_.begin(), captured_.end());
    return Subgraph{ShareNetwork(std::move(network_)),
                    static_cast<uint32_t>(captured_.size())};
  }

 private:
  Term Capture(Term outer, const TensorType& type) {
    captured_.push_back(outer);
    return AddInput(type);
  }

  Network network_;
  Writer writer_{&network_};
  const std::vector<ValueId> old_{network_.inputs().begin(),
                                  network_.inputs().end()};
  std::map<size_t, Term> by_;
  Terms captured_;
};

// Returns the outputs from `first` on that a cotangent reaches, counted from
// `first`.
Numbers Reached(const Rule& r, size_t first) {
  Numbers reached;
  for (size_t i = first; i < r.num_outputs(); ++i) {
    if (r.has_dy(i)) reached.push_back(i - first);
  }
  return reached;
}

// One branch of an If, whose captures begin with input `first` of the If.
struct Branch {
  const Subgraph& graph;
  size_t first;

  bool Reads(size_t slot) const {
    return slot >= first && slot < first + graph.captures;
  }
};

// Returns the branch that makes what reaches the inputs `slots`: zeros for
// inputs that only the other branch reads.
absl::StatusOr<Subgraph> GradientOfBranch(const Rule& r, const Branch& branch,
                                          const Numbers& slots, Terms* read) {
  const size_t count = branch.graph.captures;
  const Numbers reached = Reached(r, 0);
  Network body = *branch.graph.body;
  Numbers own;
  for (const size_t slot : slots) {
    if (branch.Reads(slot)) own.push_back(slot - branch.first);
  }
  if (own.empty()) {
    NODEWISE_RETURN_IF_ERROR(body.SetOutputs({}));
    body.RemoveUnused();
  } else {
    NODEWISE_ASSIGN_OR_RETURN(body,
                              GradientOfBody(std::move(body), reached, own));
  }
  BodyEditor editor(std::move(body));
  for (size_t i = 0; i < count; ++i) {
    editor.ReplaceByCapture(i, r.x(branch.first + i));
  }
  for (size_t i = 0; i < reached.size() && !own.empty(); ++i) {
    editor.ReplaceByCapture(count + i, r.dy(reached[i]));
  }
  const Terms made = editor.Outputs();
  Terms outputs;
  size_t taken = 0;
  for (const size_t slot : slots) {
    const Term term =
        branch.Reads(slot)
            ? made[taken++]
            : editor.writer().Filled(0, r.x(slot).dtype(), r.x(slot).sizes());
    // Two inputs may get the same value, which cannot be two outputs of a
    // network.
    outputs.push_back(Apply(ops::Identity{}, term));
  }
  return editor.Finish(outputs, read);
}

void IfRule(Rule& r, const ops::If& op) {
  const Branch branches[] = {{op.else_branch, 1},
                             {op.then_branch, 1 + op.else_branch.captures}};
  Numbers slots;
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    if (r.wants(i)) slots.push_back(i);
  }
  Terms inputs = {r.x()};
  std::vector<Subgraph> made;
  for (const Branch& branch : branches) {
    auto graph = GradientOfBranch(r, branch, slots, &inputs);
    if (!graph.ok()) return r.Fail(graph.status());
    made.push_back(*std::move(graph));
  }
  const Terms gradients =
      r.writer.AddAll(ops::If{made[0], made[1]}, inputs, slots.size());
  for (size_t i = 0; i < slots.size(); ++i)
    r.SetGradient(slots[i], gradients[i]);
}

// A Loop runs once more and records with what each trip begins. Then another
// one goes from the last trip to the first: it runs the body's gradient, and
// carries on what reaches the carried values, and the sums of what reaches the
// captures.
//
// Inputs of a body have the numbers of the loop's: 0 and 1 tell it the trip and
// whether it goes on, then come carried values, then captures. Its outputs are
// whether it goes on, the carried values, and what is stacked; the loop's own
// lack the first. The gradient's body has cotangents behind its captures.
class LoopGradient {
 public:
  explicit LoopGradient(Rule& r) : r_(r) {}

  absl::Status Write() {
    NODEWISE_RETURN_IF_ERROR(CheckSizes());
    FindWanted();
    scans_ = Reached(r_, captures_ - 2);
    Numbers reached;
    for (size_t n = 0; n < values_; ++n) reached.push_back(wanted_[n] - 1);
    for (const size_t k : scans_) reached.push_back(captures_ - 1 + k);
    if (reached.empty() || wanted_.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(Network gradient,
                              GradientOfBody(body_, reached, wanted_));
    return Backpropagate(std::move(gradient));
  }

 private:
  absl::Status CheckSizes() {
    for (size_t i = 2; i < captures_; ++i) {
      const Sizes sizes = r_.x(i).sizes();
      if (body_.value(body_.outputs()[i - 1]).type.sizes() != sizes) {
        r_.Refuse("unless its carried values keep their sizes");
      }
    }
    return w_.status();
  }

  // A value that is carried on may come to depend on others in a later trip.
  void FindWanted() {
    std::set<size_t> wanted;
    for (size_t i = 2; i < r_.num_inputs(); ++i) {
      if (r_.wants(i)) wanted.insert(i);
    }
    for (size_t before = SIZE_MAX; before != wanted.size();) {
      before = wanted.size();
      std::vector<ValueId> from;
      for (const size_t i : wanted) from.push_back(body_.inputs()[i]);
      const std::set<ValueId> path = PathFrom(body_, from);
      for (size_t i = 2; i < captures_; ++i) {
        if (path.contains(body_.outputs()[i - 1])) wanted.insert(i);
      }
    }
    wanted_.assign(wanted.begin(), wanted.end());
    values_ = static_cast<size_t>(
        std::distance(wanted.begin(), wanted.lower_bound(captures_)));
  }

  // Runs the loop again; returns the numbers of its trips, then these inputs of
  // the body as each trip finds them, all of them stacked.
  absl::StatusOr<Terms> Record(const Numbers& needed) {
    Network body = body_;
    Writer inner(&body);
    const size_t carried = captures_ - 2;
    std::vector<ValueId> outputs(
        body.outputs().begin(),
        body.outputs().begin() + static_cast<ptrdiff_t>(1 + carried));
    // The number of the trip comes first, so that there is a stack even of a
    // loop that carries nothing that is needed: its length is how many trips
    // there were.
    Numbers recorded = {0};
    recorded.insert(recorded.end(), needed.begin(), needed.end());
    for (const size_t input : recorded) {
      const Term found = inner.TermOf(body.inputs()[input]);
      outputs.push_back(Apply(ops::Identity{}, found).id());
    }
    NODEWISE_RETURN_IF_ERROR(inner.status());
    NODEWISE_RETURN_IF_ERROR(body.SetOutputs(std::move(outputs)));
    body.RemoveUnused();
    Terms inputs;
    for (const ValueId id : r_.operation.inputs) {
      inputs.push_back(w_.TermOf(id));
    }
    const ops::Loop loop{{ShareNetwork(std::move(body)), graph_.captures}};
    const Terms made = w_.AddAll(loop, inputs, carried + recorded.size());
    NODEWISE_RETURN_IF_ERROR(w_.status());
    return Terms(made.begin() + static_cast<ptrdiff_t>(carried), made.end());
  }

  absl::Status Backpropagate(Network gradient) {
    BodyEditor editor(std::move(gradient));
    Numbers needed;
    for (size_t i = 2; i < captures_; ++i) {
      if (editor.Reads(i)) needed.push_back(i);
    }
    NODEWISE_ASSIGN_OR_RETURN(const Terms recorded, Record(needed));
    // As many trips as were recorded: it does not matter what ended the loop.
    Terms inputs = {Apply(ops::Shape{}, recorded[0]), Term()};
    const Term trip = editor.AddInput(NumberType());
    const Term goes_on = editor.AddInput(TruthType());
    const Terms sums = AddCarried(editor, &inputs);
    const Term trips = editor.Capture(inputs[0]);
    // The loop back counts from 0 on as well; its first trip is the last one of
    // the loop.
    const Term index = ReshapeTo(trips - 1.0 - trip, {});
    const auto at = [&](Term outer) {
      return Gathered(editor.Capture(outer), 0, index);
    };
    editor.Replace(0, index);
    editor.Replace(1, goes_on);
    for (size_t n = 0; n < needed.size(); ++n) {
      editor.Replace(needed[n], at(recorded[1 + n]));
    }
    for (size_t i = captures_; i < r_.num_inputs(); ++i) {
      editor.ReplaceByCapture(i, r_.x(i));
    }
    for (size_t n = 0; n < scans_.size(); ++n) {
      editor.Replace(r_.num_inputs() + values_ + n,
                     at(r_.dy(captures_ - 2 + scans_[n])));
    }
    const Terms made = editor.Outputs();
    Terms outputs = {Apply(ops::Identity{}, goes_on)};
    for (size_t n = 0; n < made.size(); ++n) {
      outputs.push_back(n < values_ ? made[n] : sums[n - values_] + made[n]);
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, editor.Finish(outputs, &inputs));
    const Terms gradients =
        w_.AddAll(ops::Loop{std::move(graph)}, inputs, made.size());
    for (size_t n = 0; n < wanted_.size(); ++n) {
      r_.SetGradient(wanted_[n], gradients[n]);
    }
    return w_.status();
  }

  // What the loop back carries: what reaches each value, and a sum for each
  // capture. Returns the sums.
  Terms AddCarried(BodyEditor& editor, Terms* inputs) {
    Terms sums;
    for (size_t n = 0; n < wanted_.size(); ++n) {
      const size_t i = wanted_[n];
      const Term x = r_.x(i);
      const bool is_reached = n < values_ && r_.has_dy(i - 2);
      inputs->push_back(is_reached ? r_.dy(i - 2) : ZerosLike(x));
      const Term carried = editor.AddInput(TypeOutside(x));
      if (n < values_) {
        editor.Replace(r_.num_inputs() + n, carried);
      } else {
        sums.push_back(carried);
      }
    }
    return sums;
  }

  Rule& r_;
  Writer& w_ = r_.writer;
  const Subgraph& graph_ = r_.As<ops::Loop>().body;
  // The first input that is a capture.
  const size_t captures_ = r_.num_inputs() - graph_.captures;
  const Network& body_ = *graph_.body;
  // What gradients go through: inputs, of which the first `values_` are carried
  // values, and stacked outputs.
  Numbers wanted_;
  size_t values_ = 0;
  Numbers scans_;
};

// The elements of a Scan, as a Loop picks them.
class ScanAsLoop {
 public:
  explicit ScanAsLoop(Rule& r) : r_(r) {}

  // All sequences of a Scan are equally long, so the first one says how many
  // trips there are.
  absl::StatusOr<Terms> Write() {
    const Sizes of_first = r_.x(states_).sizes();
    NODEWISE_RETURN_IF_ERROR(w_.status());
    length_ = of_first[static_cast<size_t>(AxisOf(0))];
    BodyEditor editor(*op_.body.body);
    const Term trip = editor.AddInput(NumberType());
    const Term goes_on = editor.AddInput(TruthType());
    Terms inputs = {w_.Int(length_), Term()};
    for (size_t i = 0; i < states_; ++i) {
      inputs.push_back(r_.x(i));
      editor.Replace(i, editor.AddInput(editor.TypeOf(i)));
    }
    for (size_t k = 0; k < scanned_; ++k) {
      const Term whole = editor.Capture(r_.x(states_ + k));
      const bool is_back = AttributeAt(op_.scan_input_directions, k) == 1;
      const Term index =
          is_back ? static_cast<double>(length_ - 1) - trip : trip;
      editor.Replace(states_ + k, Gathered(whole, AxisOf(k), index));
    }
    for (size_t i = states_ + scanned_; i < r_.num_inputs(); ++i) {
      editor.ReplaceByCapture(i, r_.x(i));
    }
    Terms outputs = {Apply(ops::Identity{}, goes_on)};
    for (const Term& output : editor.Outputs()) outputs.push_back(output);
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, editor.Finish(outputs, &inputs));
    Terms made =
        w_.AddAll(ops::Loop{std::move(graph)}, inputs, outputs.size() - 1);
    for (size_t i = states_; i < made.size(); ++i) {
      made[i] = InScanLayout(made[i], i - states_);
    }
    NODEWISE_RETURN_IF_ERROR(w_.status());
    return made;
  }

 private:
  int64_t AxisOf(size_t k) const {
    return FromFront(AttributeAt(op_.scan_input_axes, k),
                     r_.x(states_ + k).rank());
  }
  // What has been stacked along side 0, as the attributes want it.
  Term InScanLayout(Term stacked, size_t k) const {
    const int64_t rank = stacked.rank();
    if (AttributeAt(op_.scan_output_directions, k) == 1) {
      Sizes back = Counting(0, length_);
      std::ranges::reverse(back);
      stacked = Gathered(stacked, 0, w_.Ints(back));
    }
    const int64_t axis = FromFront(AttributeAt(op_.scan_output_axes, k), rank);
    Sizes order = Counting(1, rank);
    if (axis >= rank) return stacked;
    order.insert(order.begin() + axis, 0);
    return Transposed(stacked, order);
  }

  Rule& r_;
  Writer& w_ = r_.writer;
  const ops::Scan& op_ = r_.As<ops::Scan>();
  const size_t scanned_ = static_cast<size_t>(op_.num_scan_inputs);
  const size_t states_ = r_.num_inputs() - op_.body.captures - scanned_;
  int64_t length_ = 0;
};

constexpr Row kControlRows[] = {
    RuleOf<ops::If, &IfRule>(),
    RuleOf<ops::Loop>([](Rule& r) {
      const absl::Status status = LoopGradient(r).Write();
      if (!status.ok()) r.Fail(status);
    }),
    DefinitionOf<ops::Scan>([](Rule& r) {
      const auto made = ScanAsLoop(r).Write();
      if (!made.ok()) r.Fail(made.status());
      return made.value_or(Terms());
    }),
};

}  // namespace

absl::Status CloseBodies(Network* network) {
  for (const OperationId id : OrderOf(*network)) {
    NODEWISE_RETURN_IF_ERROR(Closing(network->operation(id), network).Run());
  }
  return absl::OkStatus();
}

absl::Span<const Row> ControlRows() { return kControlRows; }

}  // namespace nodewise::gradient
