// Constants that a compiler misreads, and how the change is said.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/align/operation_edits.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/align/align_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;

std::map<std::string, std::vector<double>> EditsOf(const NDArray& constant) {
  std::map<std::string, std::vector<double>> edits;
  VisitConstantEdits(
      constant, [&](const NDArray& changed, const std::string& what) {
        std::vector<double> numbers(static_cast<size_t>(CountOf(changed)));
        LoadDoubles(changed, 0, CountOf(changed), numbers.data());
        edits[what] = numbers;
        return true;
      });
  return edits;
}

TEST(ConstantEditsTest, MatricesAreMovedAndReadBackwardsAlongTheirFirstSide) {
  const auto edits = EditsOf(MakeTensor<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(edits.at("moved on by one along side 0"),
              ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_THAT(edits.at("moved back by one along side 0"),
              ElementsAre(3, 4, 5, 6, 1, 2));
  EXPECT_THAT(edits.at("read backwards along side 0"),
              ElementsAre(5, 6, 3, 4, 1, 2));
  EXPECT_THAT(edits.at("read backwards"), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(edits.at("moved on by one element"),
              ElementsAre(6, 1, 2, 3, 4, 5));
}

TEST(ConstantEditsTest, IntegersAreOneLargerOrSmallerTogetherAndAlone) {
  const auto edits = EditsOf(MakeTensor<int64_t>({3}, {4, 0, 7}, kInt64));
  EXPECT_THAT(edits.at("one larger"), ElementsAre(5, 1, 8));
  EXPECT_THAT(edits.at("with element 2 one smaller"), ElementsAre(4, 0, 6));
  EXPECT_THAT(edits.at("read backwards"), ElementsAre(7, 0, 4));
}

TEST(ConstantEditsTest, SidesOfOneLengthAreExchanged) {
  const auto edits = EditsOf(MakeTensor<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(edits.at("with sides 0 and 1 exchanged"),
              ElementsAre(1, 3, 2, 4));
}

TEST(OtherOperatorsTest, AreThoseOfTheFormInTheOrderOfTheTable) {
  Network net("net");
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2, 2})).value();
  const ValueId max = net.Add(AllOperators(), ops::Max(), {x}, "y").value();
  std::vector<std::string_view> names;
  for (const OpAttrs& other : OtherOperators(
           net, net.operation(net.value(max).producer), AllOperators())) {
    names.push_back(other.def().name);
  }
  EXPECT_THAT(names, ElementsAre("Min", "Sum", "Mean"));
}

// A product, and a few of its columns.
struct Constants {
  NDArray weights = Drawn("w", {6, 8});
  std::vector<int64_t> columns = {4, 2, 0, 1, 5};
};
Network Columns(const Constants& constants = {}) {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId w = b.Const("w", constants.weights);
  const ValueId m = b.Op("MatMul", {x, w}, {}, {"m"}, "product")[0];
  const ValueId i =
      b.Const("i", MakeTensor<int64_t>({5}, constants.columns, kInt64));
  const ValueId g = b.Op("Gather", {m, i}, {{"axis", 1}}, {"g"}, "choose")[0];
  b.Out(b.Op("Sigmoid", {g}, {}, {"y"}, "last"));
  return std::move(b.net);
}

void ExpectExplained(const Constants& constants, const std::string& node,
                     const std::string& what) {
  const Examined examined = ExamineBeside(Columns(), Columns(constants),
                                          {{"x", Drawn("x", {4, 6})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), node);
  EXPECT_THAT(examined.Operations(0), ElementsAre(node));
  EXPECT_THAT(examined.Explanations(0), Contains(what));
}

TEST(ConstantEditsTest, WeightsMovedAlongTheirFirstSideAreExplained) {
  Constants constants;
  float* const begin = constants.weights.As<float>();
  std::rotate(begin, begin + 8, begin + 48);
  ExpectExplained(constants, "product", "w moved back by one along side 0");
}

TEST(ConstantEditsTest, IndicesThatAreOneTooLargeAreExplained) {
  ExpectExplained({.columns = {5, 3, 1, 2, 6}}, "choose", "i one larger");
  ExpectExplained({.columns = {4, 2, 1, 1, 5}}, "choose",
                  "i with element 2 one larger");
}

TEST(ConstantEditsTest, FactorThatIsFoundIsSaidInFewDigits) {
  Constants constants;
  for (int64_t i = 0; i < CountOf(constants.weights); ++i) {
    constants.weights.As<float>()[i] *= -3;
  }
  ExpectExplained(constants, "product", "w times -3");
}

}  // namespace
}  // namespace nodewise
