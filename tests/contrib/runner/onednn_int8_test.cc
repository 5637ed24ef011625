// Quantised networks through lowering: oneDNN's integers are the reference's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "nodewise/onednn/onednn.h"
#include "nodewise/passes/quantization.h"
#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// Weights that no processor saturates with, the ends of their range among them.
NDArray SmallWeights(const std::vector<int64_t>& shape) {
  RandomSource source(1, "weights");
  std::vector<int8_t> values(static_cast<size_t>(*NumElements(shape)));
  for (int8_t& value : values) {
    value = static_cast<int8_t>(source.Between(-63, 63));
  }
  std::fill_n(values.begin(), values.size() / 3, int8_t{63});
  values.back() = -63;
  return MakeTensor<int8_t>(shape, values);
}

// Large data, with which pairs of products saturate first.
NDArray LargeData(const std::vector<int64_t>& shape) {
  RandomSource source(1, "data");
  std::vector<uint8_t> values(static_cast<size_t>(*NumElements(shape)));
  for (uint8_t& value : values) {
    value = static_cast<uint8_t>(255 - source.Between(0, 9));
  }
  return MakeTensor<uint8_t>(shape, values);
}

struct Int8Net : NetBuilder {
  ValueId Scale(float scale) {
    return Const("", MakeTensor<float>({}, {scale}));
  }
  ValueId Zero(uint8_t zero) {
    return Const("", MakeTensor<uint8_t>({}, {zero}));
  }
  ValueId WeightsZero() { return Const("", MakeTensor<int8_t>({}, {0})); }
  ValueId Weights(const std::vector<int64_t>& shape) {
    return Const("", SmallWeights(shape));
  }
};

// Runs the network in both ways and returns what computed each operation, by
// its kind.
std::map<std::string, OperationChoice> ExpectEqual(
    const Network& net, const std::vector<NDArray>& inputs) {
  const auto library = BuiltInFunctions(AllOperators());
  const auto found = RunLowered(net, inputs, {}, library);
  const auto expected = Interpret(net, inputs);
  EXPECT_THAT(found, IsOk());
  EXPECT_THAT(expected, IsOk());
  for (size_t i = 0; i < expected->size(); ++i) {
    EXPECT_TRUE(HaveSameBits((*found)[i], (*expected)[i])) << "output " << i;
  }
  std::map<std::string, OperationChoice> choices;
  for (const KernelChoice& choice : library->choices()) {
    for (const OperationChoice& operation : choice.operations) {
      const auto id = net.FindOperation(operation.operation);
      EXPECT_THAT(id, IsOk());
      choices[std::string(net.operation(*id).kind())] = operation;
    }
    if (choice.operations.empty()) ADD_FAILURE() << choice.node;
  }
  return choices;
}

TEST(OneDnnInt8Test, SumsOfIntegersAreExact) {
  Int8Net b;
  const ValueId x = b.In("x", {1, 16, 8, 8}, kUint8);
  const ValueId conv = b.Op("ConvInteger", {x, b.Weights({16, 16, 3, 3}),
                                            b.Zero(7), b.WeightsZero()})[0];
  const ValueId a = b.In("a", {5, 64}, kUint8);
  const ValueId product = b.Op(
      "MatMulInteger", {a, b.Weights({64, 32}), b.Zero(3), b.WeightsZero()})[0];
  b.Out({conv, product});
  const auto choices =
      ExpectEqual(b.net, {LargeData({1, 16, 8, 8}), LargeData({5, 64})});
  EXPECT_EQ(choices.at("ConvInteger").kernel, "oneDNN");
  EXPECT_EQ(choices.at("MatMulInteger").kernel, "oneDNN");
}

// All scales are powers of two, so that every scaled sum is exact, ties too.
TEST(OneDnnInt8Test, ScaledSumsAreThoseOfTheDefinition) {
  Int8Net b;
  const ValueId x = b.In("x", {1, 16, 8, 8}, kUint8);
  const ValueId conv =
      b.Op("QLinearConv",
           {x, b.Scale(0.5F), b.Zero(250), b.Weights({16, 16, 3, 3}),
            b.Scale(0.125F), b.WeightsZero(), b.Scale(4), b.Zero(100)})[0];
  const ValueId a = b.In("a", {5, 64}, kUint8);
  const ValueId product =
      b.Op("QLinearMatMul",
           {a, b.Scale(0.5F), b.Zero(250), b.Weights({64, 32}), b.Scale(0.125F),
            b.WeightsZero(), b.Scale(2), b.Zero(100)})[0];
  b.Out({conv, product});
  const auto choices =
      ExpectEqual(b.net, {LargeData({1, 16, 8, 8}), LargeData({5, 64})});
  EXPECT_EQ(choices.at("QLinearConv").kernel, "oneDNN");
  EXPECT_EQ(choices.at("QLinearMatMul").kernel, "oneDNN");
}

TEST(OneDnnInt8Test, WhatIsQuantisedComesBackExactly) {
  Int8Net b;
  const ValueId x = b.In("x", {4, 37});
  const ValueId q = b.Op("QuantizeLinear", {x, b.Scale(0.125F), b.Zero(12)})[0];
  b.Out({q, b.Op("DequantizeLinear", {q, b.Scale(0.125F), b.Zero(12)})[0]});
  std::vector<float> values;
  for (int i = 0; i < 4 * 37; ++i) {
    values.push_back(static_cast<float>(i - 60) / 16);  // Ties among them.
  }
  const auto choices = ExpectEqual(b.net, {MakeTensor<float>({4, 37}, values)});
  EXPECT_EQ(choices.at("QuantizeLinear").kernel, "oneDNN");
  EXPECT_EQ(choices.at("DequantizeLinear").kernel, "oneDNN");
}

// A network as --precision int8 makes it here.
Network LoweredToInt8() {
  Network net = SmallNet();
  PrecisionOptions options = Int8Of(net, {SampleOf(net)});
  options.most_weight = OneDnnMostWeight();
  LowerTo(options, net);
  MergeQuantization(net);
  return net;
}

// Quotients of other scales may be rounded another way: by a step.
TEST(OneDnnInt8Test, ALoweredNetworkIsWithinAStep) {
  const Network net = LoweredToInt8();
  const Sample sample = SampleOf(net);
  const auto library = BuiltInFunctions(AllOperators());
  const auto found = RunLowered(net, sample, {}, library);
  const auto expected = Interpret(net, sample);
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(expected, IsOk());
  for (size_t i = 0; i < ValuesOf((*found)[0]).size(); ++i) {
    EXPECT_NEAR(ValuesOf((*found)[0])[i], ValuesOf((*expected)[0])[i], 0.01);
  }
  size_t in_onednn = 0;
  for (const KernelChoice& choice : library->choices()) {
    for (const OperationChoice& operation : choice.operations) {
      const auto id = net.FindOperation(operation.operation).value();
      const std::string_view kind = net.operation(id).kind();
      if (kind != "QLinearConv" && kind != "QLinearMatMul") continue;
      EXPECT_EQ(operation.kernel, "oneDNN")
          << kind << ": " << operation.why_not;
      ++in_onednn;
    }
  }
  EXPECT_EQ(in_onednn, 2u);
}

// Which of the two it is depends on the processor.
TEST(OneDnnInt8Test, LargerWeightsAreExactOrTheReferences) {
  Int8Net b;
  const ValueId x = b.In("x", {5, 64}, kUint8);
  std::vector<int8_t> weights(64 * 32, 127);
  const ValueId w = b.Const("w", MakeTensor<int8_t>({64, 32}, weights));
  b.Out(b.Op("MatMulInteger", {x, w, b.Zero(3), b.WeightsZero()}));
  const auto choices = ExpectEqual(b.net, {LargeData({5, 64})});
  const OperationChoice& product = choices.at("MatMulInteger");
  if (product.kernel == "oneDNN") return;
  EXPECT_THAT(product.why_not, HasSubstr("saturate silently"));
}

}  // namespace
}  // namespace nodewise
