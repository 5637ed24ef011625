#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/networks/network_builder.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

// Series of operations that compilers compute together, and some that only look
// like that: with another reader in the middle, another axis, one step less.

namespace {

using Sides = std::vector<int64_t>;
using Made = absl::StatusOr<ValueId>;

constexpr int kFurtherReader = 8;  // Per cent of operations.
constexpr int kLeftOut = 6;        // Per cent of operations that may be.
constexpr float kEpsilon = 1e-5F;

// A series of operations on floats of one type.
class Series {
 public:
  explicit Series(NetworkBuilder& builder)
      : builder_(builder),
        dtype_(builder.One(
            {kFloat32, kFloat32, kFloat32, kFloat32, kFloat16, kFloat64})) {}

  NetworkBuilder& builder() { return builder_; }
  DLDataType dtype() const { return dtype_; }

  // Fails for an operator that is not to be tested.
  Made Op(std::string_view kind, const std::vector<NamedAttr>& attributes,
          std::vector<ValueId> inputs) {
    const auto& rows = builder_.options().rows;
    if (std::ranges::none_of(
            rows, [&](const OperatorDef* row) { return row->name == kind; })) {
      return absl::NotFoundError("not to be tested");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made, builder_.Add(kind, attributes, std::move(inputs)));
    if (builder_.Often(kFurtherReader)) {
      NODEWISE_RETURN_IF_ERROR(builder_.Add("Identity", {}, {made}).status());
    }
    return made;
  }
  // Adds an operation on one tensor; leaves it out now and then.
  Made Maybe(std::string_view kind, const std::vector<NamedAttr>& attributes,
             ValueId input) {
    if (builder_.Often(kLeftOut)) return input;
    return Op(kind, attributes, {input});
  }
  Made Input(const Sides& shape) {
    return builder_.Feed({true, dtype_, shape});
  }
  // A constant most of the time.
  Made Weight(const Sides& shape, InputDomain domain = {-1, 1, false}) {
    if (builder_.Often(10) && domain.least < 0) return Input(shape);
    if (builder_.options().is_exact) domain.is_whole = true;
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray data,
        DrawTensor(dtype_, shape, domain, builder_.choices()));
    return builder_.AddConstant(data);
  }
  Made Number(double number, const Sides& shape = {}) {
    return builder_.AddNumber(dtype_, number, shape);
  }
  int64_t Side(int64_t most) { return builder_.Between(1, most); }

  Made Activation(ValueId x);
  Made GeluByErf(ValueId x);
  Made GeluByTanh(ValueId x);

 private:
  NetworkBuilder& builder_;
  const DLDataType dtype_;
};

Made Series::GeluByErf(ValueId x) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId root, Number(1.4142135381698608));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId one, Number(1));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId half, Number(0.5));
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, Op("Div", {}, {x, root}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Erf", {}, {at}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Add", {}, {at, one}));
  if (builder_.Often()) {
    NODEWISE_ASSIGN_OR_RETURN(at, Op("Mul", {}, {x, at}));
    return Op("Mul", {}, {at, half});
  }
  NODEWISE_ASSIGN_OR_RETURN(const ValueId part, Op("Mul", {}, {x, half}));
  return Op("Mul", {}, {part, at});
}

Made Series::GeluByTanh(ValueId x) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId three, Number(3));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId small, Number(0.044715));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId root, Number(0.7978845834732056));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId one, Number(1));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId half, Number(0.5));
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, Op("Pow", {}, {x, three}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Mul", {}, {at, small}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Add", {}, {x, at}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Mul", {}, {at, root}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Tanh", {}, {at}));
  NODEWISE_ASSIGN_OR_RETURN(at, Op("Add", {}, {at, one}));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId part, Op("Mul", {}, {x, half}));
  return Op("Mul", {}, {part, at});
}

Made Series::Activation(ValueId x) {
  switch (builder_.Between(0, 9)) {
    case 0:
      return Op("Relu", {}, {x});
    case 1: {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId low, Number(0));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId high, Number(6));
      return Op("Clip", {}, {x, low, high});
    }
    case 2: {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId part, Op("Sigmoid", {}, {x}));
      return Op("Mul", {}, {x, part});
    }
    case 3:
      return Op("LeakyRelu", {{"alpha", 0.25F}}, {x});
    case 4:
      return Op("Tanh", {}, {x});
    case 5:
      return Op("HardSigmoid", {}, {x});
    case 6:
      return Op("HardSwish", {}, {x});
    case 7:
      return GeluByTanh(x);
    case 8:
      return Op("Gelu", {}, {x});
    default:
      return GeluByErf(x);
  }
}

// Conv, factors by channel, an activation, and what goes around them.
absl::Status AddConvolution(Series& series) {
  NetworkBuilder& builder = series.builder();
  const int64_t group = builder.One<int64_t>({1, 1, 1, 2, 3});
  const int64_t in = group * series.Side(4);
  const int64_t out = group * series.Side(4);
  const int64_t kernel = builder.One<int64_t>({1, 3, 2});
  const int64_t pad = builder.Between(0, kernel - 1);
  const int64_t size = kernel + builder.Between(0, 5);
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId x, series.Input({builder.Between(1, 2), in, size, size}));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId w,
                            series.Weight({out, in / group, kernel, kernel}));
  std::vector<ValueId> inputs = {x, w};
  if (builder.Often()) {
    NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(), series.Weight({out}));
  }
  const int64_t stride = builder.Between(1, 2);
  NODEWISE_ASSIGN_OR_RETURN(ValueId at,
                            series.Op("Conv",
                                      {{"group", group},
                                       {"pads", Sides{pad, pad, pad, pad}},
                                       {"strides", Sides{stride, stride}}},
                                      inputs));
  const ValueId conv = at;
  if (builder.Often(60)) {
    std::vector<ValueId> factors = {at};
    for (int i = 0; i < 4; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          factors.emplace_back(),
          series.Weight({out}, i == 3 ? InputDomain::Within(0.25, 4)
                                      : InputDomain{-1, 1, false}));
    }
    NODEWISE_ASSIGN_OR_RETURN(at, series.Op("BatchNormalization", {}, factors));
  } else if (builder.Often()) {
    // By channel, or by the wrong side.
    const Sides shape = builder.Often(80) ? Sides{out, 1, 1} : Sides{1, 1};
    NODEWISE_ASSIGN_OR_RETURN(const ValueId factor, series.Weight(shape));
    NODEWISE_ASSIGN_OR_RETURN(
        at, series.Op(builder.One({"Mul", "Add"}), {}, {at, factor}));
  }
  if (builder.Often(40)) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId other,
                              series.Input(builder.TensorOf(conv).shape));
    NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Add", {}, {at, other}));
  }
  return series.Activation(at).status();
}

// A product with weights, a bias, an activation, a residual sum.
absl::Status AddDense(Series& series) {
  NetworkBuilder& builder = series.builder();
  const int64_t in = series.Side(9);
  const int64_t out = builder.Often() ? in : series.Side(9);
  Sides shape = {series.Side(4), in};
  if (builder.Often()) shape.insert(shape.begin(), series.Side(3));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId x, series.Input(shape));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId w, series.Weight({in, out}));
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, series.Op("MatMul", {}, {x, w}));
  if (builder.Often(80)) {
    const Sides of_bias = builder.Often(90) ? Sides{out} : Sides{1};
    NODEWISE_ASSIGN_OR_RETURN(const ValueId bias, series.Weight(of_bias));
    NODEWISE_ASSIGN_OR_RETURN(at, builder.Often()
                                      ? series.Op("Add", {}, {at, bias})
                                      : series.Op("Add", {}, {bias, at}));
  }
  if (builder.Often(70)) {
    NODEWISE_ASSIGN_OR_RETURN(at, series.Activation(at));
  }
  if (in != out || builder.Often()) return absl::OkStatus();
  return series.Op("Add", {}, {at, x}).status();
}

// softmax(q k' / sqrt(d) + mask) v
absl::Status AddAttention(Series& series) {
  NetworkBuilder& builder = series.builder();
  const Sides lead = {series.Side(2), series.Side(3)};
  const int64_t rows = series.Side(5);
  const int64_t keys = series.Side(5);
  const int64_t depth = series.Side(8);
  const auto sides = [&](int64_t a, int64_t b) {
    return Sides{lead[0], lead[1], a, b};
  };
  NODEWISE_ASSIGN_OR_RETURN(const ValueId q, series.Input(sides(rows, depth)));
  NODEWISE_ASSIGN_OR_RETURN(ValueId k, series.Input(sides(keys, depth)));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId v, series.Input(sides(keys, depth)));
  NODEWISE_ASSIGN_OR_RETURN(
      k, series.Op("Transpose", {{"perm", Sides{0, 1, 3, 2}}}, {k}));
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, series.Op("MatMul", {}, {q, k}));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId scale, series.Number(0.5));
  NODEWISE_ASSIGN_OR_RETURN(
      at, series.Op(builder.One({"Mul", "Div"}), {}, {at, scale}));
  if (builder.Often(40)) {
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId mask,
        series.Weight({rows, keys}, InputDomain::Within(-10, 0)));
    NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Add", {}, {at, mask}));
  }
  const int64_t axis = builder.Often(85) ? -1 : builder.Between(0, 3);
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Softmax", {{"axis", axis}}, {at}));
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("MatMul", {}, {at, v}));
  NODEWISE_ASSIGN_OR_RETURN(
      at, series.Maybe("Transpose", {{"perm", Sides{0, 2, 1, 3}}}, at));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId to, builder.AddInts({0, 0, -1}));
  return series.Op("Reshape", {}, {at, to}).status();
}

Made MeanOver(Series& series, ValueId x, int64_t axis) {
  if (series.builder().options().opset < 18) {
    return series.Op("ReduceMean", {{"axes", Sides{axis}}}, {x});
  }
  NODEWISE_ASSIGN_OR_RETURN(const ValueId axes,
                            series.builder().AddInts({axis}));
  return series.Op("ReduceMean", {}, {x, axes});
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, step by step.
absl::Status AddLayerNorm(Series& series) {
  NetworkBuilder& builder = series.builder();
  const Sides shape = {series.Side(3), series.Side(4), series.Side(9)};
  const int64_t axis = builder.Often(90) ? -1 : builder.Between(0, 1);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId x, series.Input(shape));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId mean, MeanOver(series, x, axis));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId centred,
                            series.Op("Sub", {}, {x, mean}));
  ValueId square = centred;
  if (builder.Often()) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId two, series.Number(2));
    NODEWISE_ASSIGN_OR_RETURN(square, series.Op("Pow", {}, {centred, two}));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(square, series.Op("Mul", {}, {centred, centred}));
  }
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, MeanOver(series, square, axis));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId epsilon,
      series.Number(series.dtype() == kFloat16 ? 0.01 : kEpsilon));
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Add", {}, {at, epsilon}));
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Sqrt", {}, {at}));
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Div", {}, {centred, at}));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId gamma, series.Weight({shape[2]}));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId beta, series.Weight({shape[2]}));
  NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Mul", {}, {at, gamma}));
  return series.Op("Add", {}, {at, beta}).status();
}

// QuantizeLinear and DequantizeLinear.
Made Quantized(Series& series, ValueId x, double scale, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId by, series.Number(scale));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId zero,
      series.builder().AddNumber(
          dtype, dtype == kUint8
                     ? 128
                     : static_cast<double>(series.builder().One({0, 3}))));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId q,
                            series.Op("QuantizeLinear", {}, {x, by, zero}));
  return series.Op("DequantizeLinear", {}, {q, by, zero});
}

// A product between quantised tensors.
absl::Status AddQuantized(Series& series) {
  NetworkBuilder& builder = series.builder();
  const DLDataType dtype = builder.One({kUint8, kInt8});
  const bool is_conv = builder.Often();
  const int64_t in = series.Side(4);
  const int64_t out = series.Side(4);
  NODEWISE_ASSIGN_OR_RETURN(
      ValueId x,
      series.Input(is_conv ? Sides{1, in, 4, 4} : Sides{series.Side(4), in}));
  NODEWISE_ASSIGN_OR_RETURN(x, Quantized(series, x, 0.03125, dtype));
  NODEWISE_ASSIGN_OR_RETURN(
      ValueId w,
      series.Weight(is_conv ? Sides{out, in, 3, 3} : Sides{in, out}));
  NODEWISE_ASSIGN_OR_RETURN(
      w, Quantized(series, w, 0.0078125, builder.One({kInt8, kUint8})));
  NODEWISE_ASSIGN_OR_RETURN(ValueId at,
                            series.Op(is_conv ? "Conv" : "MatMul", {}, {x, w}));
  if (builder.Often()) {
    NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Relu", {}, {at}));
  }
  return Quantized(series, at, 0.0625, dtype).status();
}

// What comes to nothing: optimisers leave it out.
absl::Status AddNothing(Series& series) {
  NetworkBuilder& builder = series.builder();
  const Sides shape = {series.Side(3), series.Side(3), series.Side(4)};
  NODEWISE_ASSIGN_OR_RETURN(ValueId at, series.Input(shape));
  const Sides order = {1, 2, 0};
  switch (builder.Between(0, 5)) {
    case 0: {
      const Sides back = builder.Often(80) ? Sides{2, 0, 1} : Sides{1, 0, 2};
      NODEWISE_ASSIGN_OR_RETURN(
          at, series.Op("Transpose", {{"perm", order}}, {at}));
      NODEWISE_ASSIGN_OR_RETURN(at, series.Activation(at));
      return series.Op("Transpose", {{"perm", back}}, {at}).status();
    }
    case 1: {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId one, series.Number(1));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId zero, series.Number(0));
      NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Mul", {}, {at, one}));
      return series.Op(builder.One({"Add", "Sub"}), {}, {at, zero}).status();
    }
    case 2: {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId flat, builder.AddInts({-1}));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId back, builder.AddInts(shape));
      NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Reshape", {}, {at, flat}));
      return series.Op("Reshape", {}, {at, back}).status();
    }
    case 3: {
      const int64_t to = builder.One<int64_t>({11, 10, 1});
      NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Cast", {{"to", to}}, {at}));
      return series
          .Op("Cast", {{"to", OnnxNumberOf(series.dtype()).value_or(1)}}, {at})
          .status();
    }
    case 4: {
      NODEWISE_ASSIGN_OR_RETURN(
          const ValueId again,
          series.Op("Concat", {{"axis", builder.Between(0, 2)}}, {at, at}));
      return series.Activation(again).status();
    }
    default: {
      NODEWISE_ASSIGN_OR_RETURN(at, series.Op("Relu", {}, {at}));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId low, series.Number(0));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId high, series.Number(2));
      return series.Op("Clip", {}, {at, low, high}).status();
    }
  }
}

constexpr absl::Status (*kPatterns[])(Series& series) = {
    &AddNothing,   &AddDense,     &AddConvolution,
    &AddAttention, &AddLayerNorm, &AddQuantized};

}  // namespace

absl::Status AddPattern(NetworkBuilder& builder) {
  const uint64_t which = builder.choices()->UpTo(std::size(kPatterns) - 1);
  Series series(builder);
  return kPatterns[which](series);
}

// If, Loop and Scan, with bodies that are drawn as networks are.

namespace {

constexpr int kMostStepsOfBody = 3;
constexpr int kMostCaptures = 2;
constexpr int64_t kMostTrips = 3;
constexpr int kScanSince = 9;

// A body on its way, and what it captures of the network around it.
struct Body {
  NetworkBuilder builder;
  std::vector<ValueId> captures;
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
    NODEWISE_RETURN_IF_ERROR(
        body->builder.AddBodyInput(tensor->dtype, tensor->shape).status());
    body->captures.push_back(tensor->id);
  }
  if (body->builder.options().rows.empty()) return absl::OkStatus();
  for (int64_t i = outer.Between(1, kMostStepsOfBody); i > 0; --i) {
    const Choices::Group group(outer.choices());
    (void)AddOperator(body->builder, /*may_be_open=*/false);
  }
  return absl::OkStatus();
}

// Returns something of the body that has this type.
absl::StatusOr<ValueId> OutputOf(Body* body, DLDataType dtype,
                                 const std::vector<int64_t>& shape) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            body->builder.Feed({true, dtype, shape}));
  // An output that is an input, or a constant, is something else to compilers.
  return body->builder.Add("Identity", {}, {made});
}

absl::StatusOr<Subgraph> Finish(Body* body, std::vector<ValueId> outputs) {
  Network& network = body->builder.network();
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
  network.RemoveUnused();
  return Subgraph{ShareNetwork(std::move(network)),
                  static_cast<uint32_t>(body->captures.size())};
}

PoolTensor TensorToPassOn(NetworkBuilder& builder) {
  return builder.Any().value_or(PoolTensor{kNoValue, kFloat32, {2}});
}

absl::Status AddIf(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId condition,
                            builder.AddInput({true, kBool, {}}));
  std::vector<ValueId> inputs = {condition};
  std::vector<NamedAttr> attributes;
  const int64_t outputs = builder.Between(1, 2);
  for (const char* name : {"else_branch", "then_branch"}) {
    const Choices::Group group(builder.choices());
    Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
    NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
    std::vector<ValueId> made;
    for (int64_t i = 0; i < outputs; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(made.emplace_back(),
                                OutputOf(&body, like.dtype, like.shape));
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(made)));
    attributes.push_back({name, std::move(graph)});
    inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  }
  return builder
      .AddAll("If", attributes, std::move(inputs), static_cast<size_t>(outputs))
      .status();
}

absl::StatusOr<ValueId> FeedLike(NetworkBuilder& builder,
                                 const PoolTensor& like) {
  if (like.id != kNoValue) return like.id;
  return builder.AddInput({true, like.dtype, like.shape});
}

absl::Status AddLoop(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId state, FeedLike(builder, like));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId trips,
      builder.AddNumber(kInt64,
                        static_cast<double>(builder.Between(0, kMostTrips))));
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(kInt64, {}).status());
  NODEWISE_ASSIGN_OR_RETURN(ValueId goes_on,
                            body.builder.AddBodyInput(kBool, {}));
  NODEWISE_RETURN_IF_ERROR(
      body.builder.AddBodyInput(like.dtype, like.shape).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  NODEWISE_ASSIGN_OR_RETURN(goes_on,
                            body.builder.Add("Identity", {}, {goes_on}));
  std::vector<ValueId> outputs = {goes_on};
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                            OutputOf(&body, like.dtype, like.shape));
  const bool scans = builder.Often();
  if (scans) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                              OutputOf(&body, like.dtype, like.shape));
  }
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  std::vector<ValueId> inputs = {trips, kNoValue, state};
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
    return absl::NotFoundError("nothing to scan");
  }
  const PoolTensor like = TensorToPassOn(builder);
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(
      body.builder.AddBodyInput(like.dtype, like.shape).status());
  const std::vector<int64_t> part(scanned->shape.begin() + 1,
                                  scanned->shape.end());
  NODEWISE_RETURN_IF_ERROR(
      body.builder.AddBodyInput(scanned->dtype, part).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  std::vector<ValueId> outputs;
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                            OutputOf(&body, like.dtype, like.shape));
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                            OutputOf(&body, scanned->dtype, part));
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  std::vector<NamedAttr> attributes = {{"body", std::move(graph)},
                                       {"num_scan_inputs", int64_t{1}}};
  if (builder.Often(30)) {
    attributes.push_back({"scan_input_directions", std::vector<int64_t>{1}});
  }
  if (builder.Often(30)) {
    attributes.push_back({"scan_output_directions", std::vector<int64_t>{1}});
  }
  std::vector<ValueId> inputs = {like.id, scanned->id};
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  return builder.AddAll("Scan", attributes, std::move(inputs), 2).status();
}

}  // namespace

absl::Status AddControlFlow(NetworkBuilder& builder) {
  switch (builder.Between(0, 2)) {
    case 0:
      return AddIf(builder);
    case 1:
      return AddLoop(builder);
    default:
      return AddScan(builder);
  }
}

}  // namespace nodewise
