#include <cmath>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "tests/contrib/ops/eval_support.h"

// The bounds of single elements against those of all.

namespace nodewise {
namespace {

struct ElementCase {
  const char* what;
  OpSetup operation;
  std::vector<Ints> shapes;
  DLDataType dtype = kFloat32;
};

std::vector<ElementCase> AllCases() {
  return {
      {"vectors", {"MatMul"}, {{7}, {7}}},
      {"matrices", {"MatMul"}, {{5, 40}, {40, 70}}},
      {"many by one", {"MatMul"}, {{2, 3, 5, 4}, {4, 6}}},
      {"many by many", {"MatMul"}, {{2, 1, 5, 4}, {3, 4, 6}}},
      {"nothing to add up", {"MatMul"}, {{2, 0}, {0, 3}}},
      {"half precision", {"MatMul"}, {{3, 20}, {20, 4}}, kFloat16},
      {"Gemm",
       {"Gemm", kNewestOpset, {Real("alpha", -2), Real("beta", 0.5F)}},
       {{5, 40}, {40, 7}, {7}}},
      {"Gemm of the other sides",
       {"Gemm", kNewestOpset, {Attr("transA", 1), Attr("transB", 1)}},
       {{40, 5}, {7, 40}}},
      {"old Gemm", {"Gemm", 6, {Attr("broadcast", 1)}}, {{5, 4}, {4, 7}, {7}}},
      {"pointwise", {"Conv"}, {{2, 30, 9, 8}, {4, 30, 1, 1}, {4}}},
      {"padded, in groups",
       {"Conv",
        kNewestOpset,
        {Attr("group", 2),
         {"pads", Ints{1, 2, 0, 1}},
         {"strides", Ints{2, 1}},
         {"dilations", Ints{1, 2}}}},
       {{2, 6, 9, 8}, {4, 3, 3, 3}, {4}}},
      {"along one side", {"Conv"}, {{1, 3, 200}, {2, 3, 5}}},
      {"probabilities", {"Softmax"}, {{3, 4, 50}}},
      {"probabilities of columns",
       {"Softmax", kNewestOpset, {Attr("axis", 1)}},
       {{2, 9, 70}}},
      {"probabilities of many sides", {"Softmax", 11}, {{3, 4, 50}}},
      {"probabilities in half precision", {"Softmax"}, {{5, 2000}}, kBfloat16},
      {"logarithms of probabilities",
       {"LogSoftmax", kNewestOpset, {Attr("axis", 0)}},
       {{30, 7}}},
      {"normalized rows", {"LayerNormalization"}, {{3, 4, 50}, {50}, {50}}},
      {"normalized rows without a bias",
       {"LayerNormalization", kNewestOpset, {Attr("axis", 1)}},
       {{3, 4, 50}, {1}}},
      {"normalized rows with numbers of their own",
       {"LayerNormalization"},
       {{3, 4, 50}, {3, 1, 50}, {4, 1}},
       kFloat16},
      {"root mean square", {"RMSNormalization"}, {{6, 40}, {40}}, kFloat16},
  };
}

std::vector<NDArray> DrawInputs(const ElementCase& one) {
  std::vector<NDArray> inputs;
  RandomSource source(1, one.what);
  for (const Ints& shape : one.shapes) {
    inputs.push_back(RandomTensor(source, shape, one.dtype).value());
  }
  return inputs;
}

TEST(ElementBoundsTest, AreThoseThatAllHave) {
  for (const ElementCase& one : AllCases()) {
    SCOPED_TRACE(one.what);
    const std::vector<NDArray> inputs = DrawInputs(one);
    const auto all = EvaluateAll(one.operation, inputs, true);
    ASSERT_THAT(all, IsOk());
    const NDArray& output = all->outputs[0];
    Ints elements;
    for (int64_t i = 0; i < CountOf(output); i += 1 + i % 3) {
      elements.push_back(i);
    }
    const auto some =
        BoundsAt(*one.operation.Make(), Tensors(inputs.begin(), inputs.end()),
                 output, elements);
    ASSERT_THAT(some, IsOk());
    ASSERT_TRUE(some->has_value());
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto at = static_cast<size_t>(elements[i]);
      const double proved = all->bounds[0].proved[at];
      const double expected = all->bounds[0].expected[at];
      EXPECT_NEAR((*some)->proved[i], proved, 1e-12 * proved) << at;
      EXPECT_NEAR((*some)->expected[i], expected, 1e-12 * expected) << at;
    }
  }
}

TEST(ElementBoundsTest, LeastBoundsAreBelowThem) {
  for (const ElementCase& one : AllCases()) {
    SCOPED_TRACE(one.what);
    const std::vector<NDArray> inputs = DrawInputs(one);
    const auto all = EvaluateAll(one.operation, inputs, true);
    const auto least = LeastBoundsOf(*one.operation.Make(),
                                     Tensors(inputs.begin(), inputs.end()));
    ASSERT_THAT(all, IsOk());
    ASSERT_TRUE(least.has_value());
    EXPECT_GE(least->roundoffs, one.shapes[0].back() == 0 ? 0 : 1);
    const std::vector<double> values = ToDoubles(all->outputs[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      const double bound =
          least->roundoffs * UnitRoundoff(one.dtype) * std::fabs(values[i]);
      EXPECT_LE(bound, all->bounds[0].proved[i]) << i;
      EXPECT_LE(bound, all->bounds[0].expected[i]) << i;
    }
  }
}

TEST(ElementBoundsTest, OtherOperatorsHaveNone) {
  const OpSetup norm{"LpNormalization"};
  const NDArray x = Matrix();
  const auto some = BoundsAt(*norm.Make(), {x}, x, Ints{0});
  ASSERT_THAT(some, IsOk());
  EXPECT_FALSE(some->has_value());
  EXPECT_FALSE(LeastBoundsOf(*norm.Make(), {x}).has_value());
}

}  // namespace
}  // namespace nodewise
