#include <cmath>

#include "tests/contrib/onednn/samples.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

NDArray Bytes(RandomSource& random, const Ints& shape) {
  NDArray tensor = NDArray::Empty(shape, kUint8, kCpu).value();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<uint8_t>()[i] = static_cast<uint8_t>(random.Between(0, 255));
  }
  return tensor;
}

// With the largest weights that cannot saturate.
NDArray Weights(RandomSource& random, const Ints& shape) {
  NDArray tensor = NDArray::Empty(shape, kInt8, kCpu).value();
  const bool all_large = random.Between(0, 3) == 0;
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<int8_t>()[i] =
        static_cast<int8_t>(all_large ? 64 : random.Between(-64, 64));
  }
  return tensor;
}

NDArray Zero(RandomSource& random) {
  return MakeTensor<uint8_t>({},
                             {static_cast<uint8_t>(random.Between(0, 200))});
}

NDArray Scales(RandomSource& random, int64_t count, double size) {
  NDArray tensor =
      NDArray::Empty(count == 0 ? Ints{} : Ints{count}, kFloat32, kCpu).value();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<float>()[i] =
        static_cast<float>(size * (1.5 + random.Symmetric()));
  }
  return tensor;
}

void AllButFirstConstant(CallCase& made) {
  for (size_t i = 1; i < made.inputs.size(); ++i) SetConstant(made, i);
}

struct ConvShapes {
  Ints x;
  Ints w;
  std::vector<NamedAttr> attrs;
};
ConvShapes DrawConvShapes(RandomSource& random) {
  const int64_t group = random.Between(0, 2) == 0 ? random.Between(1, 16) : 1;
  const int64_t in = group > 1 ? 1 : random.Between(1, 20);
  ConvShapes shapes{{random.Between(1, 2), group * in},
                    {group > 1 ? group : random.Between(1, 20), in},
                    {{"group", group}}};
  Ints pads(4);
  for (size_t s = 0; s < 2; ++s) {
    shapes.w.push_back(random.Between(1, 3));
    shapes.x.push_back(shapes.w.back() + random.Between(0, 9));
    pads[s] = random.Between(0, shapes.w.back() - 1);
    pads[s + 2] = random.Between(0, shapes.w.back() - 1);
  }
  shapes.attrs.push_back({"pads", pads});
  return shapes;
}

CallCase DrawConvInteger(RandomSource& random) {
  const ConvShapes shapes = DrawConvShapes(random);
  CallCase made = CaseOf(
      {"ConvInteger", 10, shapes.attrs},
      {Bytes(random, shapes.x), Weights(random, shapes.w), Zero(random)});
  AllButFirstConstant(made);
  if (random.Between(0, 1) == 0) SetChannelsLast(made);
  return made;
}

CallCase DrawQLinearConv(RandomSource& random) {
  const ConvShapes shapes = DrawConvShapes(random);
  const int64_t out = shapes.w[0];
  const bool by_channel = random.Between(0, 1) == 0;
  NDArray bias = NDArray::Empty({out}, kInt32, kCpu).value();
  for (int64_t i = 0; i < out; ++i) {
    bias.As<int32_t>()[i] = static_cast<int32_t>(random.Between(-999, 999));
  }
  NDArray zeros = by_channel ? NDArray::Empty({out}, kInt8, kCpu).value()
                             : MakeTensor<int8_t>({}, {0});
  std::memset(zeros.data(), 0, zeros.bytes());
  CallCase made = CaseOf(
      {"QLinearConv", 10, shapes.attrs},
      {Bytes(random, shapes.x), Scales(random, 0, 0.02), Zero(random),
       Weights(random, shapes.w), Scales(random, by_channel ? out : 0, 0.01),
       zeros, Scales(random, 0, 0.1), Zero(random), bias});
  AllButFirstConstant(made);
  if (random.Between(0, 1) == 0) SetChannelsLast(made);
  return made;
}

struct MatrixShapes {
  Ints a;
  Ints b;
};
MatrixShapes DrawMatrixShapes(RandomSource& random) {
  MatrixShapes shapes;
  const int64_t k = random.Between(1, 60);
  if (random.Between(0, 1) == 0) shapes.a.push_back(random.Between(1, 4));
  shapes.a.insert(shapes.a.end(), {random.Between(1, 30), k});
  shapes.b = {k, random.Between(1, 30)};
  return shapes;
}

CallCase DrawMatMulInteger(RandomSource& random) {
  const MatrixShapes shapes = DrawMatrixShapes(random);
  CallCase made = CaseOf(
      {"MatMulInteger", 10},
      {Bytes(random, shapes.a), Weights(random, shapes.b), Zero(random)});
  AllButFirstConstant(made);
  return made;
}

CallCase DrawQLinearMatMul(RandomSource& random) {
  const MatrixShapes shapes = DrawMatrixShapes(random);
  CallCase made = CaseOf(
      {"QLinearMatMul", 10},
      {Bytes(random, shapes.a), Scales(random, 0, 0.02), Zero(random),
       Weights(random, shapes.b), Scales(random, 0, 0.01),
       MakeTensor<int8_t>({}, {0}), Scales(random, 0, 0.1), Zero(random)});
  AllButFirstConstant(made);
  return made;
}

CallCase DrawQuantize(RandomSource& random) {
  const Ints shape = {random.Between(1, 4), random.Between(1, 9),
                      random.Between(1, 9)};
  NDArray x = RandomTensor(random, shape, kFloat32).value();
  for (int64_t i = 0; i < CountOf(x); ++i) x.As<float>()[i] *= 30;
  const bool by_channel = random.Between(0, 1) == 0;
  std::vector<NDArray> inputs = {
      x, Scales(random, by_channel ? shape[1] : 0, 0.1)};
  if (!by_channel) inputs.push_back(Zero(random));
  CallCase made = CaseOf({"QuantizeLinear", 13}, std::move(inputs));
  AllButFirstConstant(made);
  return made;
}

CallCase DrawDequantize(RandomSource& random) {
  const Ints shape = {random.Between(1, 4), random.Between(1, 9),
                      random.Between(1, 9)};
  const bool by_channel = random.Between(0, 1) == 0;
  std::vector<NDArray> inputs = {
      Bytes(random, shape), Scales(random, by_channel ? shape[1] : 0, 0.1)};
  if (!by_channel) inputs.push_back(Zero(random));
  CallCase made = CaseOf({"DequantizeLinear", 13}, std::move(inputs));
  AllButFirstConstant(made);
  return made;
}

constexpr OperatorSamples kQuantizedSamples[] = {
    {"ConvInteger", &DrawConvInteger, 90},
    {"QLinearConv", &DrawQLinearConv, 90},
    {"MatMulInteger", &DrawMatMulInteger, 90},
    {"QLinearMatMul", &DrawQLinearMatMul, 90},
    {"QuantizeLinear", &DrawQuantize},
    {"DequantizeLinear", &DrawDequantize},
};

}  // namespace

absl::Span<const OperatorSamples> QuantizedSamples() {
  return kQuantizedSamples;
}

}  // namespace nodewise
