#include "nodewise/ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/recurrent_layer.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/quantize_rules.h"
#include "nodewise/support/status.h"

namespace nodewise {

using ops::Direction;
template <>
struct Words<Direction> {
  static constexpr std::pair<Direction, std::string_view> kAll[] = {
      {Direction::kForward, "forward"},
      {Direction::kReverse, "reverse"},
      {Direction::kBidirectional, "bidirectional"}};
};

namespace {

// Roundings of a function that a kernel calculates.
constexpr double kActivationRoundings = 8;

// The largest difference between f(x) and `f` of a number within `error` of x.
// Between its ends a function of the standard is largest or smallest at 0, or
// where ThresholdedRelu jumps.
double ActivationSpread(const Activation& f, double x, double error) {
  if (!(error > 0)) return error;  // NaN too.
  const double y = f(x);
  double spread =
      std::max(std::fabs(f(x - error) - y), std::fabs(f(x + error) - y));
  const double beyond =
      std::nextafter(f.alpha, std::numeric_limits<double>::infinity());
  for (const double at : {0.0, f.alpha, beyond}) {
    if (std::fabs(at - x) > error) continue;
    spread = std::max(spread, std::fabs(f(at) - y));
  }
  return spread;
}

// The arithmetic of the cells of LSTM, GRU and RNN, so that each is written
// once: with plain numbers, or with numbers and how far a kernel's may be off.

struct CellNumbers {
  using Number = double;
  using Input = double;

  static double Known(double x) { return x; }
  static double ToNumber(double input) { return input; }
  static double Add(double a, double b) { return a + b; }
  static double Multiply(double a, double b) { return a * b; }
  static double Complement(double a) { return 1 - a; }
  static double Apply(const Activation& f, double x) { return f(x); }
  // sums[j] = inputs[j] + bias[j] + h . recurrent[:, j] for `count` columns
  // from `first` on; without `inputs`, that term is left out. A GRU needs its
  // columns in two parts, hence the range.
  static void AddUp(const CellWeights& weights, const double* inputs,
                    const double* h, int64_t first, int64_t count,
                    double* sums) {
    for (int64_t j = first; j < first + count; ++j) {
      sums[j] = weights.bias[static_cast<size_t>(j)];
      if (inputs != nullptr) sums[j] += inputs[j];
    }
    const double* row = weights.recurrent.data();
    for (int64_t k = 0; k < weights.hidden; ++k) {
      const double factor = h[k];
      for (int64_t j = first; j < first + count; ++j)
        sums[j] += factor * row[j];
      row += weights.columns();
    }
  }
};

// Follows the errors through each step: `proved` adds up their absolute values,
// and `expected` takes errors in different places as independent. An activation
// is applied to both ends of the range of an error, so that one that saturates
// makes it small.
class CellErrors {
 public:
  using Number = RoughNumber;
  using Input = SumOfTerms;

  explicit CellErrors(DLDataType dtype)
      : dtype_(dtype), u_(UnitRoundoff(dtype)), tiny_(HalfUlp(dtype, 0)) {}

  static RoughNumber Known(double x) { return {x, 0, 0}; }
  RoughNumber ToNumber(const SumOfTerms& input) const {
    const SumBound bound = BoundSum(dtype_, input);
    return {input.result, bound.proved, bound.expected};
  }
  RoughNumber Add(const RoughNumber& a, const RoughNumber& b) const {
    return Rounded(a.value + b.value, a.proved + b.proved,
                   std::hypot(a.expected, b.expected));
  }
  RoughNumber Multiply(const RoughNumber& a, const RoughNumber& b) const {
    const double of_a = std::fabs(b.value);
    const double of_b = std::fabs(a.value);
    return Rounded(a.value * b.value,
                   of_a * a.proved + of_b * b.proved + a.proved * b.proved,
                   std::hypot(of_a * a.expected, of_b * b.expected) +
                       a.expected * b.expected);
  }
  RoughNumber Complement(const RoughNumber& a) const {
    return Rounded(1 - a.value, a.proved, a.expected);
  }
  RoughNumber Apply(const Activation& f, const RoughNumber& x) const {
    const double y = f(x.value);
    const double size = f.cancels ? 1 + std::fabs(f.alpha * x.value) +
                                        std::fabs(f.alpha) + std::fabs(f.beta)
                                  : 0;
    const double rounding =
        kActivationRoundings * (u_ * std::max(std::fabs(y), size) + tiny_);
    return Rounded(y, ActivationSpread(f, x.value, x.proved) + rounding,
                   ActivationSpread(f, x.value, x.expected) + rounding);
  }
  // Errors of h are carried along by the weights. Those of the inputs are
  // bounds of sums already, and only get more terms here.
  void AddUp(const CellWeights& weights, const SumOfTerms* inputs,
             const RoughNumber* h, int64_t first, int64_t count,
             RoughNumber* sums) const {
    for (int64_t j = first; j < first + count; ++j) {
      const double bias = weights.bias[static_cast<size_t>(j)];
      SumOfTerms sum;
      if (inputs != nullptr) sum = inputs[j];
      sum.terms += static_cast<double>(weights.hidden) + 1;
      sum.Add(bias);
      double proved = 0;
      double squares = 0;
      if (inputs != nullptr && !weights.input_errors.empty()) {
        const SumBound& error = weights.input_errors[static_cast<size_t>(j)];
        proved = error.proved;
        squares = error.expected * error.expected;
      }
      for (int64_t k = 0; k < weights.hidden; ++k) {
        const double weight =
            weights.recurrent[static_cast<size_t>(k * weights.columns() + j)];
        const double term = weight * h[k].value;
        sum.Add(term);
        proved += std::fabs(weight) * h[k].proved;
        const double expected = weight * h[k].expected;
        squares += expected * expected;
      }
      const SumBound fresh = BoundSum(dtype_, sum);
      sums[j] = {sum.result, fresh.proved + proved * (1 + sum.terms * u_),
                 fresh.expected + std::sqrt(squares)};
    }
  }

 private:
  // Returns a number whose errors include its own rounding. A number that is
  // off by `proved` may be larger by it, and then be rounded that much more.
  RoughNumber Rounded(double value, double proved, double expected) const {
    const double rounding = u_ * std::fabs(value) + tiny_;
    return {value, proved + rounding + u_ * proved,
            expected + rounding + u_ * expected};
  }

  DLDataType dtype_;
  double u_;
  double tiny_;
};

// Returns the attributes that all cells have, and `own` ones. Versions before
// opset 7 have one more, which decides nothing.
template <typename Class, size_t kOwn>
constexpr auto CellFields(const std::array<AttrField, kOwn>& own) {
  const auto fields = SortedFields(
      FieldList(Field<&Class::activation_alpha>("activation_alpha"),
                Field<&Class::activation_beta>("activation_beta"),
                Field<&Class::activations>("activations"),
                Field<&Class::clip>("clip"),
                Field<&Class::direction>("direction"),
                Field<&Class::hidden_size>("hidden_size")),
      own);
  if constexpr (requires { &Class::output_sequence; }) {
    return JoinedFields(
        fields, FieldList(Field<&Class::output_sequence>("output_sequence")));
  } else {
    return fields;
  }
}

// What the cells have in common. A `Cell` has the names of its activations in
// kUsual, and Step(), which is done in both kinds of arithmetic. The layer
// walks over steps and items; a cell is what happens in one step of one item.
// Step() is a template over the arithmetic: with numbers it is the reference,
// with numbers and errors the same lines follow how far a kernel may be off.
template <typename Cell, typename Class, int64_t kGates>
struct RecurrentCell : Class {
  absl::Status Check(const Inputs& in) const { return layer().Check(in); }
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const {
    return layer().Infer(in, num_outputs);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return RecurrentLayer::Flops(in);
  }
  absl::Status Evaluate(EvalArgs& args) const { return Run(args, layer()); }

 protected:
  RecurrentLayer layer() const { return {*this, kGates, Cell::kUsual}; }
  absl::Status Run(EvalArgs& args, const RecurrentLayer& layer) const {
    const Cell& cell = static_cast<const Cell&>(*this);
    const CellErrors errors(args.dtype(0));
    return layer.Run(
        args, {[&](const CellWeights& weights, const double* inputs, double* h,
                   double* c, double* sums) {
                 cell.Step(CellNumbers(), weights, inputs, h, c, sums);
               },
               [&](const CellWeights& weights, const SumOfTerms* inputs,
                   RoughNumber* h, RoughNumber* c, RoughNumber* sums) {
                 cell.Step(errors, weights, inputs, h, c, sums);
               }});
  }
};

// Gates: input, output, forget, cell.
template <typename Class>
struct Lstm : RecurrentCell<Lstm<Class>, Class, 4> {
  static constexpr auto& kUsual = ops::kLstmActivations;

  static constexpr auto Fields() {
    return CellFields<Class>(
        FieldList(Field<&Class::input_forget>("input_forget"),
                  Field<&Class::layout>("layout")));
  }
  // Evaluates a layer whose inputs are multiples of `input_step` and whose
  // states are rounded.
  absl::Status EvaluateRounded(EvalArgs& args, double input_step) const {
    RecurrentLayer rounded = this->layer();
    rounded.input_step = input_step;
    return this->Run(args, rounded);
  }
  template <typename Arithmetic, typename Input, typename Number>
  void Step(const Arithmetic& in, const CellWeights& weights,
            const Input* inputs, Number* h, Number* c, Number* sums) const {
    const int64_t n = weights.hidden;
    const Activation& f = weights.activations[0];
    const Activation& g = weights.activations[1];
    const Activation& out = weights.activations[2];
    const double* const peep =
        weights.peepholes.empty() ? nullptr : weights.peepholes.data();
    in.AddUp(weights, inputs, h, 0, 4 * n, sums);
    for (int64_t i = 0; i < n; ++i) {
      const auto gate = [&](int64_t column, int64_t peephole,
                            const Number& cell) {
        Number sum = sums[column * n + i];
        if (peep != nullptr) {
          const Number weight = in.Known(peep[peephole * n + i]);
          sum = in.Add(sum, in.Multiply(weight, cell));
        }
        return in.Apply(f, sum);
      };
      const Number before = c[i];
      const Number input = gate(0, 0, before);
      // Where the gates are coupled, the share that is not taken from the input
      // is kept of the state.
      const Number forget =
          this->input_forget ? in.Complement(input) : gate(2, 2, before);
      c[i] = in.Add(in.Multiply(forget, before),
                    in.Multiply(input, in.Apply(g, sums[3 * n + i])));
      h[i] = in.Multiply(gate(1, 1, c[i]), in.Apply(out, c[i]));
    }
  }
};

// Gates: update, reset, hidden. `sums` holds all three gates, and is worked on
// in place.
template <typename Class>
struct Gru : RecurrentCell<Gru<Class>, Class, 3> {
  static constexpr auto& kUsual = ops::kGruActivations;

  static constexpr auto Fields() {
    return CellFields<Class>(
        FieldList(Field<&Class::layout>("layout"),
                  Field<&Class::linear_before_reset>("linear_before_reset")));
  }
  template <typename Arithmetic, typename Input, typename Number>
  void Step(const Arithmetic& in, const CellWeights& weights,
            const Input* inputs, Number* h, Number*, Number* sums) const {
    const int64_t n = weights.hidden;
    const Activation& f = weights.activations[0];
    const Activation& g = weights.activations[1];
    in.AddUp(weights, inputs, h, 0, 2 * n, sums);
    Number* const update = sums;
    Number* const reset = sums + n;
    Number* const hidden = sums + 2 * n;
    for (int64_t i = 0; i < n; ++i) {
      update[i] = in.Apply(f, update[i]);
      reset[i] = in.Apply(f, reset[i]);
    }
    // The reset gate is applied to the weighted sum of h, whose bias is inside,
    // or to h itself. The second needs all of r before any of the sums.
    if (this->linear_before_reset) {
      in.AddUp(weights, nullptr, h, 2 * n, n, sums);
      for (int64_t i = 0; i < n; ++i) {
        hidden[i] = in.Add(in.Multiply(hidden[i], reset[i]),
                           in.ToNumber(inputs[2 * n + i]));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) reset[i] = in.Multiply(reset[i], h[i]);
      in.AddUp(weights, inputs, reset, 2 * n, n, sums);
    }
    for (int64_t i = 0; i < n; ++i) {
      const Number next = in.Apply(g, hidden[i]);
      h[i] = in.Add(in.Multiply(in.Complement(update[i]), next),
                    in.Multiply(update[i], h[i]));
    }
  }
};

// The one gate is the state itself.
template <typename Class>
struct Rnn : RecurrentCell<Rnn<Class>, Class, 1> {
  static constexpr auto& kUsual = ops::kRnnActivations;

  static constexpr auto Fields() {
    return CellFields<Class>(FieldList(Field<&Class::layout>("layout")));
  }
  template <typename Arithmetic, typename Input, typename Number>
  void Step(const Arithmetic& in, const CellWeights& weights,
            const Input* inputs, Number* h, Number*, Number* sums) const {
    in.AddUp(weights, inputs, h, 0, weights.hidden, sums);
    for (int64_t i = 0; i < weights.hidden; ++i) {
      h[i] = in.Apply(weights.activations[0], sums[i]);
    }
  }
};

// Evaluated as an LSTM of dequantized weights. Inputs are rounded before it
// starts, and the layer rounds the states before each step; both stay floats
// that stand for multiples of a scale.
struct DynamicQuantizeLstm : ops::DynamicQuantizeLSTM {
  static constexpr auto Fields() {
    using Class = ops::DynamicQuantizeLSTM;
    return CellFields<Class>(
        FieldList(Field<&Class::input_forget>("input_forget")));
  }
  absl::Status Check(const Inputs& in) const {
    const std::vector<InputInfo> infos = LstmInputs(in);
    return All(RequireType(in, 0, kFloat32), RequireRank(in, kW, 3),
               RequireRank(in, kR, 3), AsLstm().Check(Inputs(infos)),
               CheckScale(in, kW, kWScale), CheckScale(in, kR, kRScale));
  }
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const {
    const std::vector<InputInfo> infos = LstmInputs(in);
    return AsLstm().Infer(Inputs(infos), num_outputs);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    const std::vector<InputInfo> infos = LstmInputs(in);
    return AsLstm().Flops(Inputs(infos), out);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    Tensors inputs;
    for (size_t i = 0; i < kWScale; ++i) {
      inputs.push_back(args.has(i) ? args.in(i) : NDArray());
    }
    NODEWISE_ASSIGN_OR_RETURN(inputs[kW], Weights(args, kW, kWScale));
    NODEWISE_ASSIGN_OR_RETURN(inputs[kR], Weights(args, kR, kRScale));
    const NDArray& x = args.in(0);
    NODEWISE_ASSIGN_OR_RETURN(inputs[0],
                              NDArray::Empty(x.shape(), kFloat32, kCpu));
    const auto* const from = x.As<float>();
    const auto* const end = from + CountOf(x);
    const auto to = from == end
                        ? DynamicScale()
                        : DynamicScale::FromRange(*std::min_element(from, end),
                                                  *std::max_element(from, end));
    std::transform(from, end, inputs[0].As<float>(), [&](float each) {
      return static_cast<float>(to.Nearest(each));
    });
    // The LSTM gets arguments of its own, and its outputs become those of this
    // operator.
    absl::InlinedVector<bool, 3> wanted;
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      wanted.push_back(args.wants(i));
    }
    EvalArgs::Options options;
    options.with_bounds = args.num_outputs() > 0 && args.bounds(0) != nullptr;
    EvalArgs lstm(inputs, wanted, options, {});
    NODEWISE_RETURN_IF_ERROR(
        AsLstm().EvaluateRounded(lstm, static_cast<double>(to.scale)));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      args.SetOutput(i, lstm.outputs()[i]);
      if (options.with_bounds) *args.bounds(i) = std::move(*lstm.bounds(i));
    }
    return absl::OkStatus();
  }

 private:
  // The inputs from kWScale on are not LSTM's.
  static constexpr size_t kW = 1, kR = 2, kWScale = 8, kRScale = 10;

  Lstm<ops::LSTM> AsLstm() const {
    Lstm<ops::LSTM> lstm;
    static_cast<ops::LSTM&>(lstm) = *this;
    return lstm;
  }
  // What is known of the inputs of the LSTM of dequantized weights. The weights
  // have their last two sides exchanged, and their data means nothing to an
  // LSTM before it is dequantized.
  static std::vector<InputInfo> LstmInputs(const Inputs& in) {
    std::vector<InputInfo> infos;
    for (size_t i = 0; i < kWScale; ++i) infos.push_back(in[i]);
    for (const size_t i : {kW, kR}) {
      infos[i].constant = nullptr;
      infos[i].type.dtype = in.type(0).dtype;
      auto& shape = infos[i].type.shape;
      if (shape.has_value() && shape->size() == 3) {
        std::swap((*shape)[1], (*shape)[2]);
      }
    }
    return infos;
  }
  // Weights have one scale for each direction, or for each of its columns.
  static absl::Status CheckScale(const Inputs& in, size_t weights,
                                 size_t scale) {
    const DLDataType dtype = in.type(weights).dtype;
    NODEWISE_RETURN_IF_ERROR(RequireQuantized(in, weights));
    if (dtype.bits != 0) {
      NODEWISE_RETURN_IF_ERROR(RequireType(in, scale + 1, dtype));
    }
    for (const size_t i : {scale, scale + 1}) {
      NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 1, 2));
      if (!in.type(i).has_rank()) continue;
      Shape expected = {SideOf(in, weights, 0)};
      if (in.type(i).rank() == 2) expected.push_back(SideOf(in, weights, 2));
      NODEWISE_RETURN_IF_ERROR(RequireShape(in, i, expected));
    }
    return RequireType(in, scale, kFloat32);
  }
  // Returns the weights as numbers, laid out as those of LSTM.
  static absl::StatusOr<NDArray> Weights(const EvalArgs& args, size_t weights,
                                         size_t scale) {
    const auto shape = args.shape(weights);
    const auto columns = static_cast<size_t>(shape[2]);
    const auto rows = static_cast<size_t>(shape[1]);
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray made,
        NDArray::Empty({shape[0], shape[2], shape[1]}, kFloat32, kCpu));
    const std::vector<double> from = ToDoubles(args.in(weights));
    const std::vector<double> scales = ToDoubles(args.in(scale));
    const std::vector<double> zeros = ToDoubles(args.in(scale + 1));
    const auto at = [&](const std::vector<double>& values, size_t column) {
      const bool is_by_direction =
          values.size() == static_cast<size_t>(shape[0]);
      return values[is_by_direction ? column / columns : column];
    };
    auto* to = made.As<float>();
    for (size_t column = 0; column < columns * static_cast<size_t>(shape[0]);
         ++column) {
      const size_t direction = column / columns;
      for (size_t row = 0; row < rows; ++row) {
        const double q =
            from[(direction * rows + row) * columns + column % columns];
        *to++ =
            static_cast<float>((q - at(zeros, column)) * at(scales, column));
      }
    }
    return made;
  }
};

// Y is optional as all outputs are: many networks use the last state alone.
template <typename Class>
constexpr OperatorDef LstmRow(int since) {
  return Row<Class, Lstm<Class>>(
      "LSTM", since,
      {"X", "W", "R", Optional("B"), Optional("sequence_lens"),
       Optional("initial_h"), Optional("initial_c"), Optional("P")},
      {Optional("Y"), Optional("Y_h"), Optional("Y_c")}, kSum);
}
// GRU and RNN have no cell state, and no peepholes.
template <typename Class, typename Rules>
constexpr OperatorDef OtherRow(const char* name, int since) {
  return Row<Class, Rules>(name, since,
                           {"X", "W", "R", Optional("B"),
                            Optional("sequence_lens"), Optional("initial_h")},
                           {Optional("Y"), Optional("Y_h")}, kSum);
}

constexpr OperatorDef kRecurrents[] = {
    LstmRow<ops::LSTM1>(1),
    LstmRow<ops::LSTM>(7),
    Row<ops::DynamicQuantizeLSTM, DynamicQuantizeLstm>(
        {.name = "DynamicQuantizeLSTM",
         .domain = "com.microsoft",
         .inputs = {"X", "W", "R", Optional("B"), Optional("sequence_lens"),
                    Optional("initial_h"), Optional("initial_c"), Optional("P"),
                    "W_scale", "W_zero_point", "R_scale", "R_zero_point"},
         .outputs = {Optional("Y"), Optional("Y_h"), Optional("Y_c")},
         .bound = kSum}),
    OtherRow<ops::GRU1, Gru<ops::GRU1>>("GRU", 1),
    OtherRow<ops::GRU, Gru<ops::GRU>>("GRU", 7),
    OtherRow<ops::RNN1, Rnn<ops::RNN1>>("RNN", 1),
    OtherRow<ops::RNN, Rnn<ops::RNN>>("RNN", 7),
};

}  // namespace

absl::Span<const OperatorDef> RecurrentOperators() { return kRecurrents; }

}  // namespace nodewise
