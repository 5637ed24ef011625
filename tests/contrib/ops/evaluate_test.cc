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
    const OpAttrs attrs(def, def->make());
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

}  // namespace
}  // namespace nodewise
