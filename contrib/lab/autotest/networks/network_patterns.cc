// Series of operations that compilers compute together, and some that only look
// like that: with another reader in the middle, another axis, one step less.

#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/networks/network_builder.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr int kFurtherReader = 8;  // Per cent of operations.
constexpr int kLeftOut = 6;        // Per cent of operations that may be.
constexpr float kEpsilon = 1e-5F;

// A series of operations on floats of one type. The first that fails ends it:
// from then on nothing is added and nothing is drawn, so that a pattern may
// name one operation behind the other without looking at each. All of its draws
// have to go through the series for that.
class Series {
 public:
  explicit Series(NetworkBuilder& builder)
      : builder_(builder),
        dtype_(builder.One(
            {kFloat32, kFloat32, kFloat32, kFloat32, kFloat16, kFloat64})) {}

  NetworkBuilder& builder() { return builder_; }
  DLDataType dtype() const { return dtype_; }
  const absl::Status& status() const { return status_; }

  bool Chance(int percent = 50) {
    return status_.ok() && builder_.Chance(percent);
  }
  int64_t Between(int64_t least, int64_t most) {
    return status_.ok() ? builder_.Between(least, most) : least;
  }
  int64_t Side(int64_t most) { return Between(1, most); }
  template <typename T>
  T One(std::initializer_list<T> options) {
    return status_.ok() ? builder_.One(options) : *options.begin();
  }

  // Fails for an operator that is not to be tested.
  ValueId Op(std::string_view kind, const std::vector<NamedAttr>& attributes,
             ValueIds inputs) {
    if (!status_.ok()) return kNoValue;
    const auto& rows = builder_.options().rows;
    if (std::ranges::count(rows, kind, &OperatorDef::name) == 0) {
      return Get(NotFound("not to be tested"));
    }
    const ValueId made = Get(builder_.Add(kind, attributes, std::move(inputs)));
    // With a second reader, two operations cannot become one without keeping
    // what is between them.
    if (Chance(kFurtherReader)) Get(builder_.Add("Identity", {}, {made}));
    return made;
  }
  ValueId Op(std::string_view kind, ValueIds inputs) {
    return Op(kind, {}, std::move(inputs));
  }
  ValueId Maybe(std::string_view kind, const std::vector<NamedAttr>& attributes,
                ValueId input) {
    return Chance(kLeftOut) ? input : Op(kind, attributes, {input});
  }
  ValueId Input(const Sides& shape) {
    if (!status_.ok()) return kNoValue;
    return Get(builder_.Feed({true, dtype_, shape}));
  }
  ValueId Weight(const Sides& shape, InputDomain domain = {-1, 1, false}) {
    if (Chance(10) && domain.least < 0) return Input(shape);
    if (!status_.ok()) return kNoValue;
    if (builder_.options().is_exact) domain.is_whole = true;
    const auto data = DrawTensor(dtype_, shape, domain, builder_.choices());
    return Get(data.ok() ? builder_.AddConstant(*data) : data.status());
  }
  ValueId Number(double number) { return Number(dtype_, number); }
  ValueId Number(DLDataType dtype, double number) {
    if (!status_.ok()) return kNoValue;
    return Get(builder_.AddNumber(dtype, number));
  }
  ValueId Ints(const Sides& numbers) {
    if (!status_.ok()) return kNoValue;
    return Get(builder_.AddInts(numbers));
  }

 private:
  // An error ends the series here, and kNoValue stands for what did not come
  // out.
  ValueId Get(const MadeValue& made) {
    status_.Update(made.status());
    return made.value_or(kNoValue);
  }

  NetworkBuilder& builder_;
  const DLDataType dtype_;
  absl::Status status_;
};

// x / 2 * (1 + erf(x / sqrt(2))), as PyTorch's exporter writes it: with the
// root that float32 has, and the half at one of two places.
ValueId GeluByErf(Series& series, ValueId x) {
  const ValueId root = series.Number(1.4142135381698608);
  const ValueId one = series.Number(1);
  const ValueId half = series.Number(0.5);
  const ValueId erf = series.Op("Erf", {series.Op("Div", {x, root})});
  const ValueId at = series.Op("Add", {erf, one});
  return series.Chance() ? series.Op("Mul", {series.Op("Mul", {x, at}), half})
                         : series.Op("Mul", {series.Op("Mul", {x, half}), at});
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ^ 3)))
ValueId GeluByTanh(Series& series, ValueId x) {
  const ValueId three = series.Number(3);
  const ValueId small = series.Number(0.044715);
  const ValueId root = series.Number(0.7978845834732056);
  const ValueId one = series.Number(1);
  const ValueId half = series.Number(0.5);
  const ValueId cube = series.Op("Pow", {x, three});
  ValueId at = series.Op("Add", {x, series.Op("Mul", {cube, small})});
  at = series.Op("Tanh", {series.Op("Mul", {at, root})});
  at = series.Op("Add", {at, one});
  return series.Op("Mul", {series.Op("Mul", {x, half}), at});
}

// Some activations are one operation, others several, as models have them.
ValueId Activation(Series& series, ValueId x) {
  constexpr const char* kKinds[] = {"Relu",      "Clip", "Mul",
                                    "LeakyRelu", "Tanh", "HardSigmoid",
                                    "HardSwish", "",     "Gelu"};
  const int64_t which = series.Between(0, 9);
  switch (which) {
    case 1: {
      const ValueId low = series.Number(0);
      return series.Op("Clip", {x, low, series.Number(6)});
    }
    case 2:
      return series.Op("Mul", {x, series.Op("Sigmoid", {x})});
    case 3:
      return series.Op("LeakyRelu", {{"alpha", 0.25F}}, {x});
    case 7:
      return GeluByTanh(series, x);
    case 9:
      return GeluByErf(series, x);
    default:
      return series.Op(kKinds[which], {x});
  }
}

void AddConvolution(Series& series) {
  const int64_t group = series.One<int64_t>({1, 1, 1, 2, 3});
  const int64_t in = group * series.Side(4);
  const int64_t out = group * series.Side(4);
  const int64_t kernel = series.One<int64_t>({1, 3, 2});
  const int64_t pad = series.Between(0, kernel - 1);
  const int64_t size = kernel + series.Between(0, 5);
  const ValueId x = series.Input({series.Between(1, 2), in, size, size});
  ValueIds inputs = {x, series.Weight({out, in / group, kernel, kernel})};
  if (series.Chance()) inputs.push_back(series.Weight({out}));
  const int64_t stride = series.Between(1, 2);
  const ValueId conv = series.Op("Conv",
                                 {{"group", group},
                                  {"pads", Sides{pad, pad, pad, pad}},
                                  {"strides", Sides{stride, stride}}},
                                 inputs);
  ValueId at = conv;
  if (series.Chance(60)) {
    // Scale, bias and mean may have any sign; a variance is positive.
    ValueIds factors = {at};
    for (int i = 0; i < 4; ++i) {
      factors.push_back(series.Weight({out}, i == 3
                                                 ? InputDomain::Within(0.25, 4)
                                                 : InputDomain{-1, 1, false}));
    }
    at = series.Op("BatchNormalization", factors);
  } else if (series.Chance()) {
    // By channel, or by the wrong side.
    const Sides shape = series.Chance(80) ? Sides{out, 1, 1} : Sides{1, 1};
    const ValueId factor = series.Weight(shape);
    at = series.Op(series.One({"Mul", "Add"}), {at, factor});
  }
  if (series.Chance(40)) {
    const ValueId other = series.Input(series.builder().TensorOf(conv).shape);
    at = series.Op("Add", {at, other});
  }
  Activation(series, at);
}

void AddDense(Series& series) {
  const int64_t in = series.Side(9);
  const int64_t out = series.Chance() ? in : series.Side(9);
  Sides shape = {series.Side(4), in};
  if (series.Chance()) shape.insert(shape.begin(), series.Side(3));
  const ValueId x = series.Input(shape);
  const ValueId w = series.Weight({in, out});
  ValueId at = series.Op("MatMul", {x, w});
  if (series.Chance(80)) {
    // By column most of the time; a bias may be on either side of the sum.
    const ValueId bias =
        series.Weight(series.Chance(90) ? Sides{out} : Sides{1});
    at = series.Chance() ? series.Op("Add", {at, bias})
                         : series.Op("Add", {bias, at});
  }
  if (series.Chance(70)) at = Activation(series, at);
  if (in == out && !series.Chance()) series.Op("Add", {at, x});
}

// softmax(q k' / sqrt(d) + mask) v
void AddAttention(Series& series) {
  const Sides lead = {series.Side(2), series.Side(3)};
  const int64_t rows = series.Side(5);
  const int64_t keys = series.Side(5);
  const int64_t depth = series.Side(8);
  const auto input = [&](int64_t places) {
    return series.Input({lead[0], lead[1], places, depth});
  };
  const ValueId q = input(rows);
  ValueId k = input(keys);
  const ValueId v = input(keys);
  k = series.Op("Transpose", {{"perm", Sides{0, 1, 3, 2}}}, {k});
  ValueId at = series.Op("MatMul", {q, k});
  const ValueId scale = series.Number(0.5);
  at = series.Op(series.One({"Mul", "Div"}), {at, scale});
  if (series.Chance(40)) {
    const ValueId mask =
        series.Weight({rows, keys}, InputDomain::Within(-10, 0));
    at = series.Op("Add", {at, mask});
  }
  // Softmax along another side only looks like attention.
  const int64_t axis = series.Chance(85) ? -1 : series.Between(0, 3);
  at = series.Op("Softmax", {{"axis", axis}}, {at});
  at = series.Op("MatMul", {at, v});
  at = series.Maybe("Transpose", {{"perm", Sides{0, 2, 1, 3}}}, at);
  series.Op("Reshape", {at, series.Ints({0, 0, -1})});
}

// Axes were an attribute below opset 18.
ValueId MeanOver(Series& series, ValueId x, int64_t axis) {
  if (series.builder().options().opset < 18) {
    return series.Op("ReduceMean", {{"axes", Sides{axis}}}, {x});
  }
  return series.Op("ReduceMean", {x, series.Ints({axis})});
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, step by step. The axis
// is the last one, or one by which the factors do not fit.
void AddLayerNorm(Series& series) {
  const Sides shape = {series.Side(3), series.Side(4), series.Side(9)};
  const int64_t axis = series.Chance(90) ? -1 : series.Between(0, 1);
  const ValueId x = series.Input(shape);
  const ValueId centred = series.Op("Sub", {x, MeanOver(series, x, axis)});
  const ValueId square = series.Chance()
                             ? series.Op("Pow", {centred, series.Number(2)})
                             : series.Op("Mul", {centred, centred});
  ValueId at = MeanOver(series, square, axis);
  // The usual epsilon is next to nothing in float16.
  const ValueId epsilon =
      series.Number(series.dtype() == kFloat16 ? 0.01 : kEpsilon);
  at = series.Op("Sqrt", {series.Op("Add", {at, epsilon})});
  at = series.Op("Div", {centred, at});
  const ValueId gamma = series.Weight({shape[2]});
  const ValueId beta = series.Weight({shape[2]});
  at = series.Op("Mul", {at, gamma});
  series.Op("Add", {at, beta});
}

// Models write a quantised tensor as a QuantizeLinear and a DequantizeLinear.
ValueId Quantized(Series& series, ValueId x, double scale, DLDataType dtype) {
  const ValueId by = series.Number(scale);
  const ValueId zero = series.Number(
      dtype, dtype == kUint8 ? 128 : static_cast<double>(series.One({0, 3})));
  const ValueId q = series.Op("QuantizeLinear", {x, by, zero});
  return series.Op("DequantizeLinear", {q, by, zero});
}

// A product between quantised tensors. Scales are powers of two, so that
// quantising adds no other rounding.
void AddQuantized(Series& series) {
  const DLDataType dtype = series.One({kUint8, kInt8});
  const bool is_conv = series.Chance();
  const int64_t in = series.Side(4);
  const int64_t out = series.Side(4);
  ValueId x =
      series.Input(is_conv ? Sides{1, in, 4, 4} : Sides{series.Side(4), in});
  x = Quantized(series, x, 0.03125, dtype);
  ValueId w = series.Weight(is_conv ? Sides{out, in, 3, 3} : Sides{in, out});
  w = Quantized(series, w, 0.0078125, series.One({kInt8, kUint8}));
  ValueId at = series.Op(is_conv ? "Conv" : "MatMul", {x, w});
  if (series.Chance()) at = series.Op("Relu", {at});
  Quantized(series, at, 0.0625, dtype);
}

// Operations that come to nothing together: optimisers leave them out. Some are
// not quite that: another order back, a cast that loses digits.
void AddNoOpChain(Series& series) {
  const Sides shape = {series.Side(3), series.Side(3), series.Side(4)};
  ValueId at = series.Input(shape);
  switch (series.Between(0, 5)) {
    case 0: {
      const Sides back = series.Chance(80) ? Sides{2, 0, 1} : Sides{1, 0, 2};
      at = series.Op("Transpose", {{"perm", Sides{1, 2, 0}}}, {at});
      at = Activation(series, at);
      series.Op("Transpose", {{"perm", back}}, {at});
      return;
    }
    case 1: {
      const ValueId one = series.Number(1);
      const ValueId zero = series.Number(0);
      at = series.Op("Mul", {at, one});
      series.Op(series.One({"Add", "Sub"}), {at, zero});
      return;
    }
    case 2: {
      const ValueId flat = series.Ints({-1});
      const ValueId back = series.Ints(shape);
      series.Op("Reshape", {series.Op("Reshape", {at, flat}), back});
      return;
    }
    case 3:
      at = series.Op("Cast", {{"to", series.One<int64_t>({11, 10, 1})}}, {at});
      series.Op("Cast", {{"to", OnnxNumberOf(series.dtype()).value_or(1)}},
                {at});
      return;
    case 4:
      at = series.Op("Concat", {{"axis", series.Between(0, 2)}}, {at, at});
      Activation(series, at);
      return;
    default: {
      at = series.Op("Relu", {at});
      const ValueId low = series.Number(0);
      series.Op("Clip", {at, low, series.Number(2)});
    }
  }
}

// The first is the simplest, and the one that shrinking tends to.
constexpr void (*kPatterns[])(Series& series) = {
    &AddNoOpChain, &AddDense,     &AddConvolution,
    &AddAttention, &AddLayerNorm, &AddQuantized};

}  // namespace

absl::Status AddPattern(NetworkBuilder& builder) {
  const auto add = builder.choices()->One(kPatterns);
  Series series(builder);
  add(series);
  return series.status();
}

}  // namespace nodewise
