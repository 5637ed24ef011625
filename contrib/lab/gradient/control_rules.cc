#include <algorithm>
#include <set>
#include <utility>

#include "contrib/lab/gradient/bodies.h"
#include "contrib/lab/gradient/definitions.h"
#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status_macros.h"

// Operators that run bodies.

namespace nodewise::gradient {
namespace {

using Terms = std::vector<Term>;
using Sizes = std::vector<int64_t>;
using Numbers = std::vector<size_t>;

// What a loop tells its body.
TensorType NumberType() { return TensorType(kInt64, Shape()); }
TensorType TruthType() { return TensorType(kBool, Shape()); }

// Outputs from `first` on that something reaches, each by its number less that.
Numbers Reached(const Rule& r, size_t first) {
  Numbers reached;
  for (size_t i = first; i < r.num_outputs(); ++i) {
    if (r.has_dy(i)) reached.push_back(i - first);
  }
  return reached;
}

// One branch of an If, whose captures begin with this input.
struct Branch {
  const Subgraph& graph;
  size_t first;
};

// Returns the branch that makes what reaches the inputs `slots`: zeros for
// those of the other branch.
absl::StatusOr<Subgraph> GradientOfBranch(const Rule& r, const Branch& branch,
                                          const Numbers& slots,
                                          Terms* captured) {
  const size_t count = branch.graph.captures;
  const Numbers reached = Reached(r, 0);
  Network body = *branch.graph.body;
  Numbers own;
  for (const size_t slot : slots) {
    if (slot >= branch.first && slot < branch.first + count) {
      own.push_back(slot - branch.first);
    }
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
    const bool is_own = slot >= branch.first && slot < branch.first + count;
    const Term term = is_own ? made[taken++]
                             : editor.writer().Filled(0, r.x(slot).dtype(),
                                                      r.x(slot).sizes());
    outputs.push_back(editor.writer().Add(ops::Identity{}, {term}));
  }
  *captured = editor.captured();
  return editor.Finish(outputs);
}

// An If with the gradients of the branches as branches.
void IfRule(Rule& r) {
  const auto& op = r.As<ops::If>();
  const Branch branches[] = {{op.else_branch, 1},
                             {op.then_branch, 1 + op.else_branch.captures}};
  Numbers slots;
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    if (r.wants(i)) slots.push_back(i);
  }
  Terms inputs = {r.x()};
  std::vector<Subgraph> made;
  for (const Branch& branch : branches) {
    Terms captured;
    auto graph = GradientOfBranch(r, branch, slots, &captured);
    if (!graph.ok()) return r.Fail(graph.status());
    made.push_back(*std::move(graph));
    inputs.insert(inputs.end(), captured.begin(), captured.end());
  }
  const Terms gradients =
      r.writer().AddAll(ops::If{made[0], made[1]}, inputs, slots.size());
  for (size_t i = 0; i < slots.size(); ++i) r.Give(slots[i], gradients[i]);
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
  explicit LoopGradient(Rule& r)
      : r_(r),
        w_(r.writer()),
        graph_(r.As<ops::Loop>().body),
        captures_(r.num_inputs() - graph_.captures),
        body_(*graph_.body) {}

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
    return GoBack(std::move(gradient));
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
  TensorType TypeOutside(Term term) const {
    return w_.network().value(term.id()).type;
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
        body.outputs().begin() + static_cast<std::ptrdiff_t>(1 + carried));
    // The number of the trip comes first, so that there is a stack even of a
    // loop that carries nothing that is needed: its length is how many trips
    // there were.
    Numbers recorded = {0};
    recorded.insert(recorded.end(), needed.begin(), needed.end());
    for (const size_t input : recorded) {
      outputs.push_back(
          inner.Add(ops::Identity{}, {inner.Of(body.inputs()[input])}).id());
    }
    NODEWISE_RETURN_IF_ERROR(inner.status());
    NODEWISE_RETURN_IF_ERROR(body.SetOutputs(std::move(outputs)));
    body.RemoveUnused();
    Terms inputs;
    for (const ValueId id : r_.operation().inputs) inputs.push_back(w_.Of(id));
    const ops::Loop loop{{ShareNetwork(std::move(body)), graph_.captures}};
    const Terms made = w_.AddAll(loop, inputs, carried + recorded.size());
    NODEWISE_RETURN_IF_ERROR(w_.status());
    return Terms(made.begin() + static_cast<std::ptrdiff_t>(carried),
                 made.end());
  }

  absl::Status GoBack(Network gradient) {
    BodyEditor editor(std::move(gradient));
    Numbers needed;
    for (size_t i = 2; i < captures_; ++i) {
      if (editor.Reads(i)) needed.push_back(i);
    }
    NODEWISE_ASSIGN_OR_RETURN(const Terms recorded, Record(needed));
    Terms inputs = {w_.Add(ops::Shape{}, {recorded[0]}), Term()};
    const Term trip = editor.AddInput(NumberType());
    const Term goes_on = editor.AddInput(TruthType());
    const Terms sums = AddCarried(editor, &inputs);
    const Term trips = editor.Capture(inputs[0], TypeOutside(inputs[0]));
    const Term index = ReshapeTo(trips - 1.0 - trip, {});
    const auto at = [&](Term outer) {
      return editor.writer().Add(
          ops::Gather{0}, {editor.Capture(outer, TypeOutside(outer)), index});
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
    Terms outputs = {editor.writer().Add(ops::Identity{}, {goes_on})};
    for (size_t n = 0; n < made.size(); ++n) {
      outputs.push_back(n < values_ ? made[n] : sums[n - values_] + made[n]);
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, editor.Finish(outputs));
    inputs.insert(inputs.end(), editor.captured().begin(),
                  editor.captured().end());
    const Terms gradients =
        w_.AddAll(ops::Loop{std::move(graph)}, inputs, made.size());
    for (size_t n = 0; n < wanted_.size(); ++n) {
      r_.Give(wanted_[n], gradients[n]);
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
  Writer& w_;
  const Subgraph& graph_;
  const size_t captures_;  // The first input that is one.
  const Network& body_;
  // What gradients go through: inputs, of which the first `values_` are carried
  // values, and stacked outputs.
  Numbers wanted_;
  size_t values_ = 0;
  Numbers scans_;
};

void LoopRule(Rule& r) {
  const absl::Status status = LoopGradient(r).Write();
  if (!status.ok()) r.Fail(status);
}

// The elements of a Scan, as a Loop picks them.
class ScanAsLoop {
 public:
  explicit ScanAsLoop(Rule& r)
      : r_(r),
        w_(r.writer()),
        op_(r.As<ops::Scan>()),
        captures_(op_.body.captures),
        scanned_(static_cast<size_t>(op_.num_scan_inputs)),
        states_(r.num_inputs() - captures_ - scanned_) {}

  absl::StatusOr<Terms> Write() {
    const Sizes of_first = r_.x(states_).sizes();
    NODEWISE_RETURN_IF_ERROR(w_.status());
    length_ = of_first[static_cast<size_t>(AxisOf(0))];
    BodyEditor editor(*op_.body.body);
    const Term trip = editor.AddInput(NumberType());
    const Term goes_on = editor.AddInput(TruthType());
    Terms inputs = {w_.Number(static_cast<double>(length_), kInt64), Term()};
    for (size_t i = 0; i < states_; ++i) {
      inputs.push_back(r_.x(i));
      editor.Replace(i, editor.AddInput(editor.TypeOf(i)));
    }
    for (size_t k = 0; k < scanned_; ++k) {
      const Term outer = r_.x(states_ + k);
      const Term whole =
          editor.Capture(outer, w_.network().value(outer.id()).type);
      const bool is_back = AttributeAt(op_.scan_input_directions, k) == 1;
      const Term index =
          is_back ? static_cast<double>(length_ - 1) - trip : trip;
      editor.Replace(states_ + k, editor.writer().Add(ops::Gather{AxisOf(k)},
                                                      {whole, index}));
    }
    for (size_t c = 0; c < captures_; ++c) {
      const size_t i = states_ + scanned_ + c;
      editor.ReplaceByCapture(i, r_.x(i));
    }
    Terms outputs = {editor.writer().Add(ops::Identity{}, {goes_on})};
    for (const Term& output : editor.Outputs()) outputs.push_back(output);
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, editor.Finish(outputs));
    inputs.insert(inputs.end(), editor.captured().begin(),
                  editor.captured().end());
    Terms made =
        w_.AddAll(ops::Loop{std::move(graph)}, inputs, outputs.size() - 1);
    for (size_t i = states_; i < made.size(); ++i) {
      made[i] = Laid(made[i], i - states_);
    }
    NODEWISE_RETURN_IF_ERROR(w_.status());
    return made;
  }

 private:
  int64_t AxisOf(size_t k) const {
    const int64_t axis = AttributeAt(op_.scan_input_axes, k);
    return axis < 0 ? axis + r_.x(states_ + k).rank() : axis;
  }
  // What has been stacked along side 0, as the attributes want it.
  Term Laid(Term stacked, size_t k) const {
    const int64_t rank = stacked.rank();
    if (AttributeAt(op_.scan_output_directions, k) == 1) {
      std::vector<int64_t> back = Counting(0, length_);
      std::reverse(back.begin(), back.end());
      stacked = w_.Add(ops::Gather{0}, {stacked, w_.Ints(back)});
    }
    int64_t axis = AttributeAt(op_.scan_output_axes, k);
    if (axis < 0) axis += rank;
    std::vector<int64_t> order = Counting(1, rank);
    if (axis >= rank) return stacked;
    order.insert(order.begin() + axis, 0);
    return Transposed(stacked, order);
  }

  Rule& r_;
  Writer& w_;
  const ops::Scan& op_;
  const size_t captures_;
  const size_t scanned_;
  const size_t states_;
  int64_t length_ = 0;
};

Terms DefineScan(Rule& r) {
  auto made = ScanAsLoop(r).Write();
  if (made.ok()) return *std::move(made);
  r.Fail(made.status());
  return {};
}

constexpr Row kControlRows[] = {
    RuleOf<ops::If>(&IfRule),
    RuleOf<ops::Loop>(&LoopRule),
    DefinitionOf<ops::Scan>(&DefineScan),
};

}  // namespace

absl::Span<const Row> ControlRows() { return kControlRows; }

}  // namespace nodewise::gradient
