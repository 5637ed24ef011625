#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(EvaluateTest, AnInputThatIsMissingIsNamedWithItsOperator) {
  for (const std::vector<NDArray>& inputs :
       {std::vector<NDArray>{Floats({1})}, {Floats({1}), NDArray()}}) {
    EXPECT_THAT(EvaluateOne({"MatMul"}, inputs),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr("MatMul: input 1 (B) is not given")));
  }
}

TEST(EvaluateTest, NoOperatorReadsInputsThatAreNotThere) {
  for (const OperatorDef* def : AllOperators().rows()) {
    if (def->min_inputs() == 0) continue;
    const OpAttrs attrs = OpAttrs::Defaults(*def);
    const auto result = Evaluate(attrs, {}, {true});
    EXPECT_THAT(result, FailsWith(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("input 0")))
        << def->name;
  }
}

TEST(EvaluateTest, MoreOutputsThanThereAreAreRefused) {
  EXPECT_THAT(EvaluateAll({"Relu", 14, {}, 2}, {Floats({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("Relu: 2 outputs are wanted, expected 1")));
}

// Elementwise operators write over an input that nothing else holds.
TEST(EvaluateTest, OutputsMayTakeTheMemoryOfInputsThatAreGivenAway) {
  for (const char* kind : {"Tanh", "Add", "Erf", "Softmax"}) {
    std::vector<NDArray> inputs = {Floats({1, -2, 3})};
    if (std::string(kind) == "Add") inputs.push_back(Floats({0.5F}));
    const void* const memory = inputs[0].data();
    const auto apart = ElementsOf({kind, 13}, inputs);
    const auto y = EvaluateOne({kind, 13}, std::move(inputs));
    ASSERT_THAT(y, IsOk());
    EXPECT_EQ(y->data(), memory) << kind;
    EXPECT_EQ(ValuesOf(*y), apart) << kind;
  }
}

TEST(EvaluateTest, InputsThatAreStillHeldAreLeftAlone) {
  const NDArray x = Floats({1, -2, 3});
  const auto view = x.View({3, 1}, kFloat32);
  ASSERT_THAT(view, IsOk());
  for (const char* kind : {"Tanh", "Erf", "Softmax"}) {
    EXPECT_THAT(EvaluateOne({kind, 13}, {x}), IsOk());
    EXPECT_THAT(EvaluateOne({kind, 13}, {*view}), IsOk());
    EXPECT_THAT(ValuesOf(x), testing::ElementsAre(1, -2, 3)) << kind;
  }
  // Only the view holds the tensor, but something else may hold the view.
  auto only = Floats({4, 5}).View({2, 1}, kFloat32);
  ASSERT_THAT(only, IsOk());
  EXPECT_FALSE(only->is_held_once());
}

// Bounds are calculated from inputs and outputs.
TEST(EvaluateTest, InputsAreLeftAloneWhereBoundsAreWanted) {
  std::vector<NDArray> inputs = {Floats({1, -2, 3})};
  const void* const memory = inputs[0].data();
  const auto y = EvaluateAll({"Tanh", 13}, std::move(inputs), true);
  ASSERT_THAT(y, IsOk());
  EXPECT_NE(y->outputs[0].data(), memory);
}

}  // namespace
}  // namespace nodewise
