#include <string_view>

#include "absl/functional/function_ref.h"
#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/recurrent.h"
#include "nodewise/ops/unary.h"

// Recurrent layers, as all their steps one after the other.

namespace nodewise::gradient {
namespace {

using Terms = std::vector<Term>;
using Sizes = std::vector<int64_t>;
using ops::CellActivation;

// Inputs by their places, the same in all three operators.
constexpr size_t kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kInitialH = 5,
                 kInitialC = 6, kPeepholes = 7;

struct FunctionRow {
  std::string_view name;
  Term (*apply)(const CellActivation& with, Term x);
};
constexpr FunctionRow kFunctionsOfCells[] = {
    {"Relu",
     [](const CellActivation&, Term x) { return Apply(ops::Relu{}, x); }},
    {"Tanh",
     [](const CellActivation&, Term x) { return Apply(ops::Tanh{}, x); }},
    {"Sigmoid", [](const CellActivation&, Term x) { return Sigmoid(x); }},
    {"Affine", [](const CellActivation& with,
                  Term x) { return x * with.alpha + with.beta; }},
    {"LeakyRelu",
     [](const CellActivation& with, Term x) {
       return Apply(ops::LeakyRelu{static_cast<float>(with.alpha)}, x);
     }},
    {"ThresholdedRelu",
     [](const CellActivation& with, Term x) {
       return Apply(ops::ThresholdedRelu{static_cast<float>(with.alpha)}, x);
     }},
    {"ScaledTanh",
     [](const CellActivation& with, Term x) {
       return Apply(ops::Tanh{}, x * with.beta) * with.alpha;
     }},
    {"HardSigmoid",
     [](const CellActivation& with, Term x) {
       return Apply(ops::HardSigmoid{static_cast<float>(with.alpha),
                                     static_cast<float>(with.beta)},
                    x);
     }},
    {"Elu",
     [](const CellActivation& with, Term x) {
       return Apply(ops::Elu{static_cast<float>(with.alpha)}, x);
     }},
    {"Softsign",
     [](const CellActivation&, Term x) { return Apply(ops::Softsign{}, x); }},
    {"Softplus",
     [](const CellActivation&, Term x) { return Apply(ops::Softplus{}, x); }},
};

// What one direction calculates with.
struct Cell {
  const CellActivation* activations = nullptr;
  double clip = 0;  // Limit of an activation's input. 0: none.
  int64_t hidden = 0;
  Term recurrent;  // By hidden element, then column.
  Term bias;       // The recurrence's, by column, or none.
  Term peepholes;  // Three times hidden, or none.

  Term Activated(size_t i, Term x) const {
    Writer& w = x.writer();
    if (clip > 0) {
      x = w.Add(ops::Clip{},
                {x, w.Number(-clip, x.dtype()), w.Number(clip, x.dtype())});
    }
    for (const FunctionRow& row : kFunctionsOfCells) {
      if (row.name == activations[i].name) return row.apply(activations[i], x);
    }
    w.Fail(absl::InternalError("an activation of a cell is not known"));
    return x;
  }
  // The columns [first, last) gates of h times the recurrence's weights.
  Term Weighted(Term h, int64_t first, int64_t last) const {
    const int64_t begin = first * hidden;
    const int64_t end = last * hidden;
    const Term sums =
        h.writer().Add(ops::MatMul{}, {h, Part(recurrent, 1, begin, end)});
    return bias.is_given() ? sums + Part(bias, 0, begin, end) : sums;
  }
  Term WithPeephole(Term sum, int64_t i, Term c) const {
    if (!peepholes.is_given()) return sum;
    return sum + Part(peepholes, 0, i * hidden, (i + 1) * hidden) * c;
  }
};
struct State {
  Term h;
  Term c;
};
// `inputs` are what the input and its bias contribute, by column.
using CellStep =
    absl::FunctionRef<State(const Cell& cell, Term inputs, const State& old)>;

State LstmStep(const Cell& cell, Term inputs, const State& old,
               bool input_forget) {
  const Terms gates = EqualParts(inputs + cell.Weighted(old.h, 0, 4), 1, 4);
  const Term input = cell.Activated(0, cell.WithPeephole(gates[0], 0, old.c));
  const Term forget =
      input_forget ? 1 - input
                   : cell.Activated(0, cell.WithPeephole(gates[2], 2, old.c));
  State next;
  next.c = forget * old.c + input * cell.Activated(1, gates[3]);
  const Term output = cell.Activated(0, cell.WithPeephole(gates[1], 1, next.c));
  next.h = output * cell.Activated(2, next.c);
  return next;
}

State GruStep(const Cell& cell, Term inputs, const State& old,
              bool linear_before_reset) {
  const int64_t n = cell.hidden;
  const Terms gates =
      EqualParts(Part(inputs, 1, 0, 2 * n) + cell.Weighted(old.h, 0, 2), 1, 2);
  const Term update = cell.Activated(0, gates[0]);
  const Term reset = cell.Activated(0, gates[1]);
  const Term weighted = linear_before_reset
                            ? reset * cell.Weighted(old.h, 2, 3)
                            : cell.Weighted(reset * old.h, 2, 3);
  const Term next = cell.Activated(1, Part(inputs, 1, 2 * n, 3 * n) + weighted);
  return {(1 - update) * next + update * old.h, old.c};
}

// A layer whose sides are known.
class Layer {
 public:
  Layer(Rule& r, const ops::RecurrentAttributes& attributes,
        absl::Span<const char* const> usual)
      : r_(r), w_(r.writer()), attributes_(attributes), usual_(usual) {}

  // Returns Y, Y_h and Y_c.
  Terms Write(CellStep step) {
    Term x = r_.x(kX);
    if (attributes_.layout) x = Transposed(x, {1, 0, 2});
    const Sizes of_x = x.sizes();
    const Sizes of_r = r_.x(kR).sizes();
    auto activations = ops::ActivationsOf(attributes_, usual_);
    w_.Fail(activations.status());
    if (!w_.status().ok() || of_x.size() != 3 || of_r.size() != 3) return {};
    steps_ = of_x[0];
    batch_ = of_x[1];
    hidden_ = of_r[2];
    Terms y;
    Terms h;
    Terms c;
    for (int64_t d = 0; d < of_r[0]; ++d) {
      Cell cell;
      cell.activations =
          activations->data() + static_cast<size_t>(d) * usual_.size();
      const bool is_reverse =
          attributes_.direction == ops::Direction::kReverse || d == 1;
      State state{Initial(kInitialH, d), Initial(kInitialC, d)};
      y.push_back(Run(d, is_reverse, x, cell, step, &state));
      h.push_back(ReshapeTo(state.h, {1, batch_, hidden_}));
      c.push_back(ReshapeTo(state.c, {1, batch_, hidden_}));
    }
    const Terms made = {Joined(y, 1), Joined(h, 0), Joined(c, 0)};
    if (!attributes_.layout) return made;
    return {Transposed(made[0], {2, 0, 1, 3}), Transposed(made[1], {1, 0, 2}),
            Transposed(made[2], {1, 0, 2})};
  }

 private:
  // Item `d` of an input that has one for each direction.
  Term ItemOf(size_t input, int64_t d) const {
    return ItemAt(r_.x(input), 0, d);
  }
  Term Initial(size_t input, int64_t d) const {
    if (!r_.has(input))
      return w_.Filled(0, r_.x(kX).dtype(), {batch_, hidden_});
    return ItemAt(r_.x(input), attributes_.layout ? 1 : 0, d);
  }

  // Returns the outputs of all steps, and leaves the last state.
  Term Run(int64_t d, bool is_reverse, Term x, Cell cell, CellStep step,
           State* state) const {
    cell.clip = attributes_.clip;
    cell.hidden = hidden_;
    cell.recurrent = SwapLast(ItemOf(kR, d));
    Term inputs = w_.Add(ops::MatMul{}, {x, SwapLast(ItemOf(kW, d))});
    if (r_.has(kB)) {
      const Terms biases = EqualParts(ItemOf(kB, d), 0, 2);
      inputs = inputs + biases[0];
      cell.bias = biases[1];
    }
    if (r_.has(kPeepholes)) cell.peepholes = ItemOf(kPeepholes, d);
    if (steps_ == 0) {
      return w_.Filled(0, x.dtype(), {0, 1, batch_, hidden_});
    }
    const Terms by_step = EqualParts(inputs, 0, steps_);
    Terms outputs(by_step.size());
    const Sizes columns = {batch_, inputs.sizes().back()};
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = is_reverse ? steps_ - 1 - i : i;
      const auto at = static_cast<size_t>(t);
      State next = step(cell, ReshapeTo(by_step[at], columns), *state);
      outputs[at] = next.h;
      if (r_.has(kLengths)) EndSequences(t, *state, &next, &outputs[at]);
      outputs[at] = ReshapeTo(outputs[at], {1, 1, batch_, hidden_});
      *state = next;
    }
    return Joined(outputs, 0);
  }

  // Sequences that are no longer than `t` keep their state and give 0. So one
  // that is gone through backwards begins at its own end.
  void EndSequences(int64_t t, const State& old, State* next,
                    Term* output) const {
    const Term goes_on =
        ReshapeTo(Greater(r_.x(kLengths), static_cast<double>(t)), {batch_, 1});
    *output = Choose(goes_on, next->h, 0.0);
    next->h = Choose(goes_on, next->h, old.h);
    next->c = Choose(goes_on, next->c, old.c);
  }

  Rule& r_;
  Writer& w_;
  const ops::RecurrentAttributes& attributes_;
  const absl::Span<const char* const> usual_;
  int64_t steps_ = 0;
  int64_t batch_ = 0;
  int64_t hidden_ = 0;
};

Terms DefineLstm(Rule& r) {
  const auto& op = r.As<ops::LSTM>();
  return Layer(r, op, ops::kLstmActivations)
      .Write([&](const Cell& cell, Term inputs, const State& old) {
        return LstmStep(cell, inputs, old, op.input_forget);
      });
}

Terms DefineGru(Rule& r) {
  const auto& op = r.As<ops::GRU>();
  return Layer(r, op, ops::kGruActivations)
      .Write([&](const Cell& cell, Term inputs, const State& old) {
        return GruStep(cell, inputs, old, op.linear_before_reset);
      });
}

Terms DefineRnn(Rule& r) {
  return Layer(r, r.As<ops::RNN>(), ops::kRnnActivations)
      .Write([](const Cell& cell, Term inputs, const State& old) -> State {
        return {cell.Activated(0, inputs + cell.Weighted(old.h, 0, 1)), old.c};
      });
}

constexpr Row kRecurrentRows[] = {
    DefinitionOf<ops::GRU>(&DefineGru),
    DefinitionOf<ops::LSTM>(&DefineLstm),
    DefinitionOf<ops::RNN>(&DefineRnn),
};

}  // namespace

absl::Span<const Row> RecurrentRows() { return kRecurrentRows; }

}  // namespace nodewise::gradient
