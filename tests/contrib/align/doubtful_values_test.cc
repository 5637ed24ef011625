// What is named where the values say little: branches that are alike, results
// that are one number, tensors of one element, and tensors that stand where
// others should.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nodewise/align/build_network.h"
#include "nodewise/align/similar_inputs.h"
#include "tests/contrib/align/align_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<NamedAttr> kPads = {
    {"pads", std::vector<int64_t>{1, 1, 1, 1}}};

// Two branches that are alike up to `ta` and `tb`, and what is made of them.
struct Bends {
  std::string a = "Tanh";
  std::string b = "Tanh";
  std::string last = "Sigmoid";
};
Network Branches(const Bends& bends = {}) {
  NetBuilder n;
  const ValueId x = n.In("x", {4, 8});
  const ValueId m =
      n.Op("MatMul", {x, n.Const("w", Drawn("w", {8, 8}))}, {}, {"m"}, "m")[0];
  const ValueId a = n.Op(bends.a, {m}, {}, {"ta"}, "bend_a")[0];
  const ValueId b = n.Op(bends.b, {m}, {}, {"tb"}, "bend_b")[0];
  const ValueId q =
      n.Op("MatMul", {b, n.Const("v", Drawn("v", {8, 8}))}, {}, {"q"}, "q")[0];
  const ValueId p = n.Op("Mul", {a, q}, {}, {"p"}, "p")[0];
  n.Out(n.Op(bends.last, {p}, {}, {"y"}, "last"));
  return std::move(n.net);
}

Examined ExamineBranches(const Bends& bends) {
  return ExamineBeside(Branches(), Branches(bends), {{"x", Drawn("x", {4, 8})}},
                       kPlain);
}

TEST(BranchesTest, SoundBranchesThatAreAlikeAccuseNoNode) {
  EXPECT_THAT(ExamineBranches({}).result.culprits, IsEmpty());
}

TEST(BranchesTest, FaultInOneOfThemIsNamedAndNotTheProductBehind) {
  const Examined a = ExamineBranches({.a = "Sigmoid"});
  ASSERT_EQ(a.result.culprits.size(), 1U);
  EXPECT_EQ(a.NodeOf(0), "bend_a");
  EXPECT_THAT(a.Operations(0), ElementsAre("bend_a"));
  const Examined b = ExamineBranches({.b = "Sigmoid"});
  ASSERT_EQ(b.result.culprits.size(), 1U);
  EXPECT_EQ(b.NodeOf(0), "bend_b");
  EXPECT_THAT(b.Operations(0), ElementsAre("bend_b"));
}

TEST(BranchesTest, SecondFaultBehindOneOfThemIsNamedToo) {
  const Examined examined = ExamineBranches({.a = "Sigmoid", .last = "Tanh"});
  ASSERT_EQ(examined.result.culprits.size(), 2U);
  EXPECT_EQ(examined.NodeOf(0), "bend_a");
  EXPECT_EQ(examined.NodeOf(1), "last");
}

TEST(BranchesTest, FaultsInBothAreNamed) {
  const Examined examined = ExamineBranches({.a = "Sigmoid", .b = "Erf"});
  ASSERT_EQ(examined.result.culprits.size(), 2U);
  EXPECT_EQ(examined.NodeOf(0), "bend_a");
  EXPECT_EQ(examined.NodeOf(1), "bend_b");
}

// The sum of both, whose values do not tell one from the other.
Network Sum(const std::string& a) {
  NetBuilder n;
  const ValueId x = n.In("x", {4, 8});
  const ValueId ta = n.Op(a, {x}, {}, {"ta"}, "bend_a")[0];
  const ValueId tb = n.Op("Tanh", {x}, {}, {"tb"}, "bend_b")[0];
  const ValueId s = n.Op("Add", {ta, tb}, {}, {"s"}, "sum")[0];
  n.Out(n.Op("Exp", {s}, {}, {"y"}, "last"));
  return std::move(n.net);
}

TEST(BranchesTest, WhatTheValuesCannotTellApartIsNamedTogether) {
  const Examined examined = ExamineBeside(Sum("Tanh"), Sum("Sigmoid"),
                                          {{"x", Drawn("x", {4, 8})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "bend_a");
  EXPECT_EQ(examined.result.culprits[0].alike.size(), 1U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("bend_a", "bend_b"));
}

// Two convolutions with Relu, and a third that adds the input.
Network Convs(float second_bias, const std::string& last = "Relu") {
  NetBuilder n;
  const ValueId x = n.In("x", {1, 4, 6, 6});
  const auto conv = [&](ValueId from, const std::string& name, NDArray bias) {
    std::vector<ValueId> inputs = {
        from, n.Const(name + "_w", Drawn(name, {4, 4, 3, 3}))};
    if (bias.defined()) inputs.push_back(n.Const(name + "_b", bias));
    return n.Op("Conv", inputs, kPads, {name}, name)[0];
  };
  const ValueId c1 = conv(x, "c1", Drawn("b1", {4}));
  const ValueId r1 = n.Op("Relu", {c1}, {}, {"r1"}, "r1")[0];
  const ValueId c2 = conv(
      r1, "c2", MakeTensor<float>({4}, std::vector<float>(4, second_bias)));
  const ValueId r2 = n.Op("Relu", {c2}, {}, {"r2"}, "r2")[0];
  const ValueId c3 = conv(r2, "c3", NDArray());
  const ValueId sum = n.Op("Add", {c3, x}, {}, {"e"}, "e")[0];
  const ValueId r3 = n.Op(last, {sum}, {}, {"r3"}, "r3")[0];
  n.Out(n.Op("GlobalAveragePool", {r3}, {}, {"y"}, "mean"));
  return std::move(n.net);
}

Examined ExamineConvs(const Network& meant, const Network& compiled,
                      const LowerOptions& options) {
  return ExamineBeside(meant, compiled, {{"x", Drawn("x", {1, 4, 6, 6})}},
                       options);
}

TEST(OneNumberTest, ReluThatAFaultMakesZerosIsNotTheNodeBehindIt) {
  for (const LowerOptions& options : {LowerOptions{}, kPlain}) {
    const Examined examined = ExamineConvs(Convs(0.5F), Convs(-900), options);
    ASSERT_EQ(examined.result.culprits.size(), 1U);
    EXPECT_THAT(examined.Operations(0), Contains("c2"));
  }
}

TEST(OneNumberTest, FaultBehindAReluThatIsZerosIsNamedAlone) {
  const Examined examined =
      ExamineConvs(Convs(-900), Convs(-900, "Tanh"), kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "r3");
  EXPECT_THAT(examined.Operations(0), ElementsAre("r3"));
}

// A product of two numbers, as a gate of something larger.
Network Gate(const std::string& kind) {
  NetBuilder n;
  const ValueId a = n.In("a", {1});
  const ValueId b = n.In("b", {1});
  const ValueId x = n.In("x", {5, 7});
  const ValueId p = n.Op(kind, {a, b}, {}, {"p"}, "p")[0];
  const ValueId e = n.Op("Exp", {p}, {}, {"e"}, "e")[0];
  n.Out(n.Op("Mul", {x, e}, {}, {"y"}, "gate"));
  return std::move(n.net);
}

TEST(OneElementTest, WhatIsTheSameWithTheGivenNumbersIsToldApartWithOthers) {
  const std::vector<NamedTensor> given = {{"a", MakeTensor<float>({1}, {1.5F})},
                                          {"b", MakeTensor<float>({1}, {1})},
                                          {"x", Drawn("x", {5, 7})}};
  EXPECT_THAT(
      ExamineBeside(Gate("Mul"), Gate("Mul"), given, kPlain).result.culprits,
      IsEmpty());
  const Examined examined =
      ExamineBeside(Gate("Mul"), Gate("Div"), given, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "p");
  EXPECT_THAT(examined.result.culprits[0].sets, ElementsAre(1));
}

TEST(OneElementTest, FloatsOfOneNumberAreDrawnAroundIt) {
  const auto drawn =
      DrawSimilar({{"one", MakeTensor<float>({1}, {-3})},
                   {"many", MakeTensor<float>({4}, {2, 2, 2, 2})},
                   {"zero", MakeTensor<float>({2}, {0, 0})},
                   {"mask", MakeTensor<float>({6}, {0, 1, 1, 0, 1, 1})},
                   {"number", MakeTensor<int64_t>({1}, {7}, kInt64)}},
                  5);
  ASSERT_THAT(drawn, IsOk());
  const float one = (*drawn)[0].tensor.As<float>()[0];
  EXPECT_NE(one, -3);
  EXPECT_THAT(one, testing::AllOf(testing::Ge(-4.5F), testing::Le(-1.5F)));
  const std::vector<float> many = ValuesOf((*drawn)[1].tensor);
  EXPECT_NE(many[0], many[1]);
  for (const float zero : ValuesOf((*drawn)[2].tensor)) {
    EXPECT_THAT(zero, testing::AllOf(testing::Ge(0), testing::Le(1)));
  }
  EXPECT_THAT(ValuesOf((*drawn)[3].tensor),
              testing::Each(testing::AnyOf(0, 1)));
  EXPECT_EQ((*drawn)[4].tensor.As<int64_t>()[0], 7);
}

// Both parts of the input, bent, and their product.
Network Halves(bool is_exchanged) {
  NetBuilder n;
  const ValueId x = n.In("x", {4, 8});
  std::vector<ValueId> halves =
      n.Op("Split", {x}, {{"axis", 1}}, {"p", "q"}, "split");
  if (is_exchanged) std::swap(halves[0], halves[1]);
  const ValueId t = n.Op("Tanh", {halves[0]}, {}, {"t"}, "bend_p")[0];
  const ValueId s = n.Op("Sigmoid", {halves[1]}, {}, {"s"}, "bend_q")[0];
  n.Out(n.Op("Mul", {t, s}, {}, {"y"}, "product"));
  return std::move(n.net);
}

TEST(ExchangedTest, OutputsThatAreExchangedAreNamedAndNotTheirReaders) {
  const Examined examined = ExamineBeside(Halves(false), Halves(true),
                                          {{"x", Drawn("x", {4, 8})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "split");
  EXPECT_TRUE(examined.result.culprits[0].is_exchanged);
}

// Which is larger, chooses; and two nodes read what is chosen.
Network Choices(const std::string& first) {
  NetBuilder n;
  const ValueId a = n.In("a", {4, 8});
  const ValueId b = n.In("b", {4, 8});
  const ValueId c = n.Const("c", Drawn("c", {4, 8}));
  const ValueId g = n.Op(first, {a, b}, {}, {"g"}, "first")[0];
  const ValueId l = n.Op("Less", {a, b}, {}, {"l"}, "second")[0];
  const ValueId w1 = n.Op("Where", {g, a, c}, {}, {"w1"}, "choose")[0];
  const ValueId w2 = n.Op("Where", {l, b, c}, {}, {"w2"}, "choose_too")[0];
  n.Out(n.Op("Add", {w1, w2}, {}, {"y"}, "sum"));
  return std::move(n.net);
}

TEST(ExchangedTest, NodeThatMakesAnotherTensorOfTheModelIsNamed) {
  const Examined examined = ExamineBeside(
      Choices("Greater"), Choices("Less"),
      {{"a", Drawn("a", {4, 8})}, {"b", Drawn("b", {4, 8})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "first");
  EXPECT_THAT(examined.Operations(0), ElementsAre("first"));
}

Network Bent(float slope) {
  NetBuilder n;
  const ValueId x = n.In("x", {1, 4, 6, 6});
  const ValueId w = n.Const("w", Drawn("w", {4, 4, 3, 3}));
  const ValueId c = n.Op("Conv", {x, w}, kPads, {"c"}, "conv")[0];
  const ValueId r =
      n.Op("LeakyRelu", {c}, {{"alpha", slope}}, {"r"}, "bend")[0];
  n.Out(n.Op("GlobalAveragePool", {r}, {}, {"y"}, "mean"));
  return std::move(n.net);
}

TEST(PartsTest, NodesThatOneOfAFusedBuildStandsForAreNamedTogether) {
  Lowered lowered = Lower(Bent(0.2F), "net", {}).value();
  const auto fused =
      GraphTarget::FromArtefact(
          "net",
          {std::move(lowered.graph), BuiltInFunctions(AllOperators()),
           Params{std::move(lowered.params)}},
          {kCpu})
          .value();
  const auto network = NetworkOfBuild(fused);
  ASSERT_THAT(network, IsOk());
  const Examined examined = ExamineBeside(
      *network, Bent(0.35F), {{"x", Drawn("x", {1, 4, 6, 6})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "bend");
  const std::vector<NodeId>& parts = examined.result.culprits[0].parts;
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(examined.target->index().KeyOf(parts[0]), "conv");
}

Network Largest(int64_t are_largest) {
  NetBuilder n;
  const ValueId x = n.In("x", {4, 8});
  const ValueId k = n.Const("k", MakeTensor<int64_t>({1}, {3}, kInt64));
  const auto top =
      n.Op("TopK", {x, k}, {{"largest", are_largest}}, {"v", "i"}, "top");
  const ValueId f =
      n.Op("Cast", {top[1]}, {{"to", int64_t{1}}}, {"f"}, "cast")[0];
  n.Out(n.Op("Mul", {top[0], f}, {}, {"y"}, "product"));
  return std::move(n.net);
}

TEST(PartsTest, NodeWithTwoWrongOutputsIsNamedOnce) {
  const Examined examined = ExamineBeside(Largest(1), Largest(0),
                                          {{"x", Drawn("x", {4, 8})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "top");
}

Network TwoInputs(const std::string& first, const std::string& second) {
  NetBuilder n;
  const ValueId a = n.In(first, {2});
  const ValueId b = n.In(second, {2});
  n.Out(n.Op("Add", {a, b}, {}, {"y"}, "sum"));
  return std::move(n.net);
}

TEST(PairsTest, InputsThatHaveNoNameInCommonArePairedByTheirPlace) {
  const Network build = TwoInputs("in_0", "p1");
  const Network source = TwoInputs("in.0", "mask");
  const auto compiled = ListInputs(build);
  const auto model = ListInputs(source);
  const auto pairs = PairInputs(*compiled, *model);
  ASSERT_THAT(pairs, IsOk());
  EXPECT_THAT(*pairs, ElementsAre(0, 1));
  EXPECT_THAT(PairsByPlace(*compiled, *model, *pairs), ElementsAre(1));
}

// A matrix is transposed and bent by what may be one node; and an output that
// does not depend on inputs.
struct Ends {
  std::vector<int64_t> perm = {1, 0};
  float constant = 1;
  bool has_product = true;
};
Network Turned(const Ends& ends, int64_t columns) {
  NetBuilder n;
  const ValueId x = n.In("x", {6, 8});
  const ValueId w = n.Const("w", Drawn("w", {8, columns}));
  const ValueId m = n.Op("MatMul", {x, w}, {}, {"m"}, "m")[0];
  const ValueId t =
      n.Op("Transpose", {m}, {{"perm", ends.perm}}, {"t"}, "turn")[0];
  ValueId y = n.Op("Tanh", {t}, {}, {"r"}, "bend")[0];
  if (ends.has_product) {
    y = n.Op("MatMul", {y, n.Const("u", Drawn("u", {6, 3}))}, {}, {"y"},
             "last")[0];
  }
  NDArray k = Drawn("k", {3});
  for (int64_t i = 0; i < 3; ++i) k.As<float>()[i] *= ends.constant;
  const ValueId c = n.Op("Exp", {n.Const("k", k)}, {}, {"e"}, "constant")[0];
  n.Out({y, c});
  return std::move(n.net);
}

Examined ExamineTurned(const Ends& ends, int64_t columns,
                       const LowerOptions& options = kPlain) {
  return ExamineBeside(Turned({.has_product = ends.has_product}, columns),
                       Turned(ends, columns), {{"x", Drawn("x", {6, 8})}},
                       options);
}

TEST(TurnedTest, WrongOrderInAFusedNodeIsNotItsReader) {
  EXPECT_THAT(ExamineTurned({}, 6).result.culprits, IsEmpty());
  EXPECT_THAT(ExamineTurned({}, 6, {}).result.culprits, IsEmpty());
  const Examined examined = ExamineTurned({.perm = {0, 1}}, 6, {});
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("turn"));
}

TEST(TurnedTest, OutputOfAnotherShapeIsNotALayout) {
  EXPECT_THAT(ExamineTurned({.has_product = false}, 5).result.culprits,
              IsEmpty());
  const Ends wrong = {.perm = {0, 1}, .has_product = false};
  const Examined plain = ExamineTurned(wrong, 5);
  ASSERT_EQ(plain.result.culprits.size(), 1U);
  EXPECT_EQ(plain.NodeOf(0), "turn");
  EXPECT_THAT(plain.Operations(0), ElementsAre("turn"));
  const Examined fused = ExamineTurned(wrong, 5, {});
  ASSERT_EQ(fused.result.culprits.size(), 1U);
  EXPECT_THAT(fused.Operations(0), Contains("turn"));
}

TEST(TurnedTest, OutputThatNoInputChangesIsCompared) {
  const Examined examined = ExamineTurned({.constant = 1.5F}, 6);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "constant");
  EXPECT_THAT(examined.Operations(0), ElementsAre("constant"));
}

}  // namespace
}  // namespace nodewise
