// Recurrent layers: a sequence after the other, step by step, in double as the
// reference computes them.

#include "nodewise/ops/recurrent.h"

#include "absl/functional/function_ref.h"
#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/quantized.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

using ops::CellActivation;

// Inputs by their places, the same in all operators.
constexpr size_t kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kInitialH = 5,
                 kInitialC = 6, kPeepholes = 7;

// What the code of all cells has in common.
struct Layer {
  const ops::RecurrentAttributes* attributes = nullptr;
  std::string_view kind;
  int64_t gates = 0;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t directions = 1;
  std::vector<CellActivation> activations;  // Direction by direction.
  // The weights and the sequences: the inputs' own, or what was made of them.
  CTensor x, w, r;
  // The states are rounded to 8 bits before each step.
  bool rounds_states = false;

  int64_t columns() const { return gates * hidden; }
  bool batch_first() const { return attributes->layout; }
  bool is_reverse(int64_t direction) const {
    return attributes->direction == ops::Direction::kReverse || direction == 1;
  }
  const CellActivation& activation(int64_t direction, size_t i) const {
    const size_t each = activations.size() / static_cast<size_t>(directions);
    return activations[static_cast<size_t>(direction) * each + i];
  }
  // Return indices as expressions: that of a row of X, and those of states and
  // outputs, which there are for each direction.
  std::string RowOf(const char* step) const {
    return batch_first() ? fmt::format("(n * {} + {})", steps, step)
                         : fmt::format("({} * {} + n)", step, batch);
  }
  std::string StateOf(int64_t direction) const {
    return batch_first() ? fmt::format("(n * {} + {})", directions, direction)
                         : fmt::format("({} + n)", direction * batch);
  }
  std::string OutputOf(int64_t direction, const char* step) const {
    return batch_first() ? fmt::format("({} * {} + {})", RowOf(step),
                                       directions, direction)
                         : fmt::format("(({} * {} + {}) * {} + n)", step,
                                       directions, direction, batch);
  }
};

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

// Returns an activation of an expression, which is clipped first.
std::string Activated(const Layer& layer, const CellActivation& activation,
                      std::string x) {
  const auto clip = static_cast<double>(layer.attributes->clip);
  if (clip > 0) {
    x = fmt::format("nw_clamp({}, {}, {})", x, DoubleText(-clip),
                    DoubleText(clip));
  }
  const std::string a = DoubleText(activation.alpha);
  const std::string b = DoubleText(activation.beta);
  for (const ActivationText& row : kActivations) {
    if (row.name != activation.name) continue;
    return fmt::format("({})",
                       fmt::format(fmt::runtime(row.formula), fmt::arg("x", x),
                                   fmt::arg("a", a), fmt::arg("b", b)));
  }
  return "";
}

// The names of one direction's memory: doubles but for the weights.
struct Cell {
  int64_t direction = 0;
  std::string sums;    // The sums of the gates, by column.
  std::string extra;   // A row as long as the states, where the cell needs one.
  std::string inputs;  // What the step's input contributes, by column.
};

// Writes `to[j] = from[j] + the recurrent bias + R h`, for some columns. B
// holds, direction by direction, the biases of the input and then those of the
// states.
void AddStates(const OperationCode& operation, const Layer& layer,
               const Cell& cell, int64_t first, int64_t count,
               const std::string& from, const std::string& states) {
  const int64_t columns = layer.columns();
  CodeWriter& code = operation.code();
  code.Open("for (int64_t j = {}; j < {}; ++j)", first, first + count);
  const std::string bias =
      operation.has(kB)
          ? fmt::format(" + (double){}[{} + j]", operation.in(kB).name,
                        (2 * cell.direction + 1) * columns)
          : "";
  code.Line("{}[j] = {}{} + nw_dot_{}({} + ({} + j) * {}, {}, {});", cell.sums,
            from, bias, layer.r.dtype == kFloat64 ? "double" : "mixed",
            layer.r.name, cell.direction * columns, layer.hidden, states,
            layer.hidden);
  code.Close();
}

// Writes what the step's input contributes.
void AddInputs(const OperationCode& operation, const Layer& layer,
               const Cell& cell) {
  const int64_t columns = layer.columns();
  const std::string bias =
      operation.has(kB)
          ? fmt::format("(double){}[{} + j] + ", operation.in(kB).name,
                        2 * cell.direction * columns)
          : "";
  operation.code().Each(
      "j", columns, "{}[j] = {}nw_dot_{}({} + ({} + j) * {}, x, {});",
      cell.inputs, bias, layer.w.dtype == kFloat64 ? "double" : "floats",
      layer.w.name, cell.direction * columns, layer.input, layer.input);
}

// Gates: input, output, forget, cell. Peepholes, where there are any, let the
// gates see the cell state: input and forget that of the step before, output
// that which the step has made.
void WriteLstmStep(const OperationCode& operation, const Layer& layer,
                   const Cell& cell, bool input_forget) {
  CodeWriter& code = operation.code();
  const int64_t n = layer.hidden;
  AddStates(operation, layer, cell, 0, 4 * n, cell.inputs + "[j]", "h");
  const auto gate = [&](int64_t column, int64_t peephole, const char* state) {
    std::string sum = fmt::format("{}[{} + k]", cell.sums, column * n);
    if (operation.has(kPeepholes)) {
      sum += fmt::format(" + (double){}[{} + k] * {}",
                         operation.in(kPeepholes).name,
                         (3 * cell.direction + peephole) * n, state);
    }
    return Activated(layer, layer.activation(cell.direction, 0), sum);
  };
  const std::string g = Activated(layer, layer.activation(cell.direction, 1),
                                  fmt::format("{}[{} + k]", cell.sums, 3 * n));
  code.For("k", n);
  code.Line("const double before = c[k];");
  code.Line("const double input = {};", gate(0, 0, "before"));
  code.Line("const double forget = {};",
            input_forget ? std::string("1 - input") : gate(2, 2, "before"));
  code.Line("c[k] = forget * before + input * {};", g);
  code.Line("h[k] = {} * {};", gate(1, 1, "c[k]"),
            Activated(layer, layer.activation(cell.direction, 2), "c[k]"));
  code.Close();
}

// Gates: update, reset, hidden. The reset gate says how much of the states
// counts for the hidden one: of the states themselves, before R is applied to
// them, or with linear_before_reset of R h, bias included. So the sums of the
// hidden gate come behind those of the other two.
void WriteGruStep(const OperationCode& operation, const Layer& layer,
                  const Cell& cell, bool linear_before_reset) {
  CodeWriter& code = operation.code();
  const int64_t n = layer.hidden;
  const CellActivation& f = layer.activation(cell.direction, 0);
  const CellActivation& g = layer.activation(cell.direction, 1);
  const std::string reset = fmt::format("{}[{} + k]", cell.sums, n);
  const std::string hidden = fmt::format("{}[{} + k]", cell.sums, 2 * n);
  AddStates(operation, layer, cell, 0, 2 * n, cell.inputs + "[j]", "h");
  if (linear_before_reset) {
    AddStates(operation, layer, cell, 2 * n, n, "0", "h");
    code.Each("k", n, "{0} = {0} * {1} + {2}[{3} + k];", hidden,
              Activated(layer, f, reset), cell.inputs, 2 * n);
  } else {
    code.Each("k", n, "{}[k] = {} * h[k];", cell.extra,
              Activated(layer, f, reset));
    AddStates(operation, layer, cell, 2 * n, n, cell.inputs + "[j]",
              cell.extra);
  }
  code.For("k", n);
  code.Line("const double update = {};",
            Activated(layer, f, cell.sums + "[k]"));
  code.Line("h[k] = (1 - update) * {} + update * h[k];",
            Activated(layer, g, hidden));
  code.Close();
}

void WriteRnnStep(const OperationCode& operation, const Layer& layer,
                  const Cell& cell) {
  AddStates(operation, layer, cell, 0, layer.hidden, cell.inputs + "[j]", "h");
  operation.code().Each(
      "k", layer.hidden, "h[k] = {};",
      Activated(layer, layer.activation(cell.direction, 0), cell.sums + "[k]"));
}

using StepWriter = absl::FunctionRef<void(const Cell& cell)>;

// The states of all directions and items as doubles, 0 if they are not given.
std::string States(OperationCode& operation, const Layer& layer, size_t slot) {
  const int64_t count = layer.directions * layer.batch * layer.hidden;
  const std::string states = operation.store().Scratch("double", count);
  operation.code().Each(
      "i", count, "{}[i] = {};", states,
      operation.has(slot) ? operation.in(slot).name + "[i]" : "0");
  return states;
}

// Declares how many steps a sequence has.
void WriteLength(const OperationCode& operation, const Layer& layer) {
  operation.code().Line("const int64_t length = {};",
                        operation.has(kLengths)
                            ? operation.in(kLengths).name + "[n]"
                            : fmt::format("{}", layer.steps));
}

// The code fails where a length is not one.
void CheckLengths(const OperationCode& operation, const Layer& layer) {
  if (!operation.has(kLengths)) return;
  operation.code().Each("n", layer.batch,
                        "if ({0}[n] < 0 || {0}[n] > {1}) return nw_fail(\"{2}: "
                        "a sequence is longer than its steps\");",
                        operation.in(kLengths).name, layer.steps, layer.kind);
}

// Rounds the states of the items that take step `i`. onnxruntime finds the
// range among those of the step before too that ended with it.
void RoundStates(const OperationCode& operation, const Layer& layer,
                 int64_t direction, const std::string& h) {
  CodeWriter& code = operation.code();
  code.Line("double low = 0, high = 0, zero;");
  code.Line("float scale;");
  const auto open = [&](const char* least) {
    code.For("n", layer.batch);
    WriteLength(operation, layer);
    code.Line("double* const state = {} + {} * {};", h,
              layer.StateOf(direction), layer.hidden);
    code.Line("if (length < {}) continue;", least);
    code.For("k", layer.hidden);
  };
  open("i");
  code.Line("if (state[k] < low) low = state[k];");
  code.Line("if (state[k] > high) high = state[k];");
  code.Close(2);
  code.Line("scale = nw_dynamic_scale((float)low, (float)high, &zero);");
  open("i + 1");
  code.Line(
      "state[k] = (nw_dynamic_quantized((float)state[k], scale, zero) - "
      "zero) * (double)scale;");
  code.Close(2);
}

// Stores what the step made.
void StoreStep(const OperationCode& operation, const Layer& layer,
               int64_t direction) {
  if (!operation.wants(0)) return;
  const CTensor& y = operation.out(0);
  operation.code().Each("k", layer.hidden, "{}[{} * {} + k] = ({})h[k];",
                        y.name, layer.OutputOf(direction, "t"), layer.hidden,
                        y.type());
}

// Memory of all sequences' states.
struct StateNames {
  std::string h;
  std::string c;  // Empty for a cell without.
};

// Step by step over all sequences at once, and not one sequence after the
// other, since states that are rounded have one range for all sequences of a
// step.
void WriteDirection(OperationCode& operation, const Layer& layer,
                    const Cell& cell, const StateNames& states,
                    StepWriter write_step) {
  CodeWriter& code = operation.code();
  code.For("i", layer.steps);
  if (layer.rounds_states) {
    RoundStates(operation, layer, cell.direction, states.h);
  }
  code.For("n", layer.batch);
  WriteLength(operation, layer);
  code.Line("if (i >= length) continue;");
  code.Line("const int64_t t = {};",
            layer.is_reverse(cell.direction) ? "length - 1 - i" : "i");
  const std::string at =
      fmt::format("{} * {}", layer.StateOf(cell.direction), layer.hidden);
  code.Line("double* const h = {} + {};", states.h, at);
  if (!states.c.empty()) code.Line("double* const c = {} + {};", states.c, at);
  code.Line("const {}* const x = {} + {} * {};", layer.x.type(), layer.x.name,
            layer.RowOf("t"), layer.input);
  AddInputs(operation, layer, cell);
  write_step(cell);
  StoreStep(operation, layer, cell.direction);
  code.Close(2);
}

absl::Status WriteLayer(OperationCode& operation, const Layer& layer,
                        bool has_cells, StepWriter write_step) {
  CodeWriter& code = operation.code();
  CheckLengths(operation, layer);
  StateNames states{States(operation, layer, kInitialH), ""};
  if (has_cells) states.c = States(operation, layer, kInitialC);
  // Steps beyond a sequence's end give 0.
  if (operation.wants(0)) {
    code.Line("memset({0}, 0, {1} * sizeof(*{0}));", operation.out(0).name,
              operation.out(0).count());
  }
  const Cell names{0, operation.store().Scratch("double", layer.columns()),
                   operation.store().Scratch("double", layer.hidden),
                   operation.store().Scratch("double", layer.columns())};
  for (int64_t d = 0; d < layer.directions; ++d) {
    Cell cell = names;
    cell.direction = d;
    WriteDirection(operation, layer, cell, states, write_step);
  }
  const std::string* const last[] = {nullptr, &states.h, &states.c};
  for (const size_t i : {1, 2}) {
    if (!operation.wants(i)) continue;
    code.Each("i", operation.out(i).count(), "{}[i] = ({}){}[i];",
              operation.out(i).name, operation.out(i).type(), *last[i]);
  }
  return absl::OkStatus();
}

// Fills in what the operators' attributes and weights say. `layer` has the
// weights, in the layout of these operators, and the sequences.
absl::Status CompleteLayer(const ops::RecurrentAttributes& attributes,
                           std::string_view kind, int64_t gates,
                           absl::Span<const char* const> usual, Layer* layer) {
  layer->attributes = &attributes;
  layer->kind = kind;
  layer->gates = gates;
  const bool first = attributes.layout;
  layer->steps = layer->x.sizes[first ? 1 : 0];
  layer->batch = layer->x.sizes[first ? 0 : 1];
  layer->input = layer->x.sizes[2];
  layer->hidden = layer->r.sizes[2];
  layer->directions =
      attributes.direction == ops::Direction::kBidirectional ? 2 : 1;
  NODEWISE_ASSIGN_OR_RETURN(layer->activations,
                            ops::ActivationsOf(attributes, usual));
  return absl::OkStatus();
}

Layer LayerOfInputs(const OperationCode& code) {
  Layer layer;
  layer.x = code.in(kX);
  layer.w = code.in(kW);
  layer.r = code.in(kR);
  return layer;
}

absl::Status WriteLstmOf(OperationCode& code, const ops::LSTM& op,
                         Layer layer) {
  NODEWISE_RETURN_IF_ERROR(
      CompleteLayer(op, "LSTM", 4, ops::kLstmActivations, &layer));
  return WriteLayer(code, layer, true, [&](const Cell& cell) {
    WriteLstmStep(code, layer, cell, op.input_forget);
  });
}

// The attributes of older versions are those of the newest.
absl::Status WriteLstm(OperationCode& code) {
  return WriteLstmOf(code, code.Common<ops::LSTM, ops::LSTM, ops::LSTM1>(),
                     LayerOfInputs(code));
}
absl::Status WriteGru(OperationCode& code) {
  const auto& op = code.Common<ops::GRU, ops::GRU, ops::GRU1>();
  Layer layer = LayerOfInputs(code);
  NODEWISE_RETURN_IF_ERROR(
      CompleteLayer(op, "GRU", 3, ops::kGruActivations, &layer));
  return WriteLayer(code, layer, false, [&](const Cell& cell) {
    WriteGruStep(code, layer, cell, op.linear_before_reset);
  });
}
absl::Status WriteRnn(OperationCode& code) {
  Layer layer = LayerOfInputs(code);
  NODEWISE_RETURN_IF_ERROR(
      CompleteLayer(code.Common<ops::RNN, ops::RNN, ops::RNN1>(), "RNN", 1,
                    ops::kRnnActivations, &layer));
  return WriteLayer(code, layer, false,
                    [&](const Cell& cell) { WriteRnnStep(code, layer, cell); });
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
  code.For("d", from.sizes[0]);
  code.For("j", columns);
  code.For("k", rows);
  code.Line(
      "{0}[(d * {1} + j) * {2} + k] = (float)((({3}[(d * {2} "
      "+ k) * {1} + j]) - {4}) * {5});",
      to.name, columns, rows, "(double)" + from.name, at(scale + 1), at(scale));
  code.Close(3);
  return to;
}

// Writes the inputs of DynamicQuantizeLSTM as it rounds them.
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
  Layer layer;
  layer.x = RoundedInputs(code);
  layer.w = NumbersOfWeights(code, kW, 8);
  layer.r = NumbersOfWeights(code, kR, 10);
  layer.rounds_states = true;
  return WriteLstmOf(code, *code.As<ops::DynamicQuantizeLSTM>(),
                     std::move(layer));
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
