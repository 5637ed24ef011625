// How much of the work of usual networks oneDNN does.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

// Weights that differ, without any that would blow up.
NDArray Weights(const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<size_t>(*NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) / 8;
  }
  return MakeTensor<float>(shape, values);
}

std::vector<int64_t> Sides(std::initializer_list<int64_t> sides) {
  return sides;
}

// Convolution, normalization, sum and activation, twice; pooling; a classifier.
struct ResidualNet : NetBuilder {
  ResidualNet() {
    const ValueId x = In("x", {1, 3, 32, 32});
    ValueId y = Block(x, 3, 16, kNoValue);
    y = Block(y, 16, 16, y);
    y = Op("MaxPool", {y},
           {{"kernel_shape", AttrValue(Sides({2, 2}))},
            {"strides", AttrValue(Sides({2, 2}))}})[0];
    y = Block(y, 16, 32, kNoValue);
    y = Op("Flatten", {Op("GlobalAveragePool", {y})[0]})[0];
    y = Op("Gemm",
           {y, Const("", Weights({32, 10})), Const("", Weights({10}))})[0];
    Out(Op("Softmax", {y}));
  }
  ValueId Block(ValueId x, int64_t from, int64_t to, ValueId sum) {
    ValueId y = Op("Conv", {x, Const("", Weights({to, from, 3, 3}))},
                   {{"pads", AttrValue(Sides({1, 1, 1, 1}))}})[0];
    const std::vector<float> ones(static_cast<size_t>(to), 1);
    y = Op("BatchNormalization",
           {y, Const("", Weights({to})), Const("", Weights({to})),
            Const("", Weights({to})), Const("", Floats(ones))})[0];
    if (sum != kNoValue) y = Op("Add", {y, sum})[0];
    return Op("Relu", {y})[0];
  }
};

// One layer: attention with four heads, and two dense layers with a Gelu as
// exporters write it.
struct TransformerNet : NetBuilder {
  static constexpr int64_t kWords = 64;
  static constexpr int64_t kWidth = 128;
  static constexpr int64_t kHeads = 4;

  TransformerNet() {
    const ValueId x = In("x", {1, kWords, kWidth});
    const ValueId normal = Normalized(x);
    const ValueId keys = Heads(Dense(normal, kWidth, kWidth), {0, 2, 3, 1});
    ValueId scores =
        Op("MatMul",
           {Heads(Dense(normal, kWidth, kWidth), {0, 2, 1, 3}), keys})[0];
    scores = Op("Mul", {scores, Number(0.18F)})[0];
    const ValueId shares = Op("Softmax", {scores})[0];
    ValueId y =
        Op("MatMul",
           {shares, Heads(Dense(normal, kWidth, kWidth), {0, 2, 1, 3})})[0];
    y = Op("Transpose", {y}, {{"perm", AttrValue(Sides({0, 2, 1, 3}))}})[0];
    y = Op("Reshape", {y, Shape({1, kWords, kWidth})})[0];
    y = Op("Add", {Dense(y, kWidth, kWidth), x})[0];
    const ValueId wide = Dense(Normalized(y), kWidth, 4 * kWidth);
    Out(Op("Add", {Dense(Gelu(wide), 4 * kWidth, kWidth), y}));
  }
  ValueId Number(float value) {
    return Const("", MakeTensor<float>({}, {value}));
  }
  ValueId Shape(std::vector<int64_t> shape) {
    return Const(
        "", MakeTensor<int64_t>({static_cast<int64_t>(shape.size())}, shape));
  }
  ValueId Normalized(ValueId x) {
    return Op("LayerNormalization", {x, Const("", Weights({kWidth})),
                                     Const("", Weights({kWidth}))})[0];
  }
  ValueId Dense(ValueId x, int64_t from, int64_t to) {
    const ValueId y = Op("MatMul", {x, Const("", Weights({from, to}))})[0];
    return Op("Add", {y, Const("", Weights({to}))})[0];
  }
  ValueId Heads(ValueId x, const std::vector<int64_t>& order) {
    const ValueId split =
        Op("Reshape", {x, Shape({1, kWords, kHeads, kWidth / kHeads})})[0];
    return Op("Transpose", {split}, {{"perm", AttrValue(order)}})[0];
  }
  ValueId Gelu(ValueId x) {
    const ValueId erf =
        Op("Erf", {Op("Div", {x, Number(std::sqrt(2.0F))})[0]})[0];
    const ValueId sum = Op("Add", {erf, Number(1)})[0];
    return Op("Mul", {Op("Mul", {x, sum})[0], Number(0.5F)})[0];
  }
};

// Returns how much of the floating-point operations oneDNN does, once the
// network has run.
double ShareOfOneDnn(const Network& network) {
  const auto library = BuiltInFunctions(AllOperators());
  const NetworkValue& x = network.value(network.inputs()[0]);
  EXPECT_THAT(RunLowered(network, {Weights(*x.type.sizes())}, {}, library),
              IsOk());
  std::map<std::string, std::string> kernels;
  for (const KernelChoice& choice : library->choices()) {
    for (const OperationChoice& operation : choice.operations) {
      kernels[operation.operation] = operation.kernel;
      if (operation.kernel != "reference") continue;
      std::cout << operation.operation << ": " << operation.why_not << '\n';
    }
  }
  double all = 0;
  double in_onednn = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (operation.def().flops == nullptr) continue;
    const auto infos = network.InputsOf(id);
    std::vector<OutputInfo> outputs;
    for (const ValueId output : operation.outputs) {
      outputs.emplace_back(network.value(output).type);
    }
    const double flops =
        operation.def().flops(operation.attrs.get(), Inputs(infos), outputs);
    all += flops;
    if (kernels[operation.name] == "oneDNN") in_onednn += flops;
  }
  EXPECT_GT(all, 1e6);
  return in_onednn / all;
}

TEST(OneDnnFlopsTest, MostOfAResidualNetIsInOneDnn) {
  EXPECT_GT(ShareOfOneDnn(ResidualNet().net), 0.9);
}

TEST(OneDnnFlopsTest, MostOfATransformerIsInOneDnn) {
  EXPECT_GT(ShareOfOneDnn(TransformerNet().net), 0.9);
}

}  // namespace
}  // namespace nodewise
