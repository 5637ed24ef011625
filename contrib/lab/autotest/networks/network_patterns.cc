// Series of operations that compilers compute together, and some that only look
// like that: with another reader in the middle, another axis, one step less.
// And operations with bodies.

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

  bool Often(int percent = 50) {
    return status_.ok() && builder_.Often(percent);
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
    if (Often(kFurtherReader)) Get(builder_.Add("Identity", {}, {made}));
    return made;
  }
  ValueId Op(std::string_view kind, ValueIds inputs) {
    return Op(kind, {}, std::move(inputs));
  }
  // Adds an operation on one tensor; leaves it out now and then.
  ValueId Maybe(std::string_view kind, const std::vector<NamedAttr>& attributes,
                ValueId input) {
    return Often(kLeftOut) ? input : Op(kind, attributes, {input});
  }
  ValueId Input(const Sides& shape) {
    if (!status_.ok()) return kNoValue;
    return Get(builder_.Feed({true, dtype_, shape}));
  }
  // A constant most of the time.
  ValueId Weight(const Sides& shape, InputDomain domain = {-1, 1, false}) {
    if (Often(10) && domain.least < 0) return Input(shape);
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
  // Notes that nothing came out, and that the series has ended.
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
  return series.Often() ? series.Op("Mul", {series.Op("Mul", {x, at}), half})
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

// Conv, factors by channel, an activation, and what goes around them.
void AddConvolution(Series& series) {
  const int64_t group = series.One<int64_t>({1, 1, 1, 2, 3});
  const int64_t in = group * series.Side(4);
  const int64_t out = group * series.Side(4);
  const int64_t kernel = series.One<int64_t>({1, 3, 2});
  const int64_t pad = series.Between(0, kernel - 1);
  const int64_t size = kernel + series.Between(0, 5);
  const ValueId x = series.Input({series.Between(1, 2), in, size, size});
  ValueIds inputs = {x, series.Weight({out, in / group, kernel, kernel})};
  if (series.Often()) inputs.push_back(series.Weight({out}));
  const int64_t stride = series.Between(1, 2);
  const ValueId conv = series.Op("Conv",
                                 {{"group", group},
                                  {"pads", Sides{pad, pad, pad, pad}},
                                  {"strides", Sides{stride, stride}}},
                                 inputs);
  ValueId at = conv;
  if (series.Often(60)) {
    // Scale, bias and mean may have any sign; a variance is positive.
    ValueIds factors = {at};
    for (int i = 0; i < 4; ++i) {
      factors.push_back(series.Weight({out}, i == 3
                                                 ? InputDomain::Within(0.25, 4)
                                                 : InputDomain{-1, 1, false}));
    }
    at = series.Op("BatchNormalization", factors);
  } else if (series.Often()) {
    // By channel, or by the wrong side.
    const Sides shape = series.Often(80) ? Sides{out, 1, 1} : Sides{1, 1};
    const ValueId factor = series.Weight(shape);
    at = series.Op(series.One({"Mul", "Add"}), {at, factor});
  }
  if (series.Often(40)) {
    const ValueId other = series.Input(series.builder().TensorOf(conv).shape);
    at = series.Op("Add", {at, other});
  }
  Activation(series, at);
}

// A product with weights, a bias, an activation, a residual sum.
void AddDense(Series& series) {
  const int64_t in = series.Side(9);
  const int64_t out = series.Often() ? in : series.Side(9);
  Sides shape = {series.Side(4), in};
  if (series.Often()) shape.insert(shape.begin(), series.Side(3));
  const ValueId x = series.Input(shape);
  const ValueId w = series.Weight({in, out});
  ValueId at = series.Op("MatMul", {x, w});
  if (series.Often(80)) {
    // By column most of the time; a bias may be on either side of the sum.
    const ValueId bias =
        series.Weight(series.Often(90) ? Sides{out} : Sides{1});
    at = series.Often() ? series.Op("Add", {at, bias})
                        : series.Op("Add", {bias, at});
  }
  if (series.Often(70)) at = Activation(series, at);
  if (in == out && !series.Often()) series.Op("Add", {at, x});
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
  if (series.Often(40)) {
    const ValueId mask =
        series.Weight({rows, keys}, InputDomain::Within(-10, 0));
    at = series.Op("Add", {at, mask});
  }
  // Softmax along another side only looks like attention.
  const int64_t axis = series.Often(85) ? -1 : series.Between(0, 3);
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
  const int64_t axis = series.Often(90) ? -1 : series.Between(0, 1);
  const ValueId x = series.Input(shape);
  const ValueId centred = series.Op("Sub", {x, MeanOver(series, x, axis)});
  const ValueId square = series.Often()
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

// QuantizeLinear and DequantizeLinear.
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
  const bool is_conv = series.Often();
  const int64_t in = series.Side(4);
  const int64_t out = series.Side(4);
  ValueId x =
      series.Input(is_conv ? Sides{1, in, 4, 4} : Sides{series.Side(4), in});
  x = Quantized(series, x, 0.03125, dtype);
  ValueId w = series.Weight(is_conv ? Sides{out, in, 3, 3} : Sides{in, out});
  w = Quantized(series, w, 0.0078125, series.One({kInt8, kUint8}));
  ValueId at = series.Op(is_conv ? "Conv" : "MatMul", {x, w});
  if (series.Often()) at = series.Op("Relu", {at});
  Quantized(series, at, 0.0625, dtype);
}

// Operations that come to nothing together: optimisers leave them out. Some are
// not quite that: another order back, a cast that loses digits.
void AddNothing(Series& series) {
  const Sides shape = {series.Side(3), series.Side(3), series.Side(4)};
  ValueId at = series.Input(shape);
  switch (series.Between(0, 5)) {
    case 0: {
      const Sides back = series.Often(80) ? Sides{2, 0, 1} : Sides{1, 0, 2};
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
    &AddNothing,   &AddDense,     &AddConvolution,
    &AddAttention, &AddLayerNorm, &AddQuantized};

// If, Loop and Scan have bodies that are drawn as networks are, but smaller: a
// body runs up to three times, and its operations count as one step of a
// network.
constexpr int kMostStepsOfBody = 3;
constexpr int kMostCaptures = 2;
constexpr int64_t kMostTrips = 3;
constexpr int kScanSince = 9;

// A body on its way, and what it captures of the network around it.
struct Body {
  NetworkBuilder builder;
  ValueIds captures;
};

BuilderOptions OptionsOfBody(const NetworkBuilder& outer) {
  BuilderOptions options = outer.options();
  options.is_body = true;
  // Bodies have the opsets of the network around them.
  std::erase_if(options.rows,
                [](const OperatorDef* row) { return !row->domain.empty(); });
  return options;
}

// Captures some tensors, and adds some operations.
absl::Status Fill(NetworkBuilder& outer, Body* body) {
  for (int64_t i = outer.Between(0, kMostCaptures); i > 0; --i) {
    const std::optional<PoolTensor> tensor = outer.Any();
    if (!tensor.has_value()) break;
    NODEWISE_RETURN_IF_ERROR(body->builder.AddBodyInput(*tensor).status());
    body->captures.push_back(tensor->id);
  }
  if (body->builder.options().rows.empty()) return absl::OkStatus();
  for (int64_t i = outer.Between(1, kMostStepsOfBody); i > 0; --i) {
    const Choices::Group group(outer.choices());
    // A step that fails is left out, as in the network around it.
    (void)AddOperator(body->builder, /*may_be_open=*/false);
  }
  return absl::OkStatus();
}

// Returns something of the body that has the type of a tensor.
MadeValue OutputOf(Body* body, const PoolTensor& like) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            body->builder.Feed({true, like.dtype, like.shape}));
  // An output that is an input, or a constant, is something else to compilers.
  return body->builder.Add("Identity", {}, {made});
}

absl::StatusOr<Subgraph> Finish(Body* body, ValueIds outputs) {
  Network& network = body->builder.network();
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
  network.RemoveUnused();
  return Subgraph{ShareNetwork(std::move(network)),
                  static_cast<uint32_t>(body->captures.size())};
}

// States and results look like this: a tensor that is there, or two floats.
PoolTensor TensorToPassOn(NetworkBuilder& builder) {
  return builder.Any().value_or(PoolTensor{kNoValue, kFloat32, {2}});
}

// Both branches make outputs of the same types, and read what each has
// captured.
absl::Status AddIf(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId condition,
                            builder.AddInput({true, kBool, {}}));
  ValueIds inputs = {condition};
  std::vector<NamedAttr> attributes;
  const int64_t outputs = builder.Between(1, 2);
  for (const char* name : {"else_branch", "then_branch"}) {
    const Choices::Group group(builder.choices());
    Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
    NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
    ValueIds made;
    for (int64_t i = 0; i < outputs; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(made.emplace_back(), OutputOf(&body, like));
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(made)));
    attributes.push_back({name, std::move(graph)});
    inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  }
  return builder
      .AddAll("If", attributes, std::move(inputs), static_cast<size_t>(outputs))
      .status();
}

MadeValue FeedLike(NetworkBuilder& builder, const PoolTensor& like) {
  if (like.id != kNoValue) return like.id;
  return builder.AddInput({true, like.dtype, like.shape});
}

// A loop with one state, and now and then with what each trip makes. It ends
// after so many trips; its condition is handed on as it is.
absl::Status AddLoop(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId state, FeedLike(builder, like));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId trips,
      builder.AddNumber(kInt64,
                        static_cast<double>(builder.Between(0, kMostTrips))));
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(
      body.builder.AddBodyInput({kNoValue, kInt64, {}}).status());
  NODEWISE_ASSIGN_OR_RETURN(ValueId goes_on,
                            body.builder.AddBodyInput({kNoValue, kBool, {}}));
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(like).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  NODEWISE_ASSIGN_OR_RETURN(goes_on,
                            body.builder.Add("Identity", {}, {goes_on}));
  ValueIds outputs = {goes_on};
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  const bool scans = builder.Often();
  if (scans) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  }
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  ValueIds inputs = {trips, kNoValue, state};
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  return builder
      .AddAll("Loop", {{"body", std::move(graph)}}, std::move(inputs),
              scans ? 2 : 1)
      .status();
}

// Along side 0 of a tensor that is there.
absl::Status AddScan(NetworkBuilder& builder) {
  const std::optional<PoolTensor> scanned = builder.Any();
  if (builder.options().opset < kScanSince || !scanned.has_value() ||
      scanned->shape.empty()) {
    return NotFound("nothing to scan");
  }
  const PoolTensor like = TensorToPassOn(builder);
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(like).status());
  const PoolTensor part{kNoValue,
                        scanned->dtype,
                        {scanned->shape.begin() + 1, scanned->shape.end()}};
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(part).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  ValueIds outputs;
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, part));
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  std::vector<NamedAttr> attributes = {{"body", std::move(graph)},
                                       {"num_scan_inputs", int64_t{1}}};
  if (builder.Often(30)) {
    attributes.push_back({"scan_input_directions", Sides{1}});
  }
  if (builder.Often(30)) {
    attributes.push_back({"scan_output_directions", Sides{1}});
  }
  ValueIds inputs = {like.id, scanned->id};
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  return builder.AddAll("Scan", attributes, std::move(inputs), 2).status();
}

}  // namespace

absl::Status AddPattern(NetworkBuilder& builder) {
  const auto add = builder.choices()->One(kPatterns);
  Series series(builder);
  add(series);
  return series.status();
}

absl::Status AddControlFlow(NetworkBuilder& builder) {
  constexpr absl::Status (*kKinds[])(NetworkBuilder & builder) = {
      &AddIf, &AddLoop, &AddScan};
  return builder.choices()->One(kKinds)(builder);
}

}  // namespace nodewise
