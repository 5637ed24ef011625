// What is matched, and what is judged, where a compiled network's tensors are
// not those of its source: in shorter types, quantised, joined, of the wrong
// size, or wrong in special places alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nodewise/align/similar_inputs.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/contrib/align/align_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kHalfType = 10;  // ONNX's number of float16.

// A product, a bend, and another product, as they are; with the first one in
// float16; or with what it reads and makes quantised to 8 bits.
enum class Way { kAsItIs, kInHalf, kQuantised };

class Products {
 public:
  Products(Way way, float slope) : way_(way), slope_(slope) {}

  Network Net() {
    const ValueId x = b_.In("x", {6, 12});
    const ValueId v = b_.Const("v", Drawn("v", {12, 16}));
    const ValueId p = First(x, v);
    const ValueId r =
        b_.Op("LeakyRelu", {p}, {{"alpha", slope_}}, {"r"}, "bend")[0];
    const ValueId w = b_.Const("w", Drawn("w", {16, 8}));
    b_.Out({b_.Op("MatMul", {r, w}, {}, {"y"}, "second")[0]});
    return std::move(b_.net);
  }

 private:
  ValueId First(ValueId x, ValueId v) {
    if (way_ == Way::kAsItIs) {
      return b_.Op("MatMul", {x, v}, {}, {"p"}, "first")[0];
    }
    if (way_ == Way::kQuantised) {
      const ValueId made = b_.Op("MatMul", {Steps(x, "x", 2), Steps(v, "v", 2)},
                                 {}, {"p0"}, "first")[0];
      return Steps(made, "p", 10);
    }
    const auto cast = [&](ValueId from, const std::string& name, int64_t to) {
      return b_.Op("Cast", {from}, {{"to", to}}, {name}, name)[0];
    };
    const ValueId made =
        b_.Op("MatMul", {cast(x, "xh", kHalfType), cast(v, "vh", kHalfType)},
              {}, {"ph"}, "first")[0];
    return cast(made, "p", 1);
  }

  // The tensor in 8 bits over a range of that size, and its floats again.
  ValueId Steps(ValueId from, const std::string& name, float range) {
    const ValueId scale =
        b_.Const(name + "_scale", MakeTensor<float>({}, {range / 255}));
    const ValueId zero =
        b_.Const(name + "_zero", MakeTensor<uint8_t>({}, {128}, kUint8));
    const ValueId q = b_.Op("QuantizeLinear", {from, scale, zero}, {},
                            {name + "_q"}, name + "_q")[0];
    return b_.Op("DequantizeLinear", {q, scale, zero}, {}, {name + "_dq"},
                 name + "_dq")[0];
  }

  NetBuilder b_;
  const Way way_;
  const float slope_;
};

Examined ExamineProducts(Way way, float slope, const LowerOptions& options) {
  return ExamineBeside(Products(Way::kAsItIs, 0.2F).Net(),
                       Products(way, slope).Net(), {{"x", Drawn("x", {6, 12})}},
                       options);
}

TEST(ValuesTest, FewerBitsAccuseNoNodeAndAreMatched) {
  for (const Way way : {Way::kInHalf, Way::kQuantised}) {
    for (const LowerOptions& options : {LowerOptions{}, kPlain}) {
      const Examined examined = ExamineProducts(way, 0.2F, options);
      EXPECT_THAT(examined.result.culprits, IsEmpty());
      const GraphIndex& index = examined.target->index();
      EXPECT_EQ(examined.alignment.CountMatched(index),
                examined.alignment.CountVarying(index.graph()));
    }
  }
}

TEST(ValuesTest, FaultAmongFewerBitsIsNamed) {
  for (const Way way : {Way::kInHalf, Way::kQuantised}) {
    const Examined examined = ExamineProducts(way, 0.9F, kPlain);
    ASSERT_EQ(examined.result.culprits.size(), 1U);
    EXPECT_EQ(examined.NodeOf(0), "bend");
    EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
  }
}

TEST(ValuesTest, QuantisedTensorStandsForFloatsWithItsScale) {
  const Examined examined = ExamineProducts(Way::kQuantised, 0.2F, kPlain);
  const AlignedEntry& entry = examined.Entry("x_q");
  ASSERT_EQ(entry.matches.size(), 1U);
  EXPECT_EQ(examined.network->value(entry.matches[0].value).name, "x");
  ASSERT_TRUE(entry.matches[0].layout.quantisation.has_value());
  EXPECT_NEAR(entry.matches[0].layout.quantisation->scale, 2.0 / 255, 1e-4);
  EXPECT_EQ(entry.matches[0].layout.quantisation->zero_point, 128);
  EXPECT_THAT(entry.matches[0].layout.text,
              HasSubstr("quantised, scale 0.0078"));
}

// Two products of one tensor, and their sum; or one product with the weights of
// both side by side, which is divided.
Network TwoProducts(bool is_joined, float factor) {
  NetBuilder b;
  const ValueId x = b.In("x", {6, 12});
  const NDArray v = Drawn("v", {12, 8});
  NDArray w = Drawn("w", {12, 8});
  for (int64_t i = 0; i < CountOf(w); ++i) w.As<float>()[i] *= factor;
  std::vector<ValueId> parts;
  if (is_joined) {
    NDArray both = Drawn("both", {12, 16});
    for (int64_t i = 0; i < 12 * 16; ++i) {
      const NDArray& from = i % 16 < 8 ? v : w;
      both.As<float>()[i] = from.As<float>()[i / 16 * 8 + i % 8];
    }
    const ValueId j =
        b.Op("MatMul", {x, b.Const("both", both)}, {}, {"j"}, "joined")[0];
    parts = b.Op("Split", {j}, {{"axis", 1}, {"num_outputs", 2}}, {"p", "q"},
                 "divide");
  } else {
    parts = {b.Op("MatMul", {x, b.Const("v", v)}, {}, {"p"}, "first")[0],
             b.Op("MatMul", {x, b.Const("w", w)}, {}, {"q"}, "second")[0]};
  }
  const ValueId q = b.Op("Tanh", {parts[1]}, {}, {"t"}, "bend")[0];
  b.Out({b.Op("Add", {parts[0], q}, {}, {"y"}, "sum")[0]});
  return std::move(b.net);
}

TEST(ValuesTest, JoinedTensorsAreFoundInOneEntry) {
  const Examined examined =
      ExamineBeside(TwoProducts(false, 1), TwoProducts(true, 1),
                    {{"x", Drawn("x", {6, 12})}}, kPlain);
  const AlignedEntry& entry = examined.Entry("joined");
  ASSERT_EQ(entry.matches.size(), 2U);
  EXPECT_TRUE(entry.matches[0].is_joined);
  EXPECT_EQ(examined.network->value(entry.matches[0].value).name, "p");
  EXPECT_EQ(examined.network->value(entry.matches[1].value).name, "q");
  EXPECT_EQ(entry.matches[0].layout.text, "joined along side 1");
  EXPECT_EQ(examined.StateOf("joined"), EntryState::kHealthy);
  EXPECT_THAT(examined.result.culprits, IsEmpty());
}

TEST(ValuesTest, SmallErrorInAPartOfAJoinedTensorIsNamed) {
  const Examined examined =
      ExamineBeside(TwoProducts(false, 1), TwoProducts(true, 1.002F),
                    {{"x", Drawn("x", {6, 12})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "joined");
  EXPECT_THAT(examined.Operations(0), ElementsAre("second"));
}

TEST(ValuesTest, PartsOfATensorAreFound) {
  // The other way round: the tensor is one in the source.
  const Examined examined =
      ExamineBeside(TwoProducts(true, 1), TwoProducts(false, 1),
                    {{"x", Drawn("x", {6, 12})}}, kPlain);
  EXPECT_THAT(examined.result.culprits, IsEmpty());
  const AlignedEntry& entry = examined.Entry("first");
  ASSERT_FALSE(entry.matches.empty());
  EXPECT_EQ(examined.network->value(entry.matches[0].value).name, "p");
}

Network PartOfOne(bool is_small) {
  NetBuilder b;
  const ValueId x = b.In("x", {6, 12});
  const NDArray wide = Drawn("wide", {12, 16});
  NDArray small = Drawn("small", {12, 4});
  for (int64_t i = 0; i < 12 * 4; ++i) {
    small.As<float>()[i] = wide.As<float>()[i / 4 * 16 + 8 + i % 4];
  }
  ValueId p{};
  if (is_small) {
    p = b.Op("MatMul", {x, b.Const("small", small)}, {}, {"p"}, "product")[0];
    p = b.Op("Tanh", {p}, {}, {"t"}, "bend")[0];
  } else {
    p = b.Op("MatMul", {x, b.Const("wide", wide)}, {}, {"p"}, "product")[0];
    p = b.Op("Tanh", {p}, {}, {"t"}, "bend")[0];
    const auto at = [&](const std::string& name, int64_t number) {
      return b.Const(name, MakeTensor<int64_t>({1}, {number}, kInt64));
    };
    p = b.Op("Slice", {p, at("begin", 8), at("end", 12), at("side", 1)}, {},
             {"s"}, "part")[0];
  }
  b.Out({b.Op("Softmax", {p}, {}, {"y"}, "last")[0]});
  return std::move(b.net);
}

TEST(ValuesTest, PartThatIsComputedAloneIsFoundInItsWhole) {
  const Examined examined = ExamineBeside(PartOfOne(false), PartOfOne(true),
                                          {{"x", Drawn("x", {6, 12})}}, kPlain);
  EXPECT_THAT(examined.result.culprits, IsEmpty());
  const AlignedEntry& entry = examined.Entry("product");
  ASSERT_EQ(entry.matches.size(), 1U);
  EXPECT_EQ(entry.matches[0].layout.text, "part 8:12 of side 1");
  EXPECT_EQ(examined.StateOf("product"), EntryState::kOnTheWay);
}

// A convolution, whose padding may be wrong, and what needs no certain size.
Network AnySize(const std::vector<int64_t>& pads) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 7, 7});
  const ValueId w = b.Const("w", Drawn("w", {4, 4, 3, 3}));
  const ValueId c = b.Op("Conv", {x, w}, {{"pads", pads}}, {"c"}, "conv")[0];
  const ValueId r = b.Op("LeakyRelu", {c}, {{"alpha", 0.2F}}, {"r"}, "bend")[0];
  const ValueId t = b.Op("Tanh", {r}, {}, {"t"}, "limit")[0];
  const ValueId m = b.Op("GlobalAveragePool", {t}, {}, {"m"}, "mean")[0];
  b.Out({b.Op("Softmax", {m}, {{"axis", 1}}, {"y"}, "last")[0]});
  return std::move(b.net);
}

TEST(ValuesTest, NodeOfTheWrongSizeIsNamedAndWhatFollowsIsJudged) {
  const std::vector<NamedTensor> given = {{"x", Drawn("x", {1, 4, 7, 7})}};
  const Examined examined = ExamineBeside(AnySize({1, 1, 1, 1}),
                                          AnySize({1, 1, 1, 0}), given, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "conv");
  EXPECT_THAT(examined.Operations(0), ElementsAre("conv"));
  EXPECT_THAT(examined.Explanations(0),
              Contains("pads [1, 1, 1, 0] instead of [1, 1, 1, 1]"));
  for (const char* const name : {"bend", "limit", "mean", "last"}) {
    EXPECT_EQ(examined.StateOf(name), EntryState::kHealthy) << name;
  }
}

// A pooling whose second output numbers the places of the first one's.
Network Places(int64_t order) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2, 6, 6});
  const std::vector<ValueId> pooled =
      b.Op("MaxPool", {x},
           {{"kernel_shape", std::vector<int64_t>{2, 2}},
            {"strides", std::vector<int64_t>{2, 2}},
            {"storage_order", order}},
           {"p", "places"}, "pool");
  const ValueId r = b.Op("Tanh", {pooled[0]}, {}, {"r"}, "bend")[0];
  const ValueId f =
      b.Op("Cast", {pooled[1]}, {{"to", int64_t{1}}}, {"f"}, "floats")[0];
  b.Out({b.Op("Add", {r, f}, {}, {"y"}, "sum")[0]});
  return std::move(b.net);
}

TEST(ValuesTest, NodeThatIsWrongInItsSecondOutputAloneIsNamed) {
  const Examined examined = ExamineBeside(
      Places(0), Places(1), {{"x", Drawn("x", {1, 2, 6, 6})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "pool");
  EXPECT_THAT(examined.Operations(0), ElementsAre("pool"));
  const GraphIndex& index = examined.target->index();
  EXPECT_EQ(index.OutputOf(examined.result.culprits[0].entry), 1U);
}

// What is above zero; NaN may become 0.
Network AboveZero(bool keeps_nan) {
  NetBuilder b;
  const ValueId x = b.In("x", {8, 8});
  const ValueId zero = b.Const("zero", MakeTensor<float>({}, {0}));
  ValueId r{};
  if (keeps_nan) {
    r = b.Op("Relu", {x}, {}, {"r"}, "bend")[0];
  } else {
    const ValueId above = b.Op("Greater", {x, zero}, {}, {"above"}, "ask")[0];
    r = b.Op("Where", {above, x, zero}, {}, {"r"}, "bend")[0];
  }
  const ValueId s = b.Op("Tanh", {r}, {}, {"s"}, "limit")[0];
  b.Out({b.Op("Add", {s, b.Const("one", MakeTensor<float>({}, {1}))}, {}, {"y"},
              "sum")[0]});
  return std::move(b.net);
}

TEST(ValuesTest, FaultThatOnlyNanShowsIsNamedWithTheInputsThatShowIt) {
  std::vector<NamedTensor> given = {{"x", Drawn("x", {8, 8})}};
  EXPECT_THAT(ExamineBeside(AboveZero(true), AboveZero(false), given, kPlain)
                  .result.culprits,
              IsEmpty());
  given = WithSpecialNumbers(given, 5).value();
  const Examined examined =
      ExamineBeside(AboveZero(true), AboveZero(false), given, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  // The last of the nodes that one operation became, and the other one.
  EXPECT_EQ(examined.NodeOf(0), "bend");
  ASSERT_EQ(examined.result.culprits[0].parts.size(), 1U);
  EXPECT_EQ(
      examined.target->index().KeyOf(examined.result.culprits[0].parts[0]),
      "ask");
  EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
  EXPECT_FALSE(examined.result.culprits[0].differs_in_finite);
  EXPECT_FALSE(examined.result.culprits[0].sets.empty());
}

TEST(SimilarInputsTest, SpecialNumbersAreFewAndInFloatsAlone) {
  const NDArray floats = Drawn("f", {640});
  const NDArray numbers = MakeTensor<int64_t>({3}, {4, 9, 9}, kInt64);
  const auto special = WithSpecialNumbers({{{"f", floats}, {"n", numbers}}}, 3);
  ASSERT_THAT(special, IsOk());
  EXPECT_TRUE(HaveSameBits((*special)[1].tensor, numbers));
  int nans = 0;
  int infinities = 0;
  for (int i = 0; i < 640; ++i) {
    const float number = (*special)[0].tensor.As<float>()[i];
    nans += std::isnan(number) ? 1 : 0;
    infinities += std::isinf(number) ? 1 : 0;
  }
  EXPECT_GT(nans, 0);
  EXPECT_LE(nans, 10);
  EXPECT_GT(infinities, 0);
  EXPECT_LE(infinities, 20);
}

}  // namespace
}  // namespace nodewise
