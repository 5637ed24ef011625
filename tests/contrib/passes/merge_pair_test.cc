#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/random/random.h"
#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One element of this type.
NDArray One(DLDataType dtype, double value) {
  const NDArray one = NDArray::Empty({}, dtype, kCpu).value();
  StoreDoubles(&value, 0, 1, one);
  return one;
}

// x -> QuantizeLinear "q" -> DequantizeLinear "y" -> the output.
Network QuantizedOnce(const std::string& type, const Scaling& scaling,
                      const ops::QuantizeLinear& op = {}) {
  QuantizedBuilder net;
  const ValueId x = net.Input("x", type);
  const ValueId q = net.AddScaled(op, x, scaling, "q");
  return net.Finish({net.Dequantize(q, scaling, "y")});
}

// --- FakeQuantize.

TEST(MergePairTest, QuantizeAndDequantizeBecomeFakeQuantize) {
  Network net = QuantizedOnce("float32[3]", {Float(0.3F), SignedByte(5)});
  EXPECT_EQ(Merge(net).ToString(),
            "operation q: merged into FakeQuantize (bit for bit)\n"
            "1 merged, 0 not\n");
  ASSERT_THAT(KindsOf(net), ElementsAre("FakeQuantize"));
  EXPECT_EQ(net.operation(net.order()[0]).name, "q");
  EXPECT_EQ(net.value(net.outputs()[0]).name, "y");
  EXPECT_EQ(net.opset("nodewise"), 1);
}

// Returns the number of elements of which the merged form makes other bits.
size_t CountDifferent(Network net, const NDArray& x) {
  const auto before = OutputOf<uint16_t>(net, {x});
  EXPECT_EQ(Merge(net).CountOf("FakeQuantize"), 1u);
  const auto after = OutputOf<uint16_t>(net, {x});
  EXPECT_EQ(before.size(), after.size());
  size_t different = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    different += before[i] == after[i] ? 0 : 1;
  }
  return different;
}

// OV-37: exhaustive.
TEST(MergePairTest, FakeQuantizeOfEveryFloat16IsTheSame) {
  std::vector<uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), 0);
  const NDArray x = MakeTensor<uint16_t>({65536}, bits, kFloat16);
  const double scales[] = {0x1p-3, 0.1, 1, 1000, 0x1p-24};
  for (const DLDataType type : {kUint8, kInt8, kUint16, kInt16}) {
    const double ends[] = {0, 77, type.code == kDLUInt ? 255.0 : -128.0};
    for (const double scale : scales) {
      ops::QuantizeLinear by_name;
      by_name.output_dtype = type;
      const NDArray s = One(kFloat16, scale);
      EXPECT_EQ(
          CountDifferent(
              QuantizedOnce("float16[65536]", {s, NDArray()}, by_name), x),
          0u);
      for (const double zero : ends) {
        const Scaling scaling{s, One(type, zero)};
        EXPECT_EQ(CountDifferent(QuantizedOnce("float16[65536]", scaling), x),
                  0u)
            << ToString(type) << " " << scale << " " << zero;
      }
    }
  }
}

// Every integer and every tie between two, for every zero point.
TEST(MergePairTest, FakeQuantizeOfEveryStepIsTheSame) {
  for (const DLDataType type : {kUint8, kInt8}) {
    const NDArray zeros = NDArray::Empty({256}, type, kCpu).value();
    std::iota(zeros.As<uint8_t>(), zeros.As<uint8_t>() + 256, 0);
    for (const float scale : {0.1F, 0.25F, 3e-39F, 1e36F}) {
      const NDArray x = NDArray::Empty({256, 1200}, kFloat32, kCpu).value();
      for (int i = 0; i < 256 * 1200; ++i) {
        x.As<float>()[i] = static_cast<float>(i % 1200 - 600) / 2 * scale;
      }
      const Scaling scaling{Floats(std::vector<float>(256, scale)), zeros, 0};
      EXPECT_EQ(CountDifferent(QuantizedOnce("float32[256, 1200]", scaling), x),
                0u)
          << ToString(type) << " " << scale;
    }
  }
}

TEST(MergePairTest, FakeQuantizeKeepsAxesAndBlocks) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[2, 4]");
  const Scaling by_block{MakeTensor<float>({2, 2}, {1, 2, 3, 4}), NDArray(),
                         -1};
  ops::QuantizeLinear q;
  q.block_size = 2;
  ops::DequantizeLinear d;
  d.block_size = 2;
  const ValueId integers = builder.AddScaled(q, x, by_block, "q");
  Network net = builder.Finish({builder.AddScaled(d, integers, by_block, "y")});
  const NDArray data = MakeTensor<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto before = OutputOf<float>(net, {data});
  ASSERT_EQ(Merge(net).CountOf("FakeQuantize"), 1u);
  EXPECT_EQ(OutputOf<float>(net, {data}), before);
}

TEST(MergePairTest, MissingZeroPointEqualsZeros) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[2]");
  const ValueId q = builder.Quantize(x, {Float(1), NDArray()}, "q");
  Network net =
      builder.Finish({builder.Dequantize(q, {Float(1), Byte(0)}, "")});
  EXPECT_EQ(Merge(net).CountOf("FakeQuantize"), 1u);
}

TEST(MergePairTest, ScaleMayBeGivenAtRunTime) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[...]");
  const ValueId scale = builder.Input("scale", "float32[...]");
  const ValueId q = builder.Add(ops::QuantizeLinear{}, {x, scale}, "q");
  Network net =
      builder.Finish({builder.Add(ops::DequantizeLinear{}, {q, scale}, "y")});
  EXPECT_EQ(Merge(net).CountOf("FakeQuantize"), 1u);
}

TEST(MergePairTest, OtherReadersOfTheIntegersAreAReason) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[2]");
  const ValueId q = builder.Quantize(x, {}, "q");
  const ValueId a = builder.Dequantize(q, {}, "a");
  const ValueId b = builder.Dequantize(q, {}, "b");
  EXPECT_EQ(ReasonOf(builder.Finish({a, b})),
            "its result is read in 2 places, expected one");
  QuantizedBuilder other;
  const ValueId y = other.Quantize(other.Input("x", "float32[2]"), {}, "q");
  EXPECT_EQ(ReasonOf(other.Finish({y, other.Dequantize(y, {}, "a")})),
            "its result is an output of the network");
}

Network PairOf(const std::string& type, const Scaling& q, const Scaling& d,
               const ops::DequantizeLinear& op = {}) {
  QuantizedBuilder net;
  const ValueId integers = net.Quantize(net.Input("x", type), q, "q");
  return net.Finish({net.AddScaled(op, integers, d, "d")});
}

TEST(MergePairTest, DifferentScalesAreAReason) {
  const Scaling one{Float(1), Byte(0)};
  EXPECT_THAT(ReasonOf(PairOf("float32[2]", one, {Float(2), Byte(0)})),
              HasSubstr("its scale or zero point, or how it applies to the "
                        "data, is not that of d"));
  EXPECT_THAT(ReasonOf(PairOf("float32[2]", one, {Float(1), Byte(1)})),
              HasSubstr("its scale or zero point"));
  const Scaling rows{Floats({1, 2}), NDArray(), 0};
  EXPECT_THAT(ReasonOf(PairOf("float32[2, 2]", rows, {Floats({1, 2})})),
              HasSubstr("its scale or zero point"));
}

TEST(MergePairTest, OtherTypesAreAReason) {
  EXPECT_EQ(ReasonOf(PairOf("float16[2]", {}, {})),
            "its input is float16[...], and what d makes float32[...], "
            "expected one float type");
  EXPECT_THAT(ReasonOf(PairOf("int32[2]", {}, {})),
              HasSubstr("its input is int32"));
  ops::QuantizeLinear op;
  op.precision = kFloat16;
  EXPECT_EQ(ReasonOf(QuantizedOnce("float32[2]", {}, op)),
            "it divides in float16, expected float32[...] as its scale is");
}

TEST(MergePairTest, UnusableScalesAreAReason) {
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) {
    const Scaling scaling{Float(bad)};
    EXPECT_THAT(ReasonOf(QuantizedOnce("float32[2]", scaling)),
                HasSubstr("expected finite numbers above 0"));
  }
}

TEST(MergePairTest, EmptyTensorsMergeToo) {
  Network net = QuantizedOnce("float32[0, 3]", {});
  EXPECT_EQ(Merge(net).CountOf("FakeQuantize"), 1u);
  const NDArray none = NDArray::Empty({0, 3}, kFloat32, kCpu).value();
  EXPECT_TRUE(OutputOf<float>(net, {none}).empty());
}

// --- Integers that come back.

// x -> DequantizeLinear "d" -> QuantizeLinear "q" -> DequantizeLinear "y".
Network ThereAndBack(const std::string& type, const Scaling& scaling,
                     const Scaling& back) {
  QuantizedBuilder net;
  const ValueId floats = net.Dequantize(net.Input("x", type), scaling, "d");
  const ValueId q = net.Quantize(floats, back, "q");
  return net.Finish({net.Dequantize(q, {Float(1), NDArray()}, "y")});
}

// All integers of a type of 8 bits, for each zero point.
NDArray AllPairs(DLDataType type) {
  const NDArray all = NDArray::Empty({256, 256}, type, kCpu).value();
  for (int i = 0; i < 65536; ++i) {
    all.As<uint8_t>()[i] = static_cast<uint8_t>(i % 256);
  }
  return all;
}

void ExpectComesBack(DLDataType type, DLDataType float_type, double scale) {
  const NDArray zeros = NDArray::Empty({256}, type, kCpu).value();
  std::iota(zeros.As<uint8_t>(), zeros.As<uint8_t>() + 256, 0);
  const NDArray scales = NDArray::Empty({256}, float_type, kCpu).value();
  const std::vector<double> same(256, scale);
  StoreDoubles(same.data(), 0, 256, scales);
  const Scaling scaling{scales, zeros, 0};
  Network net = ThereAndBack(ToString(type) + "[256, 256]", scaling, scaling);
  const NDArray x = AllPairs(type);
  const std::vector<double> integers = ToDoubles(x);
  const std::vector<float> expected(integers.begin(), integers.end());
  EXPECT_EQ(OutputOf<float>(net, {x}), expected) << scale;
  const QuantizationReport report = Merge(net);
  EXPECT_EQ(report.CountOf(""), 1u) << report.ToString();
  EXPECT_THAT(KindsOf(net), ElementsAre("DequantizeLinear"));
  EXPECT_EQ(OutputOf<float>(net, {x}), expected) << scale;
}

// Exhaustive in the integers and the zero points.
TEST(MergePairTest, DequantizedIntegersComeBackAndThePairGoesAway) {
  const uint64_t seed = FirstSeed();
  std::cout << "NODEWISE_SEED=" << seed << "\n";
  RandomSource random(seed);
  std::vector<double> scales = {1,        0.1F,   0x1p-149, 3 * 0x1p-149,
                                0x1p-126, 1e-38F, 0x1p119,  1.3e36F};
  for (int i = 0; i < 12; ++i) {
    scales.push_back(static_cast<float>(std::exp2(100 * random.Symmetric())));
  }
  for (const double scale : scales) {
    ExpectComesBack(kUint8, kFloat32, scale);
    ExpectComesBack(kInt8, kFloat32, scale);
  }
  for (const double scale : {0.1, 0x1p-24, 0x1p-14, 1.0, 200.0}) {
    ExpectComesBack(kUint8, kFloat16, scale);
  }
  ExpectComesBack(kInt8, kBfloat16, 0x1p-20);
}

TEST(MergePairTest, IntegersOf16BitsComeBackToo) {
  const NDArray x = NDArray::Empty({65536}, kInt16, kCpu).value();
  std::iota(x.As<uint16_t>(), x.As<uint16_t>() + 65536, 0);
  for (const double zero : {-32768, 0, 32767}) {
    const Scaling scaling{Float(0.1F), One(kInt16, zero)};
    Network net = ThereAndBack("int16[65536]", scaling, scaling);
    const auto before = OutputOf<float>(net, {x});
    EXPECT_EQ(Merge(net).CountOf(""), 1u);
    EXPECT_EQ(OutputOf<float>(net, {x}), before);
  }
}

// Returns the reason why the pair stays.
std::string ReasonToStay(Network net) {
  const QuantizationReport report = Merge(net);
  return report.left_alone.empty() ? "" : report.left_alone[0].reason;
}

TEST(MergePairTest, IntegersThatDoNotComeBackAreLeft) {
  const auto with = [](DLDataType type, double scale) {
    const Scaling scaling{One(type, scale), Byte(0)};
    return ReasonToStay(ThereAndBack("uint8[2]", scaling, scaling));
  };
  EXPECT_THAT(with(kBfloat16, 0.1), HasSubstr("bfloat16 does not hold all"));
  EXPECT_THAT(with(kFloat16, 300), HasSubstr("float16 does not hold all"));
  EXPECT_THAT(with(kFloat32, 2e36), HasSubstr("float32 does not hold all"));
  EXPECT_THAT(with(kFloat32, 0), HasSubstr("expected finite numbers above 0"));
}

TEST(MergePairTest, OtherScalesOrTypesAreLeft) {
  const Scaling one{Float(1), Byte(0)};
  EXPECT_THAT(ReasonToStay(ThereAndBack("uint8[2]", one, {Float(2), Byte(0)})),
              HasSubstr("is not that of d"));
  EXPECT_THAT(
      ReasonToStay(ThereAndBack("int8[2]", {Float(1)}, {Float(1), NDArray()})),
      HasSubstr("its result is uint8[...], and d reads int8[...]"));
  EXPECT_THAT(
      ReasonToStay(ThereAndBack("int32[2]", {Float(1)}, {Float(1), NDArray()})),
      HasSubstr("its result is uint8[...], and d reads int32[...]"));
}

TEST(MergePairTest, ResultThatIsAnOutputKeepsItsName) {
  QuantizedBuilder builder;
  const ValueId d = builder.Dequantize(builder.Input("x", "uint8[2]"), {}, "d");
  EXPECT_EQ(ReasonOf(builder.Finish({builder.Quantize(d, {}, "q")})),
            "its result is an output of the network");
}

TEST(MergePairTest, PairIsRemovedForOneReaderAndStaysForOthers) {
  QuantizedBuilder builder;
  const ValueId d = builder.Dequantize(builder.Input("x", "uint8[2]"), {}, "d");
  const ValueId relu = builder.Add(ops::Relu{}, {d}, "relu");
  const ValueId q = builder.Quantize(d, {}, "q");
  const Scaling other{Float(2), NDArray()};
  Network net = builder.Finish({relu, builder.Dequantize(q, other, "y")});
  EXPECT_EQ(Merge(net).CountOf(""), 1u);
  EXPECT_THAT(KindsOf(net),
              ElementsAre("DequantizeLinear", "Relu", "DequantizeLinear"));
}

}  // namespace
}  // namespace nodewise
