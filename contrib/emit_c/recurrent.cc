// Recurrent layers, computed step by step and in double, as the reference does.

#include "nodewise/ops/recurrent.h"

#include "absl/functional/function_ref.h"
#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/quantized.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

using ops::CellActivation;

// Inputs by their places, the same in all operators.
constexpr size_t kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kInitialH = 5,
                 kInitialC = 6, kPeepholes = 7;

struct ActivationText {
  std::string_view name;
  std::string_view formula;  // An expression of {x}, {a} and {b}.
};
constexpr ActivationText kActivations[] = {
    {"Relu", "nw_clamp({x}, 0.0, INFINITY)"},
    {"Tanh", "tanh({x})"},
    {"Sigmoid", "nw_sigmoid({x})"},
    {"Affine", "{a} * ({x}) + {b}"},
    {"LeakyRelu", "nw_leaky({x}, {a})"},
    {"ThresholdedRelu", "nw_threshold({x}, {a})"},
    {"ScaledTanh", "{a} * tanh({b} * ({x}))"},
    {"HardSigmoid", "nw_clamp({a} * ({x}) + {b}, 0.0, 1.0)"},
    {"Elu", "nw_elu({x}, {a})"},
    {"Softsign", "nw_cell_softsign({x})"},
    {"Softplus", "nw_softplus({x})"},
};

// A layer of cells, and the writer of its code. Of each direction the code has
// three rows of doubles: the sums of all gates, what the input of the step
// contributes to them, and a row as long as the states, where the cell needs
// one.
class Layer {
 public:
  // The weights and the sequences: the inputs' own, or what was made of them.
  CTensor x, w, r;
  // The states are rounded to 8 bits before each step.
  bool rounds_states = false;

  explicit Layer(OperationCode& operation)
      : x(operation.in(kX)),
        w(operation.in(kW)),
        r(operation.in(kR)),
        operation_(operation),
        code_(operation.code()) {}

  absl::Status WriteLstm(const ops::LSTM& op) {
    NODEWISE_RETURN_IF_ERROR(Read(op, "LSTM", 4, ops::kLstmActivations));
    return Write(true, [&] { WriteLstmStep(op.input_forget); });
  }
  absl::Status WriteGru(const ops::GRU& op) {
    NODEWISE_RETURN_IF_ERROR(Read(op, "GRU", 3, ops::kGruActivations));
    return Write(false, [&] { WriteGruStep(op.linear_before_reset); });
  }
  absl::Status WriteRnn(const ops::RNN& op) {
    NODEWISE_RETURN_IF_ERROR(Read(op, "RNN", 1, ops::kRnnActivations));
    return Write(false, [&] { WriteRnnStep(); });
  }

 private:
  using StepWriter = absl::FunctionRef<void()>;

  absl::Status Read(const ops::RecurrentAttributes& attributes,
                    std::string_view kind, int64_t gates,
                    absl::Span<const char* const> usual) {
    attributes_ = &attributes;
    kind_ = kind;
    gates_ = gates;
    steps_ = x.sizes[batch_first() ? 1 : 0];
    batch_ = x.sizes[batch_first() ? 0 : 1];
    input_ = x.sizes[2];
    hidden_ = r.sizes[2];
    directions_ =
        attributes.direction == ops::Direction::kBidirectional ? 2 : 1;
    NODEWISE_ASSIGN_OR_RETURN(activations_,
                              ops::ActivationsOf(attributes, usual));
    return absl::OkStatus();
  }
  // The code fails where a length is not one.
  absl::Status Write(bool has_cells, StepWriter write_step) {
    if (operation_.has(kLengths)) {
      code_.Each("n", batch_,
                 "if ({0}[n] < 0 || {0}[n] > {1}) return nw_fail(\"{2}: a "
                 "sequence is longer than its steps\");",
                 operation_.in(kLengths).name, steps_, kind_);
    }
    h_ = States(kInitialH);
    if (has_cells) c_ = States(kInitialC);
    // Steps beyond a sequence's end give 0.
    if (operation_.wants(0)) {
      code_.Line("memset({0}, 0, {1} * sizeof(*{0}));", operation_.out(0).name,
                 operation_.out(0).count());
    }
    sums_ = operation_.store().Scratch("double", columns());
    extra_ = operation_.store().Scratch("double", hidden_);
    inputs_ = operation_.store().Scratch("double", columns());
    for (direction_ = 0; direction_ < directions_; ++direction_) {
      WriteDirection(write_step);
    }
    for (const size_t i : {1, 2}) {
      if (!operation_.wants(i)) continue;
      code_.Each("i", operation_.out(i).count(), "{}[i] = ({}){}[i];",
                 operation_.out(i).name, operation_.out(i).type(),
                 i == 1 ? h_ : c_);
    }
    return absl::OkStatus();
  }
  // Step by step over all sequences at once, and not one sequence after the
  // other, since states that are rounded have one range for all sequences of a
  // step.
  void WriteDirection(StepWriter write_step) {
    const bool is_reverse =
        attributes_->direction == ops::Direction::kReverse || direction_ == 1;
    code_.For("i", steps_);
    if (rounds_states) RoundStates();
    code_.For("n", batch_);
    WriteLength();
    code_.Line("if (i >= length) continue;");
    code_.Line("const int64_t t = {};", is_reverse ? "length - 1 - i" : "i");
    const std::string at = fmt::format("{} * {}", StateIndex(), hidden_);
    code_.Line("double* const h = {} + {};", h_, at);
    if (!c_.empty()) code_.Line("double* const c = {} + {};", c_, at);
    code_.Line("const {}* const x = {} + {} * {};", x.type(), x.name,
               RowOf("t"), input_);
    AddInputs();
    write_step();
    if (operation_.wants(0)) {
      const CTensor& y = operation_.out(0);
      code_.Each("k", hidden_, "{}[{} * {} + k] = ({})h[k];", y.name,
                 OutputIndex("t"), hidden_, y.type());
    }
    code_.Close(2);
  }
  // Gates: input, output, forget, cell. Peepholes, where there are any, let the
  // gates see the cell state: input and forget that of the step before, output
  // that which the step has made.
  void WriteLstmStep(bool input_forget) {
    AddStates(0, 4 * hidden_, inputs_ + "[j]", "h");
    const auto gate = [&](int64_t column, int64_t peephole, const char* state) {
      std::string sum = fmt::format("{}[{} + k]", sums_, column * hidden_);
      if (operation_.has(kPeepholes)) {
        sum += fmt::format(" + (double){}[{} + k] * {}",
                           operation_.in(kPeepholes).name,
                           (3 * direction_ + peephole) * hidden_, state);
      }
      return Activated(0, sum);
    };
    code_.For("k", hidden_);
    code_.Line("const double before = c[k];");
    code_.Line("const double input = {};", gate(0, 0, "before"));
    code_.Line("const double forget = {};",
               input_forget ? std::string("1 - input") : gate(2, 2, "before"));
    code_.Line("c[k] = forget * before + input * {};",
               Activated(1, fmt::format("{}[{} + k]", sums_, 3 * hidden_)));
    code_.Line("h[k] = {} * {};", gate(1, 1, "c[k]"), Activated(2, "c[k]"));
    code_.Close();
  }
  // Gates: update, reset, hidden. The reset gate says how much of the states
  // counts for the hidden one: of the states themselves, before R is applied to
  // them, or with linear_before_reset of R h, bias included. So the sums of the
  // hidden gate come behind those of the other two.
  void WriteGruStep(bool linear_before_reset) {
    const int64_t n = hidden_;
    const std::string reset = Activated(0, fmt::format("{}[{} + k]", sums_, n));
    const std::string hidden = fmt::format("{}[{} + k]", sums_, 2 * n);
    AddStates(0, 2 * n, inputs_ + "[j]", "h");
    if (linear_before_reset) {
      AddStates(2 * n, n, "0", "h");
      code_.Each("k", n, "{0} = {0} * {1} + {2}[{3} + k];", hidden, reset,
                 inputs_, 2 * n);
    } else {
      code_.Each("k", n, "{}[k] = {} * h[k];", extra_, reset);
      AddStates(2 * n, n, inputs_ + "[j]", extra_);
    }
    code_.For("k", n);
    code_.Line("const double update = {};", Activated(0, sums_ + "[k]"));
    code_.Line("h[k] = (1 - update) * {} + update * h[k];",
               Activated(1, hidden));
    code_.Close();
  }
  void WriteRnnStep() {
    AddStates(0, hidden_, inputs_ + "[j]", "h");
    code_.Each("k", hidden_, "h[k] = {};", Activated(0, sums_ + "[k]"));
  }
  // Rounds the states of the items that take step `i`. As in onnxruntime, the
  // states of sequences that ended with the step before still count for the
  // range.
  void RoundStates() {
    code_.Line("double low = 0, high = 0, zero;");
    code_.Line("float scale;");
    const auto open = [&](const char* least) {
      code_.For("n", batch_);
      WriteLength();
      code_.Line("double* const state = {} + {} * {};", h_, StateIndex(),
                 hidden_);
      code_.Line("if (length < {}) continue;", least);
      code_.For("k", hidden_);
    };
    open("i");
    code_.Line("if (state[k] < low) low = state[k];");
    code_.Line("if (state[k] > high) high = state[k];");
    code_.Close(2);
    code_.Line("scale = nw_dynamic_scale((float)low, (float)high, &zero);");
    open("i + 1");
    code_.Line(
        "state[k] = (nw_dynamic_quantized((float)state[k], scale, zero) - "
        "zero) * (double)scale;");
    code_.Close(2);
  }

  // Returns an activation of this direction of an expression, which is clipped
  // first.
  std::string Activated(size_t activation, std::string x) const {
    const auto clip = static_cast<double>(attributes_->clip);
    if (clip > 0) {
      x = fmt::format("nw_clamp({}, {}, {})", x, DoubleText(-clip),
                      DoubleText(clip));
    }
    const size_t each = activations_.size() / static_cast<size_t>(directions_);
    const CellActivation& told =
        activations_[static_cast<size_t>(direction_) * each + activation];
    for (const ActivationText& row : kActivations) {
      if (row.name != told.name) continue;
      return fmt::format(
          "({})", fmt::format(fmt::runtime(row.formula), fmt::arg("x", x),
                              fmt::arg("a", DoubleText(told.alpha)),
                              fmt::arg("b", DoubleText(told.beta))));
    }
    return "";
  }
  // Writes `to[j] = from[j] + the recurrent bias + R h`, for some columns.
  void AddStates(int64_t first, int64_t count, const std::string& from,
                 const std::string& states) {
    code_.Open("for (int64_t j = {}; j < {}; ++j)", first, first + count);
    code_.Line("{}[j] = {}{} + nw_dot_{}({} + ({} + j) * {}, {}, {});", sums_,
               from, operation_.has(kB) ? " + " + BiasText(1) : "",
               r.dtype == kFloat64 ? "double" : "mixed", r.name,
               direction_ * columns(), hidden_, states, hidden_);
    code_.Close();
  }
  void AddInputs() {
    code_.Each("j", columns(),
               "{}[j] = {}nw_dot_{}({} + ({} + j) * {}, x, {});", inputs_,
               operation_.has(kB) ? BiasText(0) + " + " : "",
               w.dtype == kFloat64 ? "double" : "floats", w.name,
               direction_ * columns(), input_, input_);
  }
  // The states of all directions and items as doubles, 0 if they are not given.
  std::string States(size_t slot) {
    const int64_t count = directions_ * batch_ * hidden_;
    const std::string states = operation_.store().Scratch("double", count);
    code_.Each("i", count, "{}[i] = {};", states,
               operation_.has(slot) ? operation_.in(slot).name + "[i]" : "0");
    return states;
  }
  void WriteLength() {
    code_.Line("const int64_t length = {};",
               operation_.has(kLengths) ? operation_.in(kLengths).name + "[n]"
                                        : fmt::format("{}", steps_));
  }
  // Returns a bias of each column; B holds, direction by direction, those of
  // the input and then those of the states.
  std::string BiasText(int64_t half) const {
    return fmt::format("(double){}[{} + j]", operation_.in(kB).name,
                       (2 * direction_ + half) * columns());
  }

  int64_t columns() const { return gates_ * hidden_; }
  bool batch_first() const { return attributes_->layout; }
  // Return indices as expressions: that of a row of X, and those of states and
  // outputs, which there are for each direction.
  std::string RowOf(const char* step) const {
    return batch_first() ? fmt::format("(n * {} + {})", steps_, step)
                         : fmt::format("({} * {} + n)", step, batch_);
  }
  std::string StateIndex() const {
    return batch_first() ? fmt::format("(n * {} + {})", directions_, direction_)
                         : fmt::format("({} + n)", direction_ * batch_);
  }
  std::string OutputIndex(const char* step) const {
    return batch_first() ? fmt::format("({} * {} + {})", RowOf(step),
                                       directions_, direction_)
                         : fmt::format("(({} * {} + {}) * {} + n)", step,
                                       directions_, direction_, batch_);
  }

  OperationCode& operation_;
  CodeWriter& code_;
  const ops::RecurrentAttributes* attributes_ = nullptr;
  std::string_view kind_;
  int64_t gates_ = 0;
  int64_t steps_ = 0;
  int64_t batch_ = 0;
  int64_t input_ = 0;
  int64_t hidden_ = 0;
  int64_t directions_ = 1;
  std::vector<CellActivation> activations_;  // Direction by direction.
  int64_t direction_ = 0;                    // Whose code is written now.
  // The names of memory: of the three rows, and of all sequences' states, the
  // last of which is empty for cells without.
  std::string sums_, extra_, inputs_;
  std::string h_, c_;
};

// The attributes of older versions are those of the newest.
absl::Status WriteLstm(OperationCode& code) {
  return Layer(code).WriteLstm(code.Common<ops::LSTM, ops::LSTM, ops::LSTM1>());
}
absl::Status WriteGru(OperationCode& code) {
  return Layer(code).WriteGru(code.Common<ops::GRU, ops::GRU, ops::GRU1>());
}
absl::Status WriteRnn(OperationCode& code) {
  return Layer(code).WriteRnn(code.Common<ops::RNN, ops::RNN, ops::RNN1>());
}

// Writes the weights of DynamicQuantizeLSTM as numbers, in LSTM's layout. There
// is one scale for each direction, or for each of its columns.
CTensor NumbersOfWeights(OperationCode& operation, size_t weights,
                         size_t scale) {
  const CTensor& from = operation.in(weights);
  const int64_t rows = from.sizes[1];
  const int64_t columns = from.sizes[2];
  const CTensor to =
      operation.store().ScratchTensor(kFloat32, {from.sizes[0], columns, rows});
  const auto at = [&](size_t i) {
    const bool is_by_direction = operation.in(i).count() == from.sizes[0];
    return fmt::format(
        "(double){}[{}]", operation.in(i).name,
        is_by_direction ? "d" : fmt::format("d * {} + j", columns));
  };
  CodeWriter& code = operation.code();
  code.For({{"d", from.sizes[0]}, {"j", columns}, {"k", rows}});
  code.Line(
      "{0}[(d * {1} + j) * {2} + k] = (float)((({3}[(d * {2} "
      "+ k) * {1} + j]) - {4}) * {5});",
      to.name, columns, rows, "(double)" + from.name, at(scale + 1), at(scale));
  code.Close(3);
  return to;
}

CTensor RoundedInputs(OperationCode& operation) {
  const CTensor& x = operation.in(kX);
  const CTensor to = operation.store().ScratchTensor(x.dtype, x.sizes);
  CodeWriter& code = operation.code();
  OpenDynamicScale(&code, x);
  code.Each("i", x.count(),
            "{}[i] = (float)((nw_dynamic_quantized({}[i], scale, zero) - zero) "
            "* (double)scale);",
            to.name, x.name);
  code.Close();
  return to;
}

absl::Status WriteDynamicLstm(OperationCode& code) {
  Layer layer(code);
  layer.x = RoundedInputs(code);
  layer.w = NumbersOfWeights(code, kW, 8);
  layer.r = NumbersOfWeights(code, kR, 10);
  layer.rounds_states = true;
  return layer.WriteLstm(*code.As<ops::DynamicQuantizeLSTM>());
}

constexpr Row kRecurrentRows[] = {
    SizedRow<ops::LSTM, ops::LSTM1>(&WriteLstm),
    SizedRow<ops::GRU, ops::GRU1>(&WriteGru),
    SizedRow<ops::RNN, ops::RNN1>(&WriteRnn),
    SizedRow<ops::DynamicQuantizeLSTM>(&WriteDynamicLstm),
};

}  // namespace

absl::Span<const Row> RecurrentRows() { return kRecurrentRows; }

}  // namespace nodewise::emit_c
