#include "tests/contrib/onednn/samples.h"

#include <limits>

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

NDArray Draw(RandomSource& random, const Ints& shape, float scale = 1) {
  NDArray tensor = RandomTensor(random, shape, kFloat32).value();
  auto* const data = tensor.As<float>();
  for (int64_t i = 0; i < CountOf(tensor); ++i) data[i] *= scale;
  return tensor;
}

bool Flip(RandomSource& random) { return random.Between(0, 1) == 1; }

Ints DrawShape(RandomSource& random, int64_t least_rank, int64_t most_rank) {
  Ints shape(static_cast<size_t>(random.Between(least_rank, most_rank)));
  for (int64_t& size : shape) size = random.Between(1, 9);
  return shape;
}

void MaybeChannelsLast(RandomSource& random, CallCase& made) {
  if (Flip(random)) SetChannelsLast(made);
}

CallCase DrawConv(RandomSource& random) {
  const auto spatial = static_cast<size_t>(random.Between(1, 2));
  const bool is_depthwise = random.Between(0, 3) == 0;
  const int64_t group =
      is_depthwise ? random.Between(1, 20) : random.Between(1, 3);
  const int64_t in = is_depthwise ? 1 : random.Between(1, 20);
  const int64_t out = is_depthwise ? 1 : random.Between(1, 20);
  Ints x = {random.Between(1, 2), group * in};
  Ints w = {group * out, in};
  Ints strides;
  Ints dilations;
  Ints pads(2 * spatial);
  for (size_t s = 0; s < spatial; ++s) {
    w.push_back(random.Between(1, 4));
    strides.push_back(random.Between(1, 3));
    dilations.push_back(random.Between(1, 2));
    x.push_back((w.back() - 1) * dilations.back() + random.Between(1, 12));
    pads[s] = random.Between(0, w.back() - 1);
    pads[s + spatial] = random.Between(0, w.back() - 1);
  }
  std::vector<NamedAttr> attrs = {{"group", group}, {"strides", strides}};
  const int64_t padding = random.Between(0, 3);
  attrs.push_back({"dilations", dilations});
  if (padding == 0) attrs.push_back({"pads", pads});
  if (padding == 1) attrs.push_back({"auto_pad", std::string("SAME_UPPER")});
  if (padding == 2) attrs.push_back({"auto_pad", std::string("SAME_LOWER")});
  std::vector<NDArray> inputs = {Draw(random, x), Draw(random, w)};
  if (Flip(random)) inputs.push_back(Draw(random, {w[0]}));
  CallCase made = CaseOf({"Conv", 11, attrs}, std::move(inputs));
  if (Flip(random)) {
    SetConstant(made, 1);
    SetConstant(made, 2);
    MaybeChannelsLast(random, made);
  }
  return made;
}

CallCase DrawUnary(RandomSource& random, const OpSetup& operation,
                   float scale = 4, bool is_positive = false) {
  NDArray x = Draw(random, DrawShape(random, 0, 5), scale);
  for (int64_t i = 0; is_positive && i < CountOf(x); ++i) {
    x.As<float>()[i] = std::fabs(x.As<float>()[i]) + 1e-3F;
  }
  CallCase made = CaseOf(operation, {x});
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawClip(RandomSource& random) {
  CallCase made =
      CaseOf({"Clip", 13},
             {Draw(random, DrawShape(random, 1, 4), 4),
              MakeTensor<float>({}, {-0.5F}), MakeTensor<float>({}, {2})});
  SetConstant(made, 1);
  SetConstant(made, 2);
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawBinary(RandomSource& random, const char* name) {
  const Ints shape = DrawShape(random, 0, 4);
  Ints other = shape;
  const int64_t kind = random.Between(0, 2);
  if (kind == 1) {
    for (int64_t& size : other) {
      if (Flip(random)) size = 1;
    }
  } else if (kind == 2) {
    other.erase(
        other.begin(),
        other.begin() + random.Between(0, static_cast<int64_t>(other.size())));
  }
  NDArray second = Draw(random, other);
  for (int64_t i = 0; i < CountOf(second); ++i) {
    float& x = second.As<float>()[i];
    x += x < 0 ? -0.1F : 0.1F;  // A divisor.
  }
  CallCase made = CaseOf({name, 14}, {Draw(random, shape), second});
  if (kind == 0) MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawConvTranspose(RandomSource& random) {
  const auto spatial = static_cast<size_t>(random.Between(1, 2));
  const int64_t group = random.Between(1, 3);
  const int64_t in = random.Between(1, 12);
  Ints x = {random.Between(1, 2), group * in};
  Ints w = {group * in, random.Between(1, 12)};
  Ints strides;
  Ints dilations;
  Ints pads(2 * spatial);
  for (size_t s = 0; s < spatial; ++s) {
    w.push_back(random.Between(1, 4));
    strides.push_back(random.Between(1, 3));
    dilations.push_back(random.Between(1, 2));
    x.push_back(random.Between(2, 9));
    pads[s] = random.Between(0, (w.back() - 1) / 2);
    pads[s + spatial] = random.Between(0, (w.back() - 1) / 2);
  }
  std::vector<NamedAttr> attrs = {
      {"group", group}, {"strides", strides}, {"dilations", dilations}};
  if (Flip(random)) attrs.push_back({"pads", pads});
  std::vector<NDArray> inputs = {Draw(random, x), Draw(random, w)};
  if (Flip(random)) inputs.push_back(Draw(random, {group * w[1]}));
  CallCase made = CaseOf({"ConvTranspose", 11, attrs}, std::move(inputs));
  if (Flip(random)) {
    SetConstant(made, 1);
    MaybeChannelsLast(random, made);
    if (made.call.inputs.size() > 2) {
      made.call.inputs[2].layout = TensorLayout::kPlain;
    }
  }
  return made;
}

CallCase DrawMatMul(RandomSource& random) {
  const int64_t k = random.Between(1, 40);
  Ints a = {random.Between(1, 30), k};
  Ints b = {k, random.Between(1, 30)};
  const Ints batch = DrawShape(random, 0, 2);
  const int64_t kind = random.Between(0, 4);
  const auto put = [&batch](Ints& shape) {
    shape.insert(shape.begin(), batch.begin(), batch.end());
  };
  if (kind == 0) put(a);
  if (kind == 1) put(b);
  if (kind == 2) {
    put(a);
    put(b);
    if (!batch.empty()) a[0] = 1;
  }
  if (kind == 3) a = {k};
  if (kind == 4) b = {k};
  CallCase made = CaseOf({"MatMul", 13}, {Draw(random, a), Draw(random, b)});
  if (Flip(random)) SetConstant(made, 1);
  return made;
}

CallCase DrawGemm(RandomSource& random) {
  const int64_t m = random.Between(1, 30);
  const int64_t k = random.Between(1, 40);
  const int64_t n = random.Between(1, 30);
  const bool a = Flip(random);
  const bool b = Flip(random);
  std::vector<NamedAttr> attrs = {{"transA", int64_t{a}},
                                  {"transB", int64_t{b}}};
  if (Flip(random)) attrs.push_back({"alpha", 0.7F});
  const bool has_beta = Flip(random);
  if (has_beta) attrs.push_back({"beta", 1.3F});
  std::vector<NDArray> inputs = {Draw(random, a ? Ints{k, m} : Ints{m, k}),
                                 Draw(random, b ? Ints{n, k} : Ints{k, n})};
  const Ints biases[] = {{n}, {1, n}, {m, 1}, {m, n}, {}};
  if (Flip(random)) {
    inputs.push_back(Draw(random, biases[random.Between(0, 4)]));
  }
  CallCase made = CaseOf({"Gemm", 13, attrs}, std::move(inputs));
  if (Flip(random)) SetConstant(made, 1);
  if (has_beta || Flip(random)) SetConstant(made, 2);
  return made;
}

CallCase DrawPool(RandomSource& random, const char* name) {
  const auto spatial = static_cast<size_t>(random.Between(1, 3));
  Ints x = {random.Between(1, 2), random.Between(1, 20)};
  Ints kernel;
  Ints strides;
  Ints pads(2 * spatial);
  for (size_t s = 0; s < spatial; ++s) {
    kernel.push_back(random.Between(1, 3));
    strides.push_back(random.Between(1, 3));
    x.push_back(kernel.back() + random.Between(0, 9));
    pads[s] = random.Between(0, kernel.back() - 1);
    pads[s + spatial] = random.Between(0, kernel.back() - 1);
  }
  std::vector<NamedAttr> attrs = {{"kernel_shape", kernel},
                                  {"strides", strides}};
  const int64_t padding = random.Between(0, 2);
  if (padding == 0) attrs.push_back({"pads", pads});
  if (padding == 1) attrs.push_back({"auto_pad", std::string("SAME_UPPER")});
  if (Flip(random)) attrs.push_back({"ceil_mode", int64_t{1}});
  if (name == std::string_view("AveragePool") && Flip(random)) {
    attrs.push_back({"count_include_pad", int64_t{1}});
  }
  CallCase made = CaseOf({name, 19, attrs}, {Draw(random, x)});
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawGlobalPool(RandomSource& random, const char* name) {
  CallCase made = CaseOf({name}, {Draw(random, DrawShape(random, 3, 5))});
  MaybeChannelsLast(random, made);
  return made;
}

NDArray Positive(NDArray tensor) {
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<float>()[i] = std::fabs(tensor.As<float>()[i]) + 0.1F;
  }
  return tensor;
}

CallCase DrawBatchNorm(RandomSource& random) {
  const Ints x = DrawShape(random, 2, 5);
  const Ints list = {x[1]};
  CallCase made =
      CaseOf({"BatchNormalization", 15},
             {Draw(random, x), Draw(random, list), Draw(random, list),
              Draw(random, list), Positive(Draw(random, list))});
  for (size_t i = 1; i < 5; ++i) SetConstant(made, i);
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawLayerNorm(RandomSource& random) {
  const Ints x = DrawShape(random, 2, 4);
  const auto axis = static_cast<size_t>(
      random.Between(1, static_cast<int64_t>(x.size()) - 1));
  const Ints list(x.begin() + static_cast<int64_t>(axis), x.end());
  std::vector<NDArray> inputs = {Draw(random, x), Draw(random, list)};
  if (Flip(random)) inputs.push_back(Draw(random, list));
  return CaseOf(
      {"LayerNormalization", 17, {{"axis", static_cast<int64_t>(axis)}}},
      std::move(inputs));
}

CallCase DrawLrn(RandomSource& random) {
  CallCase made = CaseOf({"LRN",
                          13,
                          {{"size", 2 * random.Between(0, 3) + 1},
                           {"alpha", 0.02F},
                           {"beta", 0.6F},
                           {"bias", 1.5F}}},
                         {Draw(random, DrawShape(random, 4, 4), 3)});
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawSoftmax(RandomSource& random, const char* name) {
  const Ints x = DrawShape(random, 1, 4);
  const int64_t axis = random.Between(0, static_cast<int64_t>(x.size()) - 1);
  NDArray tensor = Draw(random, x, 5);
  // Masks.
  for (int64_t i = 0; random.Between(0, 2) == 0 && i < CountOf(tensor); ++i) {
    if (random.Between(0, 3) == 0) {
      tensor.As<float>()[i] = -std::numeric_limits<float>::infinity();
    }
  }
  return CaseOf({name, Flip(random) ? 13 : 11, {{"axis", axis}}}, {tensor});
}

CallCase DrawReduction(RandomSource& random, const char* name) {
  const Ints x = DrawShape(random, 1, 4);
  Ints axes;
  for (size_t side = 0; side < x.size(); ++side) {
    if (Flip(random)) axes.push_back(static_cast<int64_t>(side));
  }
  std::vector<NDArray> inputs = {Draw(random, x)};
  if (!axes.empty()) {
    inputs.push_back(
        MakeTensor<int64_t>({static_cast<int64_t>(axes.size())}, axes));
  }
  CallCase made =
      CaseOf({name, 18, {{"keepdims", int64_t{Flip(random)}}}}, inputs);
  SetConstant(made, 1);
  return made;
}

CallCase DrawConcat(RandomSource& random) {
  const Ints shape = DrawShape(random, 1, 4);
  const int64_t axis =
      random.Between(0, static_cast<int64_t>(shape.size()) - 1);
  std::vector<NDArray> inputs;
  const DLDataType types[] = {kFloat32, kInt8, kUint8, kInt32};
  const DLDataType type = types[random.Between(0, 3)];
  for (int64_t i = random.Between(1, 4); i > 0; --i) {
    Ints own = shape;
    own[static_cast<size_t>(axis)] = random.Between(1, 9);
    inputs.push_back(RandomTensor(random, own, type).value());
  }
  CallCase made = CaseOf({"Concat", 13, {{"axis", axis}}}, std::move(inputs));
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawTranspose(RandomSource& random) {
  const Ints x = DrawShape(random, 1, 5);
  Ints perm;
  for (size_t side = 0; side < x.size(); ++side) {
    perm.insert(perm.begin() + random.Between(0, static_cast<int64_t>(side)),
                static_cast<int64_t>(side));
  }
  const DLDataType types[] = {kFloat32, kInt8, kUint8, kInt32};
  return CaseOf({"Transpose", 13, {{"perm", perm}}},
                {RandomTensor(random, x, types[random.Between(0, 3)]).value()});
}

// A tensor of any type, and its sides put together.
CallCase DrawReshape(RandomSource& random) {
  const Ints x = DrawShape(random, 1, 5);
  int64_t count = 1;
  for (const int64_t size : x) count *= size;
  const DLDataType types[] = {kFloat32, kInt64, kUint8, kFloat16};
  const NDArray shape = MakeTensor<int64_t>({2}, {x[0], count / x[0]});
  CallCase made = CaseOf(
      {"Reshape", 14},
      {RandomTensor(random, x, types[random.Between(0, 3)]).value(), shape});
  made.call.output = TensorType(made.call.inputs[0].type.dtype,
                                {Dim(x[0]), Dim(count / x[0])});
  SetConstant(made, 1);
  return made;
}

CallCase DrawFlatten(RandomSource& random) {
  return CaseOf({"Flatten"}, {Draw(random, DrawShape(random, 1, 5))});
}

// With a side of 1 in front, which goes or comes.
CallCase DrawSqueeze(RandomSource& random, const char* name) {
  Ints x = DrawShape(random, 1, 4);
  x.insert(x.begin(), 1);
  CallCase made =
      CaseOf({name, 13}, {Draw(random, x), MakeTensor<int64_t>({1}, {0})});
  SetConstant(made, 1);
  return made;
}

CallCase DrawIdentity(RandomSource& random) {
  CallCase made = CaseOf({"Identity"}, {Draw(random, DrawShape(random, 3, 5))});
  made.call.output_layout =
      Flip(random) ? TensorLayout::kChannelsLast : TensorLayout::kPlain;
  if (made.call.output_layout == TensorLayout::kPlain) {
    made.call.inputs[0].layout = TensorLayout::kChannelsLast;
  }
  return made;
}

CallCase DrawCast(RandomSource& random) {
  const DLDataType types[] = {kInt8, kUint8, kInt32};
  return CaseOf({"Cast", 13, {{"to", int64_t{1}}}},
                {RandomTensor(random, DrawShape(random, 1, 4),
                              types[random.Between(0, 2)])
                     .value()});
}

CallCase DrawResize(RandomSource& random) {
  Ints x = DrawShape(random, 4, 4);
  std::vector<float> scales = {1, 1, 2, 2};
  const bool is_linear = Flip(random);
  for (size_t i = 2; i < 4; ++i) {
    const float any[] = {1, 2, 3, 0.5F, 1.5F};
    scales[i] = any[random.Between(0, is_linear ? 4 : 2)];
    x[i] = 2 * random.Between(1, 5);
  }
  std::vector<NamedAttr> attrs = {
      {"mode", std::string(is_linear ? "linear" : "nearest")}};
  if (!is_linear && Flip(random)) {
    attrs.push_back(
        {"coordinate_transformation_mode", std::string("asymmetric")});
    attrs.push_back({"nearest_mode", std::string("floor")});
  }
  CallCase made = CaseOf({"Resize", 13, attrs},
                         {Draw(random, x), NDArray(), Floats(scales)});
  SetConstant(made, 2);
  MaybeChannelsLast(random, made);
  return made;
}

CallCase DrawUpsample(RandomSource& random) {
  CallCase made =
      CaseOf({"Upsample", 9},
             {Draw(random, DrawShape(random, 4, 4)), Floats({1, 1, 2, 3})});
  SetConstant(made, 1);
  MaybeChannelsLast(random, made);
  return made;
}

constexpr OperatorSamples kFloatSamples[] = {
    {"ConvTranspose", &DrawConvTranspose, 90},
    {"MatMul", &DrawMatMul},
    {"Gemm", &DrawGemm, 90},
    {"MaxPool", [](RandomSource& r) { return DrawPool(r, "MaxPool"); }, 90},
    {"AveragePool", [](RandomSource& r) { return DrawPool(r, "AveragePool"); },
     80},
    {"GlobalMaxPool",
     [](RandomSource& r) { return DrawGlobalPool(r, "GlobalMaxPool"); }},
    {"GlobalAveragePool",
     [](RandomSource& r) { return DrawGlobalPool(r, "GlobalAveragePool"); }},
    {"BatchNormalization", &DrawBatchNorm},
    {"LayerNormalization", &DrawLayerNorm},
    {"LRN", &DrawLrn},
    {"Softmax", [](RandomSource& r) { return DrawSoftmax(r, "Softmax"); }},
    {"ReduceSum", [](RandomSource& r) { return DrawReduction(r, "ReduceSum"); },
     70},
    {"ReduceMean",
     [](RandomSource& r) { return DrawReduction(r, "ReduceMean"); }, 70},
    {"ReduceMax", [](RandomSource& r) { return DrawReduction(r, "ReduceMax"); },
     70},
    {"ReduceMin", [](RandomSource& r) { return DrawReduction(r, "ReduceMin"); },
     70},
    {"ReduceL1", [](RandomSource& r) { return DrawReduction(r, "ReduceL1"); },
     70},
    {"ReduceL2", [](RandomSource& r) { return DrawReduction(r, "ReduceL2"); },
     70},
    {"ReduceSumSquare",
     [](RandomSource& r) { return DrawReduction(r, "ReduceSumSquare"); }, 70},
    {"Concat", &DrawConcat},
    {"Transpose", &DrawTranspose},
    {"Reshape", &DrawReshape},
    {"Flatten", &DrawFlatten},
    {"Squeeze", [](RandomSource& r) { return DrawSqueeze(r, "Squeeze"); }},
    {"Unsqueeze", [](RandomSource& r) { return DrawSqueeze(r, "Unsqueeze"); }},
    {"Identity", &DrawIdentity},
    {"Cast", &DrawCast},
    {"Resize", &DrawResize, 60},
    {"Upsample", &DrawUpsample},
    {"Conv", &DrawConv, 95},
    {"Relu", [](RandomSource& r) { return DrawUnary(r, {"Relu"}); }},
    {"LeakyRelu",
     [](RandomSource& r) {
       return DrawUnary(r, {"LeakyRelu", 16, {{"alpha", 0.3F}}});
     }},
    {"Elu",
     [](RandomSource& r) {
       return DrawUnary(r, {"Elu", 22, {{"alpha", 0.7F}}});
     }},
    {"Sigmoid", [](RandomSource& r) { return DrawUnary(r, {"Sigmoid"}, 9); }},
    {"HardSigmoid",
     [](RandomSource& r) { return DrawUnary(r, {"HardSigmoid"}); }},
    {"HardSwish", [](RandomSource& r) { return DrawUnary(r, {"HardSwish"}); }},
    {"Gelu", [](RandomSource& r) { return DrawUnary(r, {"Gelu"}); }},
    {"Gelu",
     [](RandomSource& r) {
       return DrawUnary(r,
                        {"Gelu", 20, {{"approximate", std::string("tanh")}}});
     }},
    {"Swish",
     [](RandomSource& r) {
       return DrawUnary(r, {"Swish", 24, {{"alpha", 1.5F}}});
     }},
    {"Tanh", [](RandomSource& r) { return DrawUnary(r, {"Tanh"}); }},
    {"Clip", &DrawClip},
    {"Abs", [](RandomSource& r) { return DrawUnary(r, {"Abs"}); }},
    {"Neg", [](RandomSource& r) { return DrawUnary(r, {"Neg"}); }},
    {"Sqrt", [](RandomSource& r) { return DrawUnary(r, {"Sqrt"}, 9, true); }},
    {"Exp", [](RandomSource& r) { return DrawUnary(r, {"Exp"}, 20); }},
    {"Add", [](RandomSource& r) { return DrawBinary(r, "Add"); }},
    {"Sum", [](RandomSource& r) { return DrawBinary(r, "Sum"); }},
    {"Sub", [](RandomSource& r) { return DrawBinary(r, "Sub"); }},
    {"Mul", [](RandomSource& r) { return DrawBinary(r, "Mul"); }},
    {"Div", [](RandomSource& r) { return DrawBinary(r, "Div"); }},
    {"Max", [](RandomSource& r) { return DrawBinary(r, "Max"); }},
    {"Min", [](RandomSource& r) { return DrawBinary(r, "Min"); }},
};

}  // namespace

absl::Span<const OperatorSamples> FloatSamples() { return kFloatSamples; }

}  // namespace nodewise
