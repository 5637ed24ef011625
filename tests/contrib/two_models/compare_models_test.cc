#include "nodewise/two_models/compare_models.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "nodewise/interp/interpreter.h"
#include "nodewise/precision/sensitivity.h"
#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelComparison Compared(const Network& reference, const Network& target,
                         const Sample& inputs) {
  auto compared = CompareModels({reference, target, {inputs}});
  EXPECT_THAT(compared, IsOk());
  return compared.ok() ? *std::move(compared) : ModelComparison();
}

std::vector<std::string> NamesOfLayers(const ModelComparison& compared) {
  std::vector<std::string> names;
  for (const ModelLayer& layer : compared.layers) names.push_back(layer.name);
  return names;
}

// The network with new names for its operations and all that they make.
Network Renamed(Network network) {
  for (const OperationId id : std::vector<OperationId>(network.order().begin(),
                                                       network.order().end())) {
    EXPECT_THAT(network.Rename(id, network.operation(id).name + "_too"),
                IsOk());
    for (const ValueId output : network.operation(id).outputs) {
      EXPECT_THAT(network.Rename(output, network.value(output).name + "_too"),
                  IsOk());
    }
  }
  return network;
}

// Puts another constant in the place of one.
void Exchange(const std::string& name, NDArray data, Network* network) {
  const ValueId old = *network->FindValue(name);
  const auto added = network->AddConstant("", std::move(data));
  ASSERT_THAT(added, IsOk());
  const ValueId from[] = {old};
  const ValueId to[] = {*added};
  ASSERT_THAT(network->ReplaceUses(from, to), IsOk());
}

Network Products() {
  NetBuilder b;
  ValueId y = b.In("x", {4, 16});
  for (const char* const name : {"one", "two", "three", "four"}) {
    const ValueId w =
        b.Const(std::string("w_") + name, RandomFloats(name, {16, 16}));
    y = b.Op("MatMul", {y, w}, {}, {std::string("made_") + name}, name)[0];
  }
  b.Out({y});
  return std::move(b.net);
}

// Products() with weights of which each block of 32 has 16 numbers, or each is
// a float16.
Network WithShorterWeights(bool is_float16) {
  Network network = Products();
  for (const char* const name : {"one", "two", "three", "four"}) {
    const NDArray exact = RandomFloats(name, {16, 16});
    NDArray rounded = exact.CopyToHost().value();
    for (int64_t i = 0; i < 256; ++i) {
      const float step = 0.1F * static_cast<float>(1 + i / 32);
      rounded.As<float>()[i] =
          is_float16
              ? std::nearbyint(exact.As<float>()[i] * 1024) / 1024
              : step * std::clamp(std::nearbyint(exact.As<float>()[i] / step),
                                  -8.0F, 7.0F);
    }
    Exchange(std::string("w_") + name, rounded, &network);
  }
  return network;
}

TEST(CompareModelsTest, WeightsOfFewBitsAreToldByTheirNumbers) {
  const Network net = Products();
  const Network shorter = WithShorterWeights(false);
  const ModelComparison compared = Compared(net, shorter, SampleOf(net, 3));
  EXPECT_EQ(compared.lowered, "4-bit integers");
  EXPECT_TRUE(compared.are_weights_lowered);
  EXPECT_EQ(compared.layers.size(), 4U);
  EXPECT_GT(compared.sensitivity.curve.size(), 1U);
}

TEST(CompareModelsTest, WeightsRoundedToShorterFloatsAreToldByTheirNumbers) {
  const Network net = Products();
  const Network shorter = WithShorterWeights(true);
  EXPECT_EQ(Compared(net, shorter, SampleOf(net, 3)).lowered, "float16");
}

TEST(CompareModelsTest, OtherWeightsAreNotTakenForShorterOnes) {
  const Network net = Products();
  Network other = Products();
  Exchange("w_two", RandomFloats("another", {16, 16}), &other);
  EXPECT_EQ(Compared(net, other, SampleOf(net, 3)).lowered, "");
}

// Lowering one operation after the other, which shares nothing with running
// layers of one model in another, has the same errors.
void ExpectErrorsOfLowering(const Network& net, Precision precision) {
  const std::vector<Sample> samples = {SampleOf(net, 3)};
  PrecisionOptions options = Int8Of(net, samples);
  options.precision = precision;
  Network lowered = net;
  LowerTo(options, lowered);
  const auto measured = MeasureSensitivity(net, options, samples);
  ASSERT_THAT(measured, IsOk());
  const ModelComparison compared = Compared(net, lowered, samples[0]);
  ASSERT_FALSE(compared.layers.empty());
  EXPECT_EQ(compared.layers[0].name, measured->ranking[0].operation);
  for (const auto& one : measured->ranking) {
    const auto layer = std::find_if(
        compared.layers.begin(), compared.layers.end(),
        [&](const ModelLayer& of) { return of.name == one.operation; });
    if (layer == compared.layers.end()) continue;
    EXPECT_NEAR(layer->alone, one.error, 0.2 * one.error + 1e-5)
        << one.operation;
  }
  EXPECT_NEAR(compared.error, ErrorOf(lowered, net, samples[0]), 1e-6);
}

TEST(CompareModels, ALayerAloneCostsWhatLoweringItAloneToFloat16Costs) {
  ExpectErrorsOfLowering(SmallNet(), Precision::kFloat16);
}

TEST(CompareModels, ALayerAloneCostsWhatQuantisingItAloneCosts) {
  ExpectErrorsOfLowering(Products(), Precision::kInt8);
}

NDArray ScalarOf(float number) {
  NDArray scalar = NDArray::Empty({}, kFloat32, kCpu).value();
  scalar.As<float>()[0] = number;
  return scalar;
}

NDArray ByteOf(uint8_t number) {
  NDArray scalar = NDArray::Empty({}, kUint8, kCpu).value();
  scalar.As<uint8_t>()[0] = number;
  return scalar;
}

// Returns the value in eight bits, with steps of `step` and 0 in the middle or
// at the lower end.
ValueId InEightBits(ValueId x, float step, uint8_t zero_point, NetBuilder* b) {
  const ValueId s = b->Const("", ScalarOf(step));
  const ValueId z = b->Const("", ByteOf(zero_point));
  const ValueId q = b->Op("QuantizeLinear", {x, s, z})[0];
  return b->Op("DequantizeLinear", {q, s, z})[0];
}

// x -> MatMul -> a, which a product and a function read; a may have eight bits.
Network TwoReaders(bool is_quantised) {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 8});
  const ValueId w = b.Const("w", RandomFloats("w", {8, 8}));
  ValueId a = b.Op("MatMul", {x, w}, {}, {"a"}, "first")[0];
  if (is_quantised) a = InEightBits(a, 0.05F, 128, &b);
  const ValueId v = b.Const("v", RandomFloats("v", {8, 8}));
  const ValueId left = b.Op("MatMul", {a, v}, {}, {"left"}, "product")[0];
  const ValueId right = b.Op("Sigmoid", {a}, {}, {"right"}, "function")[0];
  b.Out({b.Op("Add", {left, right}, {}, {"y"}, "sum")[0]});
  return std::move(b.net);
}

TEST(CompareModels, ATensorIsQuantisedForAllThatReadIt) {
  const Network net = TwoReaders(false);
  const ModelComparison compared =
      Compared(net, TwoReaders(true), SampleOf(net));
  ASSERT_THAT(NamesOfLayers(compared),
              testing::UnorderedElementsAre("first", "product", "function"));
  for (const ModelLayer& layer : compared.layers) {
    EXPECT_NEAR(layer.alone, compared.error, 1e-9) << layer.name;
  }
}

// x -> MatMul -> a, which another MatMul and a function read; either may be
// done in integers.
Network ProductsOfIntegers(bool is_first_lowered, bool is_second_lowered) {
  NetBuilder b;
  const ValueId step = b.Const("step", ScalarOf(0.2F));
  const ValueId weight_step = b.Const("weight_step", ScalarOf(0.01F));
  const ValueId zero = b.Const("zero", ByteOf(128));
  const auto product = [&](ValueId x, bool is_lowered, const std::string& name,
                           const std::string& made) {
    const NDArray numbers = NDArray::Empty({8, 8}, kUint8, kCpu).value();
    const NDArray floats = NDArray::Empty({8, 8}, kFloat32, kCpu).value();
    for (int i = 0; i < 64; ++i) {
      numbers.As<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251);
      floats.As<float>()[i] =
          0.01F * static_cast<float>(numbers.As<uint8_t>()[i] - 128);
    }
    if (!is_lowered) {
      return b.Op("MatMul", {x, b.Const("", floats)}, {}, {made}, name)[0];
    }
    const ValueId q = b.Op("QuantizeLinear", {x, step, zero})[0];
    const ValueId y = b.Op(
        "QLinearMatMul",
        {q, step, zero, b.Const("", numbers), weight_step, zero, step, zero},
        {}, {}, name)[0];
    return b.Op("DequantizeLinear", {y, step, zero}, {}, {made})[0];
  };
  const ValueId a = product(b.In("x", {4, 8}), is_first_lowered, "first", "a");
  const ValueId left = product(a, is_second_lowered, "second", "left");
  const ValueId right = b.Op("Tanh", {a}, {}, {"right"}, "function")[0];
  b.Out({b.Op("Sub", {left, right}, {}, {"y"}, "difference")[0]});
  return std::move(b.net);
}

TEST(CompareModels, AnOperatorOfIntegersQuantisesForItselfAlone) {
  const Network net = ProductsOfIntegers(false, false);
  const Sample inputs = SampleOf(net);
  const double expected =
      Compared(net, ProductsOfIntegers(false, true), inputs).error;
  for (const bool is_first_lowered : {false, true}) {
    const ModelComparison compared =
        Compared(net, ProductsOfIntegers(is_first_lowered, true), inputs);
    const auto second = std::find_if(
        compared.layers.begin(), compared.layers.end(),
        [](const ModelLayer& layer) { return layer.name == "second"; });
    ASSERT_NE(second, compared.layers.end());
    EXPECT_NEAR(second->alone, expected, 1e-9);
  }
}

// x -> MatMul -> f -> MatMul -> ... -> y, where f may be missing from what has
// eight bits. The steps around f are coarse.
Network BetweenProducts(const std::string& f, bool is_quantised,
                        bool is_f_merged = false) {
  NetBuilder b;
  const auto product = [&](ValueId x, const std::string& name) {
    const ValueId w = b.Const("w_" + name, RandomFloats(name, {8, 8}));
    return b.Op("MatMul", {x, w}, {}, {"made_" + name}, name)[0];
  };
  ValueId x = b.In("x", {4, 8});
  if (is_quantised) x = InEightBits(x, 0.02F, 128, &b);
  x = product(x, "first");
  if (is_quantised) x = InEightBits(x, 0.5F, is_f_merged ? 0 : 128, &b);
  if (!is_f_merged) {
    x = b.Op(f, {x}, {}, {"made_f"}, "f")[0];
    if (is_quantised) x = InEightBits(x, 0.5F, 128, &b);
  }
  float step = 0.05F;
  for (const char* const name : {"second", "third", "fourth", "fifth"}) {
    x = product(x, name);
    if (is_quantised) x = InEightBits(x, step *= 1.7F, 128, &b);
  }
  b.Out({x});
  return std::move(b.net);
}

TEST(CompareModels, WhatAQuantiserPassesByCostsNothing) {
  for (const bool is_known : {false, true}) {
    const std::string f = is_known ? "Sigmoid" : "HardSwish";
    const Network net = BetweenProducts(f, false);
    const auto names =
        NamesOfLayers(Compared(net, BetweenProducts(f, true), SampleOf(net)));
    EXPECT_THAT(names, testing::IsSupersetOf({"first", "second"}));
    EXPECT_EQ(std::count(names.begin(), names.end(), "f"), is_known ? 1 : 0);
  }
}

TEST(CompareModels, AnOperatorThatOnlyThisQuantiserLowersCostsWhatItDoes) {
  const auto made = [](bool is_quantised) {
    NetBuilder b;
    ValueId x = b.In("x", {4, 8});
    if (is_quantised) x = InEightBits(x, 0.02F, 128, &b);
    x = b.Op("HardSwish", {x}, {}, {"y"}, "f")[0];
    b.Out({is_quantised ? InEightBits(x, 0.05F, 128, &b) : x});
    return std::move(b.net);
  };
  const Network net = made(false);
  const ModelComparison compared = Compared(net, made(true), SampleOf(net));
  ASSERT_THAT(NamesOfLayers(compared), ElementsAre("f"));
  EXPECT_NEAR(compared.layers[0].alone, compared.error, 1e-9);
}

TEST(CompareModels, AReluThatWasMergedIsNotAmongWhatToKeep) {
  const Network net = BetweenProducts("Relu", false);
  const ModelComparison compared =
      Compared(net, BetweenProducts("Relu", true, true), SampleOf(net));
  ASSERT_FALSE(compared.keep.empty());
  EXPECT_EQ(std::count(compared.keep.begin(), compared.keep.end(), "f"), 0);
}

// y = Tanh(Relu(x * 1)), the product in eight bits from 0 on, into which the
// quantiser has taken the Relu, if there is one.
Network WithRange(std::optional<float> step) {
  NetBuilder b;
  const ValueId x = b.In("x", {64});
  ValueId a = b.Op("Mul", {x, b.Const("one", ScalarOf(1))}, {}, {"a"})[0];
  if (step.has_value()) {
    a = InEightBits(a, *step, 0, &b);
  } else {
    a = b.Op("Relu", {a}, {}, {"r"})[0];
  }
  b.Out({b.Op("Tanh", {a}, {}, {"y"})[0]});
  return std::move(b.net);
}

TEST(CompareModels, NumbersBeyondARangeAreToldAndNotThoseThatAReluLeavesOut) {
  const Network net = WithRange(std::nullopt);
  const Sample inputs = SampleOf(net);
  EXPECT_THAT(Compared(net, WithRange(0.1F), inputs).narrow_ranges, IsEmpty());
  const auto narrow = Compared(net, WithRange(0.001F), inputs).narrow_ranges;
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_EQ(narrow[0].value, "a");
  EXPECT_GT(narrow[0].share, 0.1);
  EXPECT_LT(narrow[0].share, 0.7);
}

// Half a step is rounded to either side by the last bit.
TEST(CompareModels, WhatIsStatedHoldsForToolsThatRoundOtherwise) {
  const auto made = [](bool is_quantised) {
    NetBuilder b;
    ValueId x = b.In("x", {16});
    ValueId z = b.In("z", {16});
    if (is_quantised) x = InEightBits(x, 1, 128, &b);
    if (is_quantised) z = InEightBits(z, 1, 128, &b);
    const ValueId difference = b.Op("Sub", {x, z}, {}, {"d"}, "sub")[0];
    const ValueId one = b.Const("one", ScalarOf(1));
    b.Out({b.Op("Add", {difference, one}, {}, {"y"})[0]});
    return std::move(b.net);
  };
  const NDArray halves = NDArray::Empty({16}, kFloat32, kCpu).value();
  std::fill_n(halves.As<float>(), 16, 2.5F);
  const ModelComparison compared =
      Compared(made(false), made(true), {halves, halves});
  EXPECT_EQ(compared.error, 0);
  EXPECT_GT(compared.sensitivity.suggested_error, 0.1);
}

TEST(CompareModels, WhatWasFoldedIntoAKeptConstantIsKept) {
  const auto made = [](bool is_quantised) {
    Network network = BetweenProducts("Sigmoid", is_quantised);
    const ValueId old = *network.FindValue("w_second");
    const ValueId folded =
        network.AddConstant("folded", network.value(old).data, {"a", "b"})
            .value();
    const ValueId from[] = {old};
    const ValueId to[] = {folded};
    EXPECT_THAT(network.ReplaceUses(from, to), IsOk());
    return network;
  };
  const Network net = made(false);
  const ModelComparison compared = Compared(net, made(true), SampleOf(net));
  const bool keeps_second =
      std::count(compared.keep.begin(), compared.keep.end(), "second") > 0;
  ASSERT_TRUE(keeps_second);
  EXPECT_THAT(compared.keep, testing::IsSupersetOf({"a", "b"}));
}

TEST(CompareModels, NothingIsLeftWithAllLayersOfTheReference) {
  const Network net = SmallNet();
  const std::vector<Sample> samples = {SampleOf(net, 3)};
  Network lowered = net;
  LowerTo(Int8Of(net, samples), lowered);
  const ModelComparison compared = Compared(net, lowered, samples[0]);
  ASSERT_FALSE(compared.sensitivity.curve.empty());
  EXPECT_GT(compared.sensitivity.curve.front().error, 0);
  EXPECT_EQ(compared.sensitivity.curve.back().error, 0);
  EXPECT_EQ(compared.lowered, "8-bit integers");
}

TEST(CompareModels, ModelsThatAgreeHaveNoLayerToName) {
  const Network net = SmallNet();
  const ModelComparison compared = Compared(net, Renamed(net), SampleOf(net));
  EXPECT_FALSE(compared.AreOutputsWrong());
  EXPECT_EQ(compared.error, 0);
  EXPECT_THAT(compared.layers, IsEmpty());
  EXPECT_GT(compared.judged, 3u);
}

TEST(CompareModels, ValuesWithOtherNamesGoTogetherByTheirNumbers) {
  const Network net = SmallNet();
  const ModelComparison compared = Compared(net, Renamed(net), SampleOf(net));
  EXPECT_THAT(compared.pairing.reference_alone, IsEmpty());
  EXPECT_THAT(compared.pairing.target_alone, IsEmpty());
}

TEST(CompareModels, NamesTheLayerWithOtherWeights) {
  const Network net = SmallNet();
  for (const bool is_renamed : {false, true}) {
    Network target = is_renamed ? Renamed(net) : net;
    Exchange("v", RandomFloats("v", {16, 3}, 7), &target);
    const ModelComparison compared = Compared(net, target, SampleOf(net));
    EXPECT_TRUE(compared.AreOutputsWrong());
    ASSERT_THAT(NamesOfLayers(compared), ElementsAre("fc"));
    EXPECT_LT(*compared.layers[0].left, 1e-6);
    EXPECT_NEAR(compared.layers[0].alone, compared.error, 1e-6);
  }
}

// Where values between have no partner, what is unchanged is not to blame.
TEST(CompareModels, ALayerIsKnownByTheOperationThatChanged) {
  const auto made = [](const std::string& kind, const std::string& name) {
    NetBuilder b;
    const ValueId x = b.In("x", {4, 16});
    const ValueId w = b.Const("w", RandomFloats("w", {16, 16}));
    const ValueId middle = b.Op(kind, {x}, {}, {name}, "middle")[0];
    b.Out({b.Op("MatMul", {middle, w}, {}, {"y"}, "last")[0]});
    return std::move(b.net);
  };
  const Network reference = made("Tanh", "t");
  const ModelComparison compared =
      Compared(reference, made("Sigmoid", "another"), SampleOf(reference, 3));
  EXPECT_THAT(NamesOfLayers(compared), ElementsAre("middle"));
}

TEST(CompareModels, AWrongLayerOfOtherNamesDoesNotHideWhatIsBehindIt) {
  const Network net = SmallNet();
  Network target = Renamed(net);
  Exchange("b", RandomFloats("b", {4}, 9), &target);
  const ModelComparison compared = Compared(net, target, SampleOf(net));
  EXPECT_THAT(NamesOfLayers(compared), ElementsAre("conv"));
  EXPECT_THAT(compared.pairing.reference_alone, IsEmpty());
}

// What a runtime has made of the network, with names of its own.
std::vector<NamedTensor> TensorsOf(const Network& network, bool has_names) {
  std::vector<NamedTensor> tensors;
  const Sample inputs = SampleOf(network);
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back({network.value(network.inputs()[i]).name, inputs[i]});
  }
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    const std::string name = network.value(run.operation.outputs[0]).name;
    tensors.push_back({has_names ? name : "t" + std::to_string(tensors.size()),
                       run.result.outputs[0]});
    return false;
  };
  EXPECT_THAT(Interpret(network, inputs, options), IsOk());
  return tensors;
}

TEST(CompareWithTensors, TensorsOfTheModelAreThoseUnderAnyNames) {
  const Network net = SmallNet();
  for (const bool has_names : {true, false}) {
    const auto compared = CompareWithTensors(net, TensorsOf(net, has_names));
    ASSERT_THAT(compared, IsOk());
    EXPECT_THAT(compared->layers, IsEmpty());
    EXPECT_THAT(compared->tensors_alone, IsEmpty());
  }
}

TEST(CompareWithTensors, ATensorIsJudgedOnThoseBeforeIt) {
  const Network net = SmallNet();
  Network wrong = net;
  Exchange("b", RandomFloats("b", {4}, 9), &wrong);
  const auto compared = CompareWithTensors(net, TensorsOf(wrong, true));
  ASSERT_THAT(compared, IsOk());
  EXPECT_THAT(NamesOfLayers(*compared), ElementsAre("conv"));
}

TEST(CompareWithTensors, AnInputThatIsNotThereIsNamed) {
  const Network net = SmallNet();
  std::vector<NamedTensor> tensors = TensorsOf(net, true);
  tensors.erase(tensors.begin());
  const auto compared = CompareWithTensors(net, tensors);
  ASSERT_FALSE(compared.ok());
  EXPECT_THAT(std::string(compared.status().message()),
              HasSubstr("input x: is not among the tensors"));
}

TEST(CompareModels, WhatIsWrongBeforeALayerIsNotBlamedOnIt) {
  const Network net = SmallNet();
  Network target = net;
  Exchange("b", RandomFloats("b", {4}, 9), &target);
  EXPECT_THAT(NamesOfLayers(Compared(net, target, SampleOf(net))),
              ElementsAre("conv"));
}

// x -> MatMul -> Mul -> Relu -> MatMul -> y, where Mul may be part of the first
// product's weights.
Network ScaledNet(bool is_folded, double factor = 2) {
  NetBuilder b;
  const ValueId x = b.In("x", {3, 8});
  NDArray weights = RandomFloats("w", {8, 8});
  if (is_folded) {
    std::vector<double> numbers = ToDoubles(weights);
    weights = NDArray::Empty(weights.shape(), kFloat32, kCpu).value();
    for (size_t i = 0; i < numbers.size(); ++i) {
      weights.As<float>()[i] = static_cast<float>(factor * numbers[i]);
    }
  }
  ValueId y = b.Op("MatMul", {x, b.Const("w", weights)}, {}, {"m"}, "m")[0];
  if (!is_folded) {
    const NDArray two = NDArray::Empty({1}, kFloat32, kCpu).value();
    two.As<float>()[0] = 2;
    y = b.Op("Mul", {y, b.Const("two", two)}, {}, {"s"}, "s")[0];
  }
  y = b.Op("Relu", {y}, {}, {"r"}, "r")[0];
  const ValueId v = b.Const("v", RandomFloats("v", {8, 4}));
  b.Out({b.Op("MatMul", {y, v}, {}, {"y"}, "y")[0]});
  return std::move(b.net);
}

TEST(CompareModels, AnOperationThatWasFoldedIsPartOfTheLayerThatTookIt) {
  const Network net = ScaledNet(false);
  const ModelComparison sound = Compared(net, ScaledNet(true), SampleOf(net));
  EXPECT_FALSE(sound.AreOutputsWrong());
  const ModelComparison wrong =
      Compared(net, ScaledNet(true, 2.5), SampleOf(net));
  EXPECT_TRUE(wrong.AreOutputsWrong());
  ASSERT_FALSE(wrong.layers.empty());
  // The product and its factor are one layer in the target.
  const std::set<std::string> first = {"m", "s"};
  EXPECT_EQ(first.count(wrong.layers[0].name), 1u) << wrong.layers[0].name;
  EXPECT_LT(*wrong.layers[0].left, 1e-6);
}

TEST(CompareModels, AnInputWithItsChannelsLastIsTurned) {
  const Network net = SmallNet();
  NetBuilder b;
  const ValueId x = b.In("picture", {1, 6, 6, 2});
  const ValueId turned =
      b.Op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}})[0];
  const ValueId w = b.Const("w", RandomFloats("w", {4, 2, 3, 3}));
  const ValueId bias = b.Const("b", RandomFloats("b", {4}));
  const ValueId conv = b.Op("Conv", {turned, w, bias})[0];
  const ValueId relu = b.Op("Relu", {conv})[0];
  const ValueId pool = b.Op("MaxPool", {relu},
                            {{"kernel_shape", std::vector<int64_t>{2, 2}},
                             {"strides", std::vector<int64_t>{2, 2}}})[0];
  const ValueId flat = b.Op("Flatten", {pool})[0];
  const ValueId v = b.Const("v", RandomFloats("v", {16, 3}));
  const ValueId fc = b.Op("MatMul", {flat, v})[0];
  b.Out({b.Op("Softmax", {fc}, {}, {"z"})[0]});
  const ModelComparison compared = Compared(net, b.net, SampleOf(b.net));
  EXPECT_FALSE(compared.AreOutputsWrong()) << compared.notes[0];
  ASSERT_EQ(compared.notes.size(), 1u);
  EXPECT_THAT(compared.notes[0], HasSubstr("picture is taken for x"));
}

TEST(CompareModels, AnOutputOfAnotherSizeDoesNotAgree) {
  const auto summed = [](int64_t axis) {
    NetBuilder b;
    const ValueId x = b.In("x", {2, 8});
    const NDArray axes = NDArray::Empty({1}, kInt64, kCpu).value();
    axes.As<int64_t>()[0] = axis;
    b.Out({b.Op("ReduceSum", {x, b.Const("axes", axes)}, {}, {"y"})[0]});
    return std::move(b.net);
  };
  const Network net = summed(1);
  const ModelComparison compared = Compared(net, summed(0), SampleOf(net));
  EXPECT_TRUE(compared.AreOutputsWrong());
  EXPECT_THAT(compared.missing_outputs,
              ElementsAre(HasSubstr("has 8 elements in the target")));
}

TEST(CompareModels, AnOutputThatTheReferenceOnlyHandsOnIsCompared) {
  const auto handed_on = [](bool is_changed) {
    NetBuilder b;
    const ValueId x = b.In("x", {2, 8});
    const ValueId y = b.Op("Relu", {x}, {}, {"y"})[0];
    b.Out({y, is_changed ? y : x});
    return std::move(b.net);
  };
  const Network net = handed_on(false);
  EXPECT_TRUE(Compared(net, handed_on(true), SampleOf(net)).AreOutputsWrong());
}

TEST(CompareModels, AnInputWithoutAPartnerIsAnErrorThatNamesIt) {
  const Network net = SmallNet();
  NetBuilder b;
  const ValueId x = b.In("x", {3, 5});
  b.Out({b.Op("Relu", {x})[0]});
  const auto compared = CompareModels({net, b.net, {SampleOf(b.net)}});
  ASSERT_FALSE(compared.ok());
  EXPECT_THAT(std::string(compared.status().message()), HasSubstr("input x"));
}

}  // namespace
}  // namespace nodewise
