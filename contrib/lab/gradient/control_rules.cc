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
class LoopGradient {
 public:
  explicit LoopGradient(Rule& r)
      : r_(r),
        w_(r.writer()),
        graph_(r.As<ops::Loop>().body),
        captures_(graph_.captures),
        carried_(r.num_inputs() - 2 - captures_),
        body_(*graph_.body) {}

  absl::Status Write() {
    NODEWISE_RETURN_IF_ERROR(CheckSizes());
    FindWanted();
    scans_ = Reached(r_, carried_);
    Numbers reached;
    Numbers wanted;
    for (const size_t i : values_) {
      reached.push_back(1 + i);
      wanted.push_back(2 + i);
    }
    for (const size_t k : scans_) reached.push_back(1 + carried_ + k);
    for (const size_t c : captured_) wanted.push_back(2 + carried_ + c);
    if (reached.empty() || wanted.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(Network gradient,
                              GradientOfBody(body_, reached, wanted));
    return GoBack(std::move(gradient));
  }

 private:
  absl::Status CheckSizes() {
    for (size_t i = 0; i < carried_; ++i) {
      const std::vector<int64_t> sizes = r_.x(2 + i).sizes();
      if (body_.value(body_.outputs()[1 + i]).type.sizes() != sizes) {
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
    for (size_t c = 0; c < captures_; ++c) {
      if (r_.wants(2 + carried_ + c)) captured_.push_back(c);
    }
    std::set<size_t> values;
    for (size_t i = 0; i < carried_; ++i) {
      if (r_.wants(2 + i)) values.insert(i);
    }
    for (size_t before = SIZE_MAX; before != values.size();) {
      before = values.size();
      std::vector<ValueId> from;
      for (const size_t i : values) from.push_back(body_.inputs()[2 + i]);
      for (const size_t c : captured_) {
        from.push_back(body_.inputs()[2 + carried_ + c]);
      }
      const std::set<ValueId> path = PathFrom(body_, from);
      for (size_t i = 0; i < carried_; ++i) {
        if (path.contains(body_.outputs()[1 + i])) values.insert(i);
      }
    }
    values_.assign(values.begin(), values.end());
  }

  // Runs the loop again; returns the numbers of its trips, then these values as
  // each trip finds them, all of them stacked.
  absl::StatusOr<Terms> Record(const Numbers& values) {
    Network body = body_;
    Writer inner(&body);
    std::vector<ValueId> outputs(
        body.outputs().begin(),
        body.outputs().begin() + static_cast<std::ptrdiff_t>(1 + carried_));
    Numbers recorded = {0};
    for (const size_t i : values) recorded.push_back(2 + i);
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
    Terms made = w_.AddAll(loop, inputs, carried_ + recorded.size());
    NODEWISE_RETURN_IF_ERROR(w_.status());
    made.erase(made.begin(),
               made.begin() + static_cast<std::ptrdiff_t>(carried_));
    return made;
  }

  absl::Status GoBack(Network gradient) {
    BodyEditor editor(std::move(gradient));
    Numbers needed;
    for (size_t i = 0; i < carried_; ++i) {
      if (editor.Reads(2 + i)) needed.push_back(i);
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
      editor.Replace(2 + needed[n], at(recorded[1 + n]));
    }
    for (size_t c = 0; c < captures_; ++c) {
      editor.ReplaceByCapture(2 + carried_ + c, r_.x(2 + carried_ + c));
    }
    const size_t cotangents = 2 + carried_ + captures_ + values_.size();
    for (size_t n = 0; n < scans_.size(); ++n) {
      editor.Replace(cotangents + n, at(r_.dy(carried_ + scans_[n])));
    }
    const Terms made = editor.Outputs();
    Terms outputs = {editor.writer().Add(ops::Identity{}, {goes_on})};
    for (size_t n = 0; n < made.size(); ++n) {
      outputs.push_back(
          n < values_.size() ? made[n] : sums[n - values_.size()] + made[n]);
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, editor.Finish(outputs));
    inputs.insert(inputs.end(), editor.captured().begin(),
                  editor.captured().end());
    const Terms gradients =
        w_.AddAll(ops::Loop{std::move(graph)}, inputs, made.size());
    for (size_t n = 0; n < values_.size(); ++n) {
      r_.Give(2 + values_[n], gradients[n]);
    }
    for (size_t n = 0; n < captured_.size(); ++n) {
      r_.Give(2 + carried_ + captured_[n], gradients[values_.size() + n]);
    }
    return w_.status();
  }

  // What the loop back carries: what reaches each value, and a sum for each
  // capture. Returns the sums.
  Terms AddCarried(BodyEditor& editor, Terms* inputs) {
    const size_t cotangents = 2 + carried_ + captures_;
    for (size_t n = 0; n < values_.size(); ++n) {
      const Term x = r_.x(2 + values_[n]);
      inputs->push_back(r_.has_dy(values_[n])
                            ? r_.dy(values_[n])
                            : w_.Filled(0, x.dtype(), x.sizes()));
      editor.Replace(cotangents + n, editor.AddInput(TypeOutside(x)));
    }
    Terms sums;
    for (const size_t c : captured_) {
      const Term x = r_.x(2 + carried_ + c);
      inputs->push_back(w_.Filled(0, x.dtype(), x.sizes()));
      sums.push_back(editor.AddInput(TypeOutside(x)));
    }
    return sums;
  }

  Rule& r_;
  Writer& w_;
  const Subgraph& graph_;
  const size_t captures_;
  const size_t carried_;
  const Network& body_;
  // What gradients go through: carried values, captures, scan outputs.
  Numbers values_;
  Numbers captured_;
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
