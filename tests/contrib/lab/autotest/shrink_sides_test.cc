#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/draw/shrink_case.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Each;
using testing::Le;
using testing::SizeIs;

// A candidate that makes one wrong element where a network has all these kinds
// of operations.
std::unique_ptr<Candidate> WrongWith(std::vector<std::string> kinds) {
  return CallableCandidate(
      "wrong", [kinds = std::move(kinds)](const Network& network,
                                          const std::vector<NDArray>& inputs) {
        CandidateOutputs outputs = Interpret(network, inputs);
        for (const std::string& kind : kinds) {
          const auto order = network.order();
          const bool is_there =
              std::any_of(order.begin(), order.end(), [&](OperationId id) {
                return network.operation(id).kind() == kind;
              });
          if (!is_there) return outputs;
        }
        if (outputs.ok() && CountOf((*outputs)[0]) > 0) {
          *(*outputs)[0].As<float>() += 100;
        }
        return outputs;
      });
}

NDArray Filled(const std::vector<int64_t>& shape, double number) {
  NDArray tensor = *NDArray::Empty(shape, kFloat32, kCpu);
  const std::vector<double> numbers(static_cast<size_t>(CountOf(tensor)),
                                    number);
  StoreDoubles(numbers.data(), 0, CountOf(tensor), tensor);
  return tensor;
}

NDArray Ints(const std::vector<int64_t>& numbers) {
  const int64_t shape[] = {static_cast<int64_t>(numbers.size())};
  NDArray tensor = *NDArray::Empty(shape, kInt64, kCpu);
  std::copy(numbers.begin(), numbers.end(), tensor.As<int64_t>());
  return tensor;
}

// A network that is built step by step, of one input "x".
class Builder {
 public:
  explicit Builder(const std::vector<int64_t>& shape)
      : x_(Filled(shape, 1)),
        last_(*network_.AddInput("x", TensorType::From(*x_))) {}

  Builder& Then(const char* kind, std::vector<NDArray> constants = {},
                const std::vector<NamedAttr>& attributes = {}) {
    const OperatorDef& def = *AllOperators().Find("", kind, network_.opset());
    std::vector<ValueId> inputs = {last_};
    for (NDArray& constant : constants) {
      inputs.push_back(*network_.AddConstant("", std::move(constant)));
    }
    const OperationId made = *network_.AddOperation(
        {*MakeAttrs(def, attributes), std::move(inputs)});
    last_ = network_.operation(made).outputs[0];
    return *this;
  }

  FailingCase Make() {
    EXPECT_THAT(network_.SetOutputs({last_}), IsOk());
    FailingCase failing;
    const auto shape = x_.shape();
    failing.made.configuration.opset = network_.opset();
    failing.made.configuration.inputs = {
        {true, kFloat32, {shape.begin(), shape.end()}}};
    failing.made.network = std::make_shared<const Network>(network_);
    failing.set.inputs = {x_};
    return failing;
  }

 private:
  Network network_{"net"};
  NDArray x_;
  ValueId last_;
};

// Shrinks a case without choices.
void Shrink(Candidate& candidate, FailingCase* failing) {
  const CaseReference reference(failing->made);
  failing->expected = reference.Run(failing->set.inputs);
  ASSERT_THAT(failing->expected, IsOk());
  const std::vector<std::vector<NDArray>> sets = {failing->set.inputs};
  const CandidateJob job{failing->made.network.get(), sets,
                         failing->made.backward.get()};
  failing->actual = RunJobs(candidate, {&job, 1})[0].sets[0];
  failing->verdict =
      reference.Judge(failing->set, failing->expected, failing->actual);
  ASSERT_EQ(failing->verdict.outcome, CaseOutcome::kMismatch);
  const auto made = failing->made;
  ShrinkCase([made](Choices*) { return made; }, candidate, 2000, 20, failing);
}

void ExpectSmall(const FailingCase& failing) {
  for (const NDArray& input : failing.set.inputs) {
    EXPECT_THAT(input.shape(), Each(Le(3)));
  }
  for (const auto& value : failing.made.network->data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    EXPECT_THAT(value->data.shape(), Each(Le(3)));
  }
}

TEST(ShrinkSidesTest, NumbersThatAreSizesChangeWithThem) {
  FailingCase failing = Builder({5, 24})
                            .Then("Reshape", {Ints({5, 4, 6})})
                            .Then("Transpose")
                            .Then("Relu")
                            .Make();
  Shrink(*WrongWith({"Reshape", "Relu"}), &failing);
  EXPECT_THAT(failing.made.network->order(), SizeIs(Le(3)));
  ExpectSmall(failing);
}

TEST(ShrinkSidesTest, AttributesThatAreSizesChangeWithThem) {
  FailingCase failing = Builder({2, 8, 12, 17})
                            .Then("Conv", {Filled({16, 8, 5, 5}, 0.5)},
                                  {{"kernel_shape", std::vector<int64_t>{5, 5}},
                                   {"pads", std::vector<int64_t>{2, 2, 2, 2}}})
                            .Then("Relu")
                            .Make();
  Shrink(*WrongWith({"Conv", "Relu"}), &failing);
  EXPECT_EQ(TitleOf(failing.made), "Conv_Relu");
  ExpectSmall(failing);
}

TEST(ShrinkSidesTest, PlacesStayWithinWhatIsLeft) {
  FailingCase failing =
      Builder({20, 7}).Then("Gather", {Ints({19, 0, 7})}).Then("Neg").Make();
  Shrink(*WrongWith({"Gather", "Neg"}), &failing);
  EXPECT_EQ(TitleOf(failing.made), "Gather_Neg");
  ExpectSmall(failing);
}

TEST(ShrinkSidesTest, CotangentsShrinkWithTheOutputsThatTheyWeigh) {
  FailingCase failing = Builder({6, 9})
                            .Then("MatMul", {Filled({9, 33}, 0.5)})
                            .Then("Tanh")
                            .Make();
  const auto backward = BackwardOf(failing.made);
  ASSERT_THAT(backward, IsOk());
  failing.made = *backward;
  failing.set.inputs.push_back(Filled({6, 33}, 1));
  Shrink(*WrongWith({"MatMul", "Tanh"}), &failing);
  EXPECT_EQ(TitleOf(failing.made), "MatMul_Tanh");
  ExpectSmall(failing);
}

FailingCase CaseOf(const char* kind, std::vector<NamedAttr> attributes,
                   std::vector<CaseInput> inputs) {
  FailingCase failing;
  Configuration& configuration = failing.made.configuration;
  configuration.opset = kNewestOpset;
  configuration.def = AllOperators().Find("", kind, kNewestOpset);
  configuration.attributes = std::move(attributes);
  configuration.inputs = std::move(inputs);
  configuration.outputs = {true};
  failing.made.network =
      std::make_shared<const Network>(*NetworkOf(configuration));
  return failing;
}

TEST(ShrinkSidesTest, AnOperatorStaysOneWithItsConstantsAndAttributes) {
  const NDArray weights = Filled({16, 8, 1, 5}, 0.5);
  FailingCase failing =
      CaseOf("Conv", {{"kernel_shape", std::vector<int64_t>{1, 5}}},
             {{true, kFloat32, {2, 8, 12, 17}},
              {true, kFloat32, {16, 8, 1, 5}, {}, weights, true}});
  failing.set.inputs = {Filled({2, 8, 12, 17}, 1)};
  Shrink(*WrongWith({"Conv"}), &failing);
  ASSERT_FALSE(failing.made.configuration.is_network());
  ExpectSmall(failing);
  for (const CaseInput& input : failing.made.configuration.inputs) {
    EXPECT_THAT(input.shape, Each(Le(3)));
  }
}

TEST(ShrinkSidesTest, WhatFailsAtTheEndOfASideIsKept) {
  const auto wrong = CallableCandidate(
      "wrong", [](const Network& network, const std::vector<NDArray>& inputs) {
        CandidateOutputs outputs = Interpret(network, inputs);
        if (!outputs.ok()) return outputs;
        auto* const y = (*outputs)[0].As<float>();
        for (int64_t i = 1; i < CountOf((*outputs)[0]); ++i) y[i] = 0;
        return outputs;
      });
  FailingCase failing = CaseOf("Neg", {}, {{true, kFloat32, {1, 9}}});
  failing.set.inputs = {Filled({1, 9}, 0)};
  failing.set.inputs[0].As<float>()[8] = -2;
  Shrink(*wrong, &failing);
  EXPECT_THAT(failing.set.inputs[0].shape(), testing::ElementsAre(1, 2));
}

TEST(ShrinkSidesTest, NothingIsSmallerThanOneElement) {
  FailingCase failing = Builder({1, 1}).Then("Relu").Make();
  EXPECT_THAT(SmallerSidesOf(failing), SizeIs(0));
}

}  // namespace
}  // namespace nodewise
