#include "nodewise/autotest/learn_deviations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Kind = KnownDeviation::Kind;
using Change = std::function<void(const std::string& operation,
                                  std::vector<NDArray>& outputs)>;

// The reference, whose results are changed.
absl::StatusOr<Learned> LearnOf(const std::vector<std::string>& names,
                                const Change& change) {
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : RowsToLearn(AllOperators())) {
    for (const std::string& name : names) {
      if (row->name == name) rows.push_back(row);
    }
  }
  const auto candidate = CallableCandidate(
      "changed",
      [change](const Network& network,
               const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        if (!outputs.ok()) return outputs;
        const Operation& last = network.operation(network.order().back());
        for (NDArray& output : *outputs) output = output.CopyToHost().value();
        change(std::string(last.def().name), *outputs);
        return outputs;
      });
  return LearnDeviations(rows, "changed 1.0", *candidate);
}

void Scale(double factor, NDArray& tensor) {
  const uint8_t code = tensor.dtype().code;
  if (code != kDLFloat && code != kDLBfloat) return;
  std::vector<double> values(static_cast<size_t>(CountOf(tensor)));
  LoadDoubles(tensor, 0, CountOf(tensor), values.data());
  for (double& value : values) value *= factor;
  StoreDoubles(values.data(), 0, CountOf(tensor), tensor);
}

TEST(LearnDeviationsTest, ASoundRuntimeHasNoRowsAndNoFaults) {
  const auto learned =
      LearnOf({"Tanh", "Relu", "QuantizeLinear"}, [](const auto&, auto&) {});
  ASSERT_THAT(learned, IsOk());
  EXPECT_THAT(learned->known.rows, IsEmpty());
  for (const LearnedOperator& one : learned->operators) {
    EXPECT_EQ(one.fault, "");
    EXPECT_GT(one.judged, 0u);
  }
}

TEST(LearnDeviationsTest, AnApproximationBecomesARowWithItsLargestError) {
  const auto learned =
      LearnOf({"Tanh", "Relu"}, [](const std::string& name, auto& outputs) {
        if (name != "Tanh" || outputs[0].dtype() != kFloat32) return;
        Scale(1 + 1e-6, outputs[0]);
      });
  ASSERT_THAT(learned, IsOk());
  ASSERT_EQ(learned->known.rows.size(), 1u);
  const KnownDeviation& row = learned->known.rows[0];
  EXPECT_EQ(row.operation, "Tanh");
  EXPECT_EQ(row.kind, Kind::kApproximation);
  // 1e-6 is 16.8 halves of an ulp of 1; the proved bound is a few of them.
  EXPECT_GT(row.times, 2);
  EXPECT_LT(row.times, 17);
}

TEST(LearnDeviationsTest, IntegersThatAreOneStepOffBecomeARow) {
  const auto learned = LearnOf({"Abs"}, [](const auto&, auto& outputs) {
    if (outputs[0].dtype() != DLDataType{kDLUInt, 8, 1}) return;
    auto* const bytes = static_cast<uint8_t*>(outputs[0].data());
    if (CountOf(outputs[0]) > 0) bytes[0] ^= 1;
  });
  ASSERT_THAT(learned, IsOk());
  ASSERT_EQ(learned->known.rows.size(), 1u);
  EXPECT_EQ(learned->known.rows[0].kind, Kind::kStep);
  EXPECT_EQ(learned->known.rows[0].dtype, "uint8");
}

TEST(LearnDeviationsTest, AFaultIsReportedAndGetsNoRow) {
  for (const double factor : {1.2, 1.5, -1.0}) {
    const auto learned = LearnOf({"Tanh"}, [&](const auto&, auto& outputs) {
      Scale(factor, outputs[0]);
    });
    ASSERT_THAT(learned, IsOk());
    EXPECT_THAT(learned->known.rows, IsEmpty()) << factor;
    for (const LearnedOperator& one : learned->operators) {
      EXPECT_NE(one.fault, "") << one.dtype << " " << factor;
    }
  }
}

// An operator that is wrong for some uses alone is wrong.
TEST(LearnDeviationsTest,
     AnOperatorThatIsOftenApproximatedAndOnceWrongGetsNoRow) {
  int runs = 0;
  const auto learned = LearnOf({"Sigmoid"}, [&](const auto&, auto& outputs) {
    if (outputs[0].dtype() != kFloat32) return;
    Scale(++runs == 7 ? 0.5 : 1 + 1e-6, outputs[0]);
  });
  ASSERT_THAT(learned, IsOk());
  for (const KnownDeviation& row : learned->known.rows) {
    EXPECT_NE(row.dtype, "float32");
  }
}

TEST(LearnDeviationsTest, ARuntimeThatRunsNothingIsQuoted) {
  const auto candidate = CallableCandidate(
      "absent",
      [](const Network&, const std::vector<NDArray>&) -> CandidateOutputs {
        return absl::UnavailableError("no such program");
      });
  const auto learned =
      LearnDeviations(RowsToLearn(AllOperators()), "absent 1.0", *candidate,
                      {.configurations = 1, .sets = 1});
  EXPECT_THAT(learned,
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("absent ran no operator, first: no such "
                                  "program")));
}

}  // namespace
}  // namespace nodewise
