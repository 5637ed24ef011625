#include "contrib/ops/recurrent_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/quantize_rules.h"
#include "nodewise/kernels/matrix_product.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A layer first multiplies all inputs of a direction with their weights in one
// product, since these do not depend on the states. What remains in each step
// is a small product of the state, column by column, and the gates. Directions
// come one after the other, items in threads. Where bounds are wanted,
// everything is done a second time with errors beside the numbers.

struct ActivationRow {
  std::string_view name;
  double (*function)(double x, double alpha, double beta);
  double alpha = 0;
  double beta = 0;
  bool takes_alpha = false;
  bool takes_beta = false;
  bool cancels = false;
};

constexpr ActivationRow kActivations[] = {
    {"Relu", [](double x, double, double) { return x < 0 ? 0 : x; }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"Sigmoid",
     [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {"Affine", [](double x, double a, double b) { return a * x + b; }, 1, 0,
     true, true, true},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; },
     0.01f, 0, true, false},
    {"ThresholdedRelu",
     [](double x, double a, double) { return x <= a ? 0 : x; }, 1, 0, true,
     false},
    {"ScaledTanh",
     [](double x, double a, double b) { return a * std::tanh(b * x); }, 1, 1,
     true, true},
    {"HardSigmoid",
     [](double x, double a, double b) {
       const double y = a * x + b;
       return y < 0 ? 0 : y > 1 ? 1 : y;
     },
     0.2f, 0.5, true, true, true},
    {"Elu",
     [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; },
     1, 0, true, false, true},
    {"Softsign",
     [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Softplus",
     [](double x, double, double) {
       return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
     },
     0, 0, false, false, true},
};

// The list is short, and searched once for each layer.
const ActivationRow* Find(std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    // The standard writes them with capitals, exporters do not always.
    if (absl::EqualsIgnoreCase({row.name.data(), row.name.size()},
                               {name.data(), name.size()})) {
      return &row;
    }
  }
  return nullptr;
}

absl::StatusOr<const ActivationRow*> RowNamed(std::string_view name) {
  const ActivationRow* const row = Find(name);
  if (row != nullptr) return row;
  std::string all;
  for (const ActivationRow& known : kActivations) {
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  return WrongAttribute("activations", "has \"{}\", expected one of {}", name,
                        all);
}

}  // namespace

Activation FunctionOf(const ops::CellActivation& activation) {
  const ActivationRow* const row = Find(activation.name);
  NODEWISE_CHECK(row != nullptr);
  return {row->function, activation.alpha, activation.beta, 0, row->cancels};
}

namespace ops {

absl::StatusOr<std::vector<CellActivation>> ActivationsOf(
    const RecurrentAttributes& attributes,
    absl::Span<const char* const> usual) {
  const std::vector<std::string>& names = attributes.activations;
  const size_t directions =
      attributes.direction == Direction::kBidirectional ? 2 : 1;
  const size_t count = usual.size() * directions;
  if (!names.empty() && names.size() < count) {
    return WrongAttribute("activations", "has {} names, expected {}",
                          names.size(), count);
  }
  std::vector<CellActivation> all;
  size_t alphas = 0;
  size_t betas = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name =
        names.empty() ? usual[i % usual.size()] : std::string_view(names[i]);
    NODEWISE_ASSIGN_OR_RETURN(const ActivationRow* const row, RowNamed(name));
    CellActivation made{row->name, row->alpha, row->beta};
    if (row->takes_alpha && alphas < attributes.activation_alpha.size()) {
      made.alpha = attributes.activation_alpha[alphas++];
    }
    if (row->takes_beta && betas < attributes.activation_beta.size()) {
      made.beta = attributes.activation_beta[betas++];
    }
    all.push_back(made);
  }
  return all;
}

}  // namespace ops

namespace {

// Inputs by their places, the same in all three operators.
constexpr size_t kX = 0, kW = 1, kR = 2, kBiases = 3, kSequenceLengths = 4,
                 kInitialH = 5, kInitialC = 6, kPeepholes = 7;

// Everything of one evaluation. With `layout` the batch comes first in X and in
// the outputs, else the steps do. All places are counted by the functions
// below, so that the loops need not tell the two apart.
struct Sequences {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t gates = 0;
  int64_t directions = 1;
  bool batch_first = false;

  int64_t columns() const { return gates * hidden; }
  int64_t RowOf(int64_t step, int64_t item) const {
    return batch_first ? item * steps + step : step * batch + item;
  }
  int64_t StateOf(int64_t direction, int64_t item) const {
    return batch_first ? item * directions + direction
                       : direction * batch + item;
  }
  int64_t OutputOf(int64_t step, int64_t direction, int64_t item) const {
    return batch_first ? (item * steps + step) * directions + direction
                       : (step * directions + direction) * batch + item;
  }
};

// R comes by column and is turned here, so that the innermost loop of a step
// runs along the columns of one element of h.
CellWeights WeightsOf(const EvalArgs& args, const Sequences& all,
                      int64_t direction) {
  CellWeights weights;
  const int64_t columns = all.columns();
  weights.hidden = all.hidden;
  weights.gates = all.gates;
  weights.recurrent.resize(static_cast<size_t>(all.hidden * columns));
  const int64_t begin = direction * columns * all.hidden;
  std::vector<double> rows(weights.recurrent.size());
  LoadDoubles(args.in(kR), begin, begin + columns * all.hidden, rows.data());
  // A line of the cache at a time: each is written once.
  constexpr int64_t kPart = 8;
  for (int64_t first = 0; first < columns; first += kPart) {
    const int64_t last = std::min(first + kPart, columns);
    for (int64_t k = 0; k < all.hidden; ++k) {
      double* const to = weights.recurrent.data() + k * columns;
      for (int64_t j = first; j < last; ++j) {
        to[j] = rows[static_cast<size_t>(j * all.hidden + k)];
      }
    }
  }
  weights.bias.resize(static_cast<size_t>(columns));
  if (args.has(kBiases)) {
    // B has the biases of the inputs, then those of the recurrence, for each
    // direction.
    const int64_t second = (2 * direction + 1) * columns;
    LoadDoubles(args.in(kBiases), second, second + columns,
                weights.bias.data());
  }
  if (args.has(kPeepholes)) {
    weights.peepholes.resize(static_cast<size_t>(3 * all.hidden));
    const int64_t first = direction * 3 * all.hidden;
    LoadDoubles(args.in(kPeepholes), first, first + 3 * all.hidden,
                weights.peepholes.data());
  }
  return weights;
}

// Returns how far the sums of inputs that are multiples of `step` may be off,
// by column, if each of them may be the multiple beside it.
// DynamicQuantizeLinear may round an input to the neighbour, which moves a sum
// by the weight times the step.
std::vector<SumBound> InputErrors(const EvalArgs& args, const Sequences& all,
                                  int64_t direction, double step) {
  const int64_t columns = all.columns();
  std::vector<double> rows(static_cast<size_t>(columns * all.input));
  const int64_t begin = direction * columns * all.input;
  LoadDoubles(args.in(kW), begin, begin + columns * all.input, rows.data());
  std::vector<SumBound> errors;
  for (int64_t j = 0; j < columns; ++j) {
    double absolute = 0;
    double squares = 0;
    for (int64_t k = 0; k < all.input; ++k) {
      const double weight = rows[static_cast<size_t>(j * all.input + k)];
      absolute += std::fabs(weight);
      squares += weight * weight;
    }
    errors.push_back({step * absolute, step * std::sqrt(squares)});
  }
  return errors;
}

// Returns X W^T + the bias of the inputs, by row of X and column, or the sums
// of the sizes or squares of these terms. All steps of all items are the rows
// of one product.
std::vector<double> InputsOf(const EvalArgs& args, const Sequences& all,
                             int64_t direction, Terms terms) {
  const int64_t columns = all.columns();
  std::vector<double> bias(static_cast<size_t>(columns));
  if (args.has(kBiases)) {
    const int64_t first = 2 * direction * columns;
    LoadDoubles(args.in(kBiases), first, first + columns, bias.data());
    for (double& b : bias) {
      if (terms == Terms::kAbsolute) b = std::fabs(b);
      if (terms == Terms::kSquared) b *= b;
    }
  }
  std::vector<double> sums(
      static_cast<size_t>(all.steps * all.batch * columns));
  const Factor x{args.dtype(kX), args.in(kX).data(), all.input, 1};
  const Factor w{args.dtype(kW),
                 ElementAt(args.dtype(kW), args.in(kW).data(),
                           direction * columns * all.input),
                 all.input, 1};
  MultiplyMatrices(
      {1, all.steps * all.batch, columns, all.input}, terms,
      [&](const Strips& strips) { PackFactor(x, strips); },
      [&](const Strips& strips) { PackFactor(w, strips); },
      [&](const ProductTile& tile) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          double* const to =
              sums.data() + (tile.row + r) * columns + tile.column;
          const double* const b = bias.data() + tile.column;
          for (int64_t j = 0; j < tile.columns; ++j) {
            to[j] = tile.Row(r)[j] + b[j];
          }
        }
      });
  return sums;
}

// A length is data: one beyond the steps would read past the inputs.
absl::StatusOr<std::vector<int64_t>> LengthsOf(const EvalArgs& args,
                                               const Sequences& all) {
  if (!args.has(kSequenceLengths)) {
    return std::vector<int64_t>(static_cast<size_t>(all.batch), all.steps);
  }
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> lengths,
                            args.Ints(kSequenceLengths));
  for (const int64_t length : lengths) {
    if (length >= 0 && length <= all.steps) continue;
    return WrongInput(kSequenceLengths, "has {}, expected 0 to {}", length,
                      all.steps);
  }
  return lengths;
}

std::vector<double> StatesOf(const EvalArgs& args, size_t i,
                             const Sequences& all) {
  if (args.has(i)) return ToDoubles(args.in(i));
  return std::vector<double>(
      static_cast<size_t>(all.directions * all.batch * all.hidden));
}

void InputsOf(const EvalArgs& args, const Sequences& all, int64_t direction,
              std::vector<double>* sums) {
  *sums = InputsOf(args, all, direction, Terms::kPlain);
}
void InputsOf(const EvalArgs& args, const Sequences& all, int64_t direction,
              std::vector<SumOfTerms>* sums) {
  const auto plain = InputsOf(args, all, direction, Terms::kPlain);
  const auto absolute = InputsOf(args, all, direction, Terms::kAbsolute);
  const auto squares = InputsOf(args, all, direction, Terms::kSquared);
  const auto terms = static_cast<double>(all.input + 1);
  sums->resize(plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    (*sums)[i] = {terms, absolute[i], squares[i], plain[i]};
  }
}

template <typename Number>
struct Results {
  std::vector<Number> y;
  std::vector<Number> h;
  std::vector<Number> c;
};

template <typename Number>
std::vector<Number> Known(const std::vector<double>& values) {
  std::vector<Number> numbers;
  numbers.reserve(values.size());
  for (const double value : values) numbers.push_back(Number{value});
  return numbers;
}

// One direction of all items. Reverse means from the last step of each item to
// its first, not from the end of the padding.
struct Pass {
  const EvalArgs& args;
  const Sequences& all;
  const std::vector<int64_t>& lengths;
  const CellWeights& weights;
  int64_t direction;
  bool is_reverse;
  bool rounds_states;
};

double ValueOf(double number) { return number; }
double ValueOf(const RoughNumber& number) { return number.value; }

void Round(const DynamicScale& to, double, double* number) {
  *number = to.Nearest(static_cast<float>(*number));
}
// A kernel that splits the sequences among threads rounds each part by itself,
// so that every number has another error of up to half a step. `range` is how
// far off the ends of the range may be.
void Round(const DynamicScale& to, double range, RoughNumber* number) {
  const double step = static_cast<double>(to.scale);
  number->value = to.Nearest(static_cast<float>(number->value));
  number->proved += step + range / 255;
  number->expected = std::hypot(number->expected, 2 * step);
}

// Overloads for plain numbers and for those with errors keep RoundStates() and
// RunPass() in one piece.
double ErrorOf(double) { return 0; }
double ErrorOf(const RoughNumber& number) { return number.proved; }

// Rounds the states of the items that take step `i`, all with one scale, as
// onnxruntime does with one thread. Its range also covers the items that ended
// with the step before, and either end of the range may be off by an error.
template <typename Number>
void RoundStates(const Pass& pass, int64_t i, std::vector<Number>* h) {
  double low = 0;
  double high = 0;
  double error = 0;
  const Sequences& all = pass.all;
  const auto for_each = [&](int64_t least_length, auto f) {
    for (int64_t item = 0; item < all.batch; ++item) {
      if (pass.lengths[static_cast<size_t>(item)] < least_length) continue;
      Number* const state =
          h->data() + all.StateOf(pass.direction, item) * all.hidden;
      for (int64_t k = 0; k < all.hidden; ++k) f(&state[k]);
    }
  };
  for_each(i, [&](const Number* state) {
    low = std::min(low, ValueOf(*state));
    high = std::max(high, ValueOf(*state));
    error = std::max(error, ErrorOf(*state));
  });
  const auto to = DynamicScale::FromRange(static_cast<float>(low),
                                          static_cast<float>(high));
  for_each(i + 1, [&](Number* state) { Round(to, 2 * error, state); });
}

// An item keeps its state in the list of final states, where it is the result
// once its last step is done. Items are independent of each other unless their
// states are rounded together before each step.
template <typename Number, typename Input>
void RunPass(const Pass& pass, CellStep<Number, Input> step,
             Results<Number>* results) {
  const Sequences& all = pass.all;
  std::vector<Input> inputs;
  InputsOf(pass.args, all, pass.direction, &inputs);
  const auto take_step = [&](int64_t item, int64_t i, Number* scratch) {
    const int64_t length = pass.lengths[static_cast<size_t>(item)];
    if (i >= length) return;
    const int64_t at = all.StateOf(pass.direction, item) * all.hidden;
    const int64_t t = pass.is_reverse ? length - 1 - i : i;
    Number* const h = results->h.data() + at;
    step(pass.weights, inputs.data() + all.RowOf(t, item) * all.columns(), h,
         results->c.data() + at, scratch);
    std::copy_n(
        h, all.hidden,
        results->y.data() + all.OutputOf(t, pass.direction, item) * all.hidden);
  };
  if (pass.rounds_states) {
    std::vector<Number> scratch(static_cast<size_t>(all.columns()));
    for (int64_t i = 0; i < all.steps; ++i) {
      RoundStates(pass, i, &results->h);
      for (int64_t item = 0; item < all.batch; ++item) {
        take_step(item, i, scratch.data());
      }
    }
    return;
  }
  const double work = static_cast<double>(all.steps * all.columns()) *
                      static_cast<double>(all.hidden + 20);
  ParallelFor(all.batch, work, [&](int64_t begin, int64_t end) {
    std::vector<Number> scratch(static_cast<size_t>(all.columns()));
    for (int64_t item = begin; item < end; ++item) {
      for (int64_t i = 0; i < all.steps; ++i) {
        take_step(item, i, scratch.data());
      }
    }
  });
}

// Independent errors cannot make more than all of them together.
void Store(const std::vector<RoughNumber>& numbers, DLDataType dtype,
           Bounds* bounds) {
  bounds->proved.clear();
  bounds->expected.clear();
  for (const RoughNumber& number : numbers) {
    // The rounding of the reference itself.
    const double rounding = HalfUlp(dtype, number.value);
    bounds->proved.push_back(number.proved + rounding);
    bounds->expected.push_back(std::min(number.expected, number.proved) +
                               rounding);
  }
}

}  // namespace

Dim RecurrentLayer::Hidden(const Inputs& in) const {
  if (attributes.hidden_size > 0) return attributes.hidden_size;
  return SideOf(in, kR, 2);
}

Shape RecurrentLayer::StateShape(const Dim& batch, const Dim& hidden) const {
  const Dim directions = num_directions();
  return attributes.layout ? Shape{batch, directions, hidden}
                           : Shape{directions, batch, hidden};
}

absl::StatusOr<std::vector<Activation>> RecurrentLayer::Activations() const {
  NODEWISE_ASSIGN_OR_RETURN(const auto found,
                            ops::ActivationsOf(attributes, usual_activations));
  std::vector<Activation> all;
  for (const ops::CellActivation& each : found) {
    all.push_back(FunctionOf(each));
    all.back().clip = attributes.clip;
  }
  return all;
}

absl::Status RecurrentLayer::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, kX), RequireType(in, kSequenceLengths, kInt32)));
  // Lengths are the one input of another type.
  for (size_t i = 1; i < in.size(); ++i) {
    if (i != kSequenceLengths && in.type(kX).has_dtype()) {
      NODEWISE_RETURN_IF_ERROR(RequireType(in, i, in.type(kX).dtype));
    }
  }
  if (attributes.hidden_size < 0) {
    return WrongAttribute("hidden_size", "is {}, expected 1 or more",
                          attributes.hidden_size);
  }
  if (SideOf(in, kX, 2) == Dim(0)) {
    return InputError(kX, "has vectors of 0 elements, expected 1 or more");
  }
  const Dim hidden = Hidden(in);
  // The sides of all inputs follow from X and the hidden size. An unknown one
  // is compared with nothing.
  const Dim columns = Times(hidden, gates);
  const Dim directions = num_directions();
  const Dim batch = SideOf(in, kX, attributes.layout ? 0 : 1);
  const Shape state = StateShape(batch, hidden);
  return All(RequireRank(in, kX, 3),
             RequireShape(in, kW, {directions, columns, SideOf(in, kX, 2)}),
             RequireShape(in, kR, {directions, columns, hidden}),
             RequireShape(in, kBiases, {directions, Times(columns, 2)}),
             RequireShape(in, kSequenceLengths, {batch}),
             RequireShape(in, kInitialH, state),
             RequireShape(in, kInitialC, state),
             RequireShape(in, kPeepholes, {directions, Times(hidden, 3)}),
             Activations().status());
}

OutputInfos RecurrentLayer::Infer(const Inputs& in, size_t num_outputs) const {
  const bool layout = attributes.layout;
  const Dim steps = SideOf(in, kX, layout ? 1 : 0);
  const Dim batch = SideOf(in, kX, layout ? 0 : 1);
  const Dim directions = num_directions();
  const Dim hidden = Hidden(in);
  const DLDataType dtype = in.type(kX).dtype;
  OutputInfos out;
  out.push_back(
      TensorType(dtype, layout ? Shape{batch, steps, directions, hidden}
                               : Shape{steps, directions, batch, hidden}));
  while (out.size() < num_outputs) {
    out.push_back(TensorType(dtype, StateShape(batch, hidden)));
  }
  return out;
}

double RecurrentLayer::Flops(const Inputs& in) {
  const auto x = in.type(kX).sizes();
  const auto w = in.type(kW).sizes();
  const auto r = in.type(kR).sizes();
  if (!x || !w || !r) return 0;
  // Each step of each item multiplies with all weights of each direction. Gates
  // and activations are left out, as they are few next to these.
  const auto rows = static_cast<double>((*x)[0]) * static_cast<double>((*x)[1]);
  return 2 * rows * static_cast<double>((*w)[0]) *
         static_cast<double>((*w)[1]) * static_cast<double>((*w)[2] + (*r)[2]);
}

absl::Status RecurrentLayer::Run(EvalArgs& args, const CellSteps& steps) const {
  const bool layout = attributes.layout;
  const auto x = args.shape(kX);
  const Sequences all{x[layout ? 1 : 0],
                      x[layout ? 0 : 1],
                      x[2],
                      args.shape(kR)[2],
                      gates,
                      num_directions(),
                      layout};
  NODEWISE_ASSIGN_OR_RETURN(const auto functions, Activations());
  NODEWISE_ASSIGN_OR_RETURN(const auto lengths, LengthsOf(args, all));
  // Steps beyond a sequence's end give 0.
  const auto count =
      static_cast<size_t>(all.steps * all.directions * all.batch * all.hidden);
  Results<double> exact{std::vector<double>(count),
                        StatesOf(args, kInitialH, all),
                        StatesOf(args, kInitialC, all)};
  const bool with_bounds = args.num_outputs() > 0 && args.bounds(0) != nullptr;
  // The states that a call begins with are exact.
  Results<RoughNumber> rough;
  if (with_bounds) {
    rough = {std::vector<RoughNumber>(count), Known<RoughNumber>(exact.h),
             Known<RoughNumber>(exact.c)};
  }
  for (int64_t d = 0; d < all.directions; ++d) {
    CellWeights weights = WeightsOf(args, all, d);
    weights.activations =
        functions.data() + static_cast<size_t>(d) * usual_activations.size();
    const bool is_reverse =
        attributes.direction == ops::Direction::kReverse || d == 1;
    if (with_bounds && input_step.has_value()) {
      weights.input_errors = InputErrors(args, all, d, *input_step);
    }
    const Pass pass{
        args, all, lengths, weights, d, is_reverse, input_step.has_value()};
    RunPass(pass, steps.numbers, &exact);
    if (with_bounds) RunPass(pass, steps.errors, &rough);
  }
  std::vector<int64_t> y_shape = {all.steps, all.directions, all.batch,
                                  all.hidden};
  std::vector<int64_t> h_shape = {all.directions, all.batch, all.hidden};
  if (layout) {
    y_shape = {all.batch, all.steps, all.directions, all.hidden};
    h_shape = {all.batch, all.directions, all.hidden};
  }
  const std::vector<double>* const values[] = {&exact.y, &exact.h, &exact.c};
  const std::vector<RoughNumber>* const errors[] = {&rough.y, &rough.h,
                                                    &rough.c};
  for (size_t i = 0; i < 3; ++i) {
    if (!args.wants(i)) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray out,
        args.MakeOutput(i, i == 0 ? y_shape : h_shape, args.dtype(kX)));
    StoreDoubles(values[i]->data(), 0, CountOf(out), out);
    if (with_bounds) Store(*errors[i], out.dtype(), args.bounds(i));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
