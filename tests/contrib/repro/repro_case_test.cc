#include "nodewise/repro/repro_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "contrib/repro/cut_graph.h"
#include "nodewise/support/words.h"
#include "tests/contrib/repro/repro_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

NDArray Wave(const std::vector<int64_t>& shape) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (size_t i = 0; i < tensor.bytes() / sizeof(float); ++i) {
    tensor.As<float>()[i] = std::sin(0.7F * static_cast<float>(i + 1));
  }
  return tensor;
}

// x -> product (MatMul and Add in one node) -> halves (Split).
Lowered SplitProduct() {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId w = b.Const("w", Wave({6, 8}));
  const ValueId bias = b.Const("bias", Wave({8}));
  ValueId y = b.Op("MatMul", {x, w}, {}, {"m"}, "product")[0];
  y = b.Op("Add", {y, bias}, {}, {"a"}, "sum")[0];
  b.Out(b.Op("Split", {y}, {{"axis", 1}, {"num_outputs", 2}}, {"l", "r"},
             "halves"));
  return Lower(b.net, "net").value();
}

TEST(ReproCaseTest, ANodeComesWithWhatItReadAndMade) {
  const Lowered net = SplitProduct();
  const auto cases = CasesOf(net, ReferenceFunctions(), {"sum", "halves"},
                             {{"x", Wave({4, 6})}});
  ASSERT_THAT(cases, IsOk());
  ASSERT_THAT(*cases, SizeIs(2));
  const ReproCase& sum = (*cases)[0];
  ASSERT_THAT(sum.inputs, SizeIs(3));
  EXPECT_EQ(sum.inputs[0].name, "input_A_sum");
  EXPECT_EQ(sum.inputs[1].name, "input_B_sum");
  EXPECT_EQ(sum.inputs[2].name, "input_B_2_sum");
  EXPECT_FALSE(sum.inputs[0].is_param);
  EXPECT_TRUE(sum.inputs[1].is_param);
  EXPECT_TRUE(HaveSameBits(sum.inputs[0].tensor, Wave({4, 6})));
  EXPECT_EQ(sum.FindWrong(), nullptr);
  const ReproCase& halves = (*cases)[1];
  ASSERT_THAT(halves.outputs, SizeIs(2));
  EXPECT_TRUE(HaveSameBits(halves.inputs[0].tensor, sum.outputs[0].candidate));
  EXPECT_EQ(halves.graph.nodes.back().name, "halves");
}

TEST(ReproCaseTest, TheOutputThatIsWrongIsFound) {
  const auto library = MakeRef<SpoilingLibrary>(
      ReferenceFunctions(), "split", [](absl::Span<const DLTensor* const> t) {
        static_cast<float*>(t[2]->data)[3] += 1;
      });
  const auto cases =
      CasesOf(SplitProduct(), library, {"halves"}, {{"x", Wave({4, 6})}});
  ASSERT_THAT(cases, IsOk());
  const ReproCase& halves = (*cases)[0];
  ASSERT_NE(halves.FindWrong(), nullptr);
  EXPECT_EQ(halves.FindWrong(), &halves.outputs[1]);
  EXPECT_EQ(halves.outputs[1].limits[3], 0);  // A Split is exact.
}

TEST(ReproCaseTest, ANodeThatIsNotThereIsAnError) {
  const Lowered net = SplitProduct();
  EXPECT_THAT(
      CasesOf(net, ReferenceFunctions(), {"x"}, {{"x", Wave({4, 6})}}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("is an input")));
}

TEST(ReproCaseTest, NodesThatComputeTheSameCountOnce) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 4});
  const ValueId one = b.Op("Softmax", {x}, {}, {"a"}, "one")[0];
  const ValueId two = b.Op("Softmax", {one}, {}, {"b"}, "two")[0];
  const ValueId other =
      b.Op("Softmax", {two}, {{"axis", 0}}, {"c"}, "other")[0];
  const ValueId row =
      b.Const("sizes", MakeTensor<int64_t>({2}, {4, 2}, kInt64));
  const ValueId turned = b.Op("Reshape", {other, row}, {}, {"d"}, "turned")[0];
  b.Out({b.Op("Softmax", {turned}, {}, {"e"}, "larger")[0]});
  const Lowered net = Lower(b.net, "net", kPlain).value();
  std::vector<std::string> names;
  for (const NodeId node : DistinctNodes(net.graph, AllOperators())) {
    names.push_back(net.graph.node(node).name);
  }
  EXPECT_THAT(names, ElementsAre("one", "other", "turned", "larger"));
}

TEST(ReproNamesTest, PlainNamesAreSafeEverywhere) {
  EXPECT_EQ(PlainName("conv_1"), "conv_1");
  EXPECT_EQ(PlainName("/a/../b.c $(x)`"), "_a____b_c___x__");
  EXPECT_EQ(PlainName(std::string_view("a\0b\nc", 5)), "a_b_c");
  EXPECT_EQ(PlainName(""), "node");
  EXPECT_EQ(PlainName("../.."), "node");
  EXPECT_EQ(PlainName("\xc3\xa4 1"), "___1");
  EXPECT_THAT(PlainName(std::string(1000, 'a')), SizeIs(60));
}

}  // namespace
}  // namespace nodewise
