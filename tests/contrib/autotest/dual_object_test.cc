#include "nodewise/autotest/dual_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/onednn_kernels.h"
#include "nodewise/runner/reference_kernels.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSeed = 5;

DualOptions SeededOptions() {
  DualOptions options;
  options.seed = kSeed;
  return options;
}

// oneDNN, and the definitions of what it does not have.
std::unique_ptr<Candidate> OneDnn() {
  return LoweredCandidate("onednn", {}, [] {
    return MakeRef<LoweredLibrary>(
        AllOperators(), std::vector{OneDnnKernels(), ReferenceKernels()});
  });
}

// The reference with a fault: what an operator makes is changed behind it.
std::unique_ptr<Candidate> Faulty(
    const char* kind, std::function<void(const NDArray& output)> change) {
  return CallableCandidate(
      "faulty",
      [kind, change](const Network& network,
                     const std::vector<NDArray>& inputs) -> CandidateOutputs {
        bool has_kind = false;
        for (const OperationId id : network.order()) {
          has_kind = has_kind || network.operation(id).kind() == kind;
        }
        auto outputs = Interpret(network, inputs);
        if (outputs.ok() && has_kind) change(outputs->back());
        return outputs;
      });
}

void AddToFirst(const NDArray& output) {
  if (CountOf(output) > 0) output.As<float>()[0] += 1;
}

void MatMul(DualObject& onnx) {
  const generator m = random(1, 6);
  const generator k = random(1, 6);
  const generator n = random(1, 6);
  onnx["MatMul"]({random_tensor({m, k}), random_tensor({k, n})});
}

TEST(DualObjectTest, MatMulWithSharedSizesAgrees) {
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), &MatMul, SeededOptions()), IsOk());
}

TEST(DualObjectTest, TransposedConvolutionAgrees) {
  const auto program = [](DualObject& onnx) {
    const generator channels = random(1, 6);
    const generator kernel = random(1, 4);
    const DualObject conv = onnx["ConvTranspose"].Module(
        {{"strides", tuple_of(2, 1, 4)},
         {"pads", tuple({0, 0, 0, 0}) | nothing()},
         {"dilations", tuple_of(2, 1, 3)}},
        {random_tensor({channels, random(1, 6), kernel, kernel})});
    const DualObject y =
        conv({random_tensor({random(1, 3), channels, 5, random(4, 9)})});
    y["Relu"]();
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()), IsOk());
}

TEST(DualObjectTest, EveryExecutionAgrees) {
  DualOptions options = SeededOptions();
  options.executions = {DualExecution::kEager, DualExecution::kGraph,
                        DualExecution::kConcurrent};
  const auto program = [](DualObject& onnx) {
    const DualObject y = onnx["Add"](
        {random_tensor_of_rank(random(1, 5)), random_tensor({1})});
    onnx["Sigmoid"]({y});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
}

TEST(DualObjectTest, AttributesOfTensorsAreDualObjects) {
  DualOptions options = SeededOptions();
  options.n = 1;
  const auto program = [](DualObject& onnx) {
    const DualObject y = onnx["Relu"]({random_tensor({2, 3})});
    EXPECT_EQ(ToString(y["shape"].reference()), "[2, 3]");
    EXPECT_EQ(ToString(y["shape"].tested()), "[2, 3]");
    EXPECT_EQ(ToString(y["dtype"].tested()), "float32");
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
}

TEST(DualObjectTest, WholeAttributesGetWholeNumbers) {
  const auto program = [](DualObject& onnx) {
    onnx["Softmax"]({random_tensor({2, 3, 4})}, {{"axis", random(-3, 3)}});
    onnx["LeakyRelu"]({random_tensor({2, 3})}, {{"alpha", random(0, 2)}});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()), IsOk());
}

TEST(DualObjectTest, AFaultShowsTheSimplestProgramAndTheSeed) {
  const absl::Status found = autotest(
      AllOperators(), *Faulty("MatMul", &AddToFirst), &MatMul, SeededOptions());
  EXPECT_THAT(
      found,
      FailsWith(absl::StatusCode::kInternal,
               AllOf(HasSubstr("y0 of faulty (called by itself): mismatch"),
                     HasSubstr("Tensor(\"float32[1, 1]\", {0})"),
                     HasSubstr("onnx[\"MatMul\"].Call({x0, x1}, {}, 1)"),
                     HasSubstr("NODEWISE_SEED=5"))));
}

TEST(DualObjectTest, AFaultBetweenTwoCallsIsNamed) {
  const auto program = [](DualObject& onnx) {
    const DualObject y = onnx["Neg"]({random_tensor({4})});
    const DualObject z = onnx["Exp"]({y});
    onnx["Abs"]({z});
  };
  DualOptions options = SeededOptions();
  options.executions = {DualExecution::kEager};
  EXPECT_THAT(autotest(AllOperators(), *Faulty("Exp", &AddToFirst), program,
                       options),
              FailsWith(absl::StatusCode::kInternal,
                       HasSubstr("y1 of faulty (called by itself)")));
}

TEST(DualObjectTest, AToleranceMayAllowIt) {
  DualOptions options = SeededOptions();
  options.tolerance = Tolerance{1.5, 0};
  EXPECT_THAT(autotest(AllOperators(), *Faulty("MatMul", &AddToFirst), &MatMul,
                     options), IsOk());
}

TEST(DualObjectTest, ACandidateThatLiesAboutShapesIsNamed) {
  const auto liar = CallableCandidate(
      "liar", [](const Network& network, const std::vector<NDArray>& inputs)
                  -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        const int64_t shape[] = {1};
        outputs->back() = NDArray::Empty(shape, kFloat64, kCpu).value();
        return outputs;
      });
  EXPECT_THAT(autotest(AllOperators(), *liar, &MatMul, SeededOptions()),
              FailsWith(absl::StatusCode::kInternal,
                       HasSubstr("wrong type: is float64[1], expected")));
}

TEST(DualObjectTest, ACandidateThatWritesToItsInputsIsNamed) {
  const auto scribbler = CallableCandidate(
      "scribbler", [](const Network& network,
                      const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        inputs[0].As<float>()[0] += 1;
        return outputs;
      });
  EXPECT_THAT(autotest(AllOperators(), *scribbler, &MatMul, SeededOptions()),
              FailsWith(absl::StatusCode::kInternal,
                       HasSubstr("scribbler has written to input 0")));
}

TEST(DualObjectTest, ACrashAndAHangAreNamed) {
  const auto crash = GuardedCandidate(
      CallableCandidate("crash",
                        [](const Network&, const std::vector<NDArray>&)
                            -> CandidateOutputs { std::abort(); }),
      5000);
  EXPECT_THAT(autotest(AllOperators(), *crash, &MatMul, SeededOptions()),
              FailsWith(absl::StatusCode::kInternal,
                       HasSubstr("crash: crashed with SIGABRT")));
  DualOptions once = SeededOptions();
  once.most_tries = 0;
  const auto hang = GuardedCandidate(
      CallableCandidate("hang",
                        [](const Network&, const std::vector<NDArray>&)
                            -> CandidateOutputs {
                          for (;;) {
                          }
                        }),
      50);
  EXPECT_THAT(autotest(AllOperators(), *hang, &MatMul, once),
              FailsWith(absl::StatusCode::kInternal, HasSubstr("hang: ")));
}

TEST(DualObjectTest, AnUnknownAttributeIsAnError) {
  const auto program = [](DualObject& onnx) {
    onnx["LeakyRelu"]({random_tensor({2})}, {{"alhpa", 1.0}});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("LeakyRelu has no attribute alhpa"),
                             HasSubstr("alpha"))));
}

TEST(DualObjectTest, AnUnknownOperatorIsAnError) {
  const auto program = [](DualObject& onnx) { onnx["Cnov"](); };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there is no operator Cnov")));
}

TEST(DualObjectTest, AProgramThatIsNeverLegalIsAnError) {
  const auto program = [](DualObject& onnx) {
    onnx["MatMul"]({random_tensor({2, 3}), random_tensor({4, 2})});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("none of 20 draws is legal")));
}

TEST(DualObjectTest, TheSameSeedDrawsTheSameCases) {
  std::vector<std::string> shapes[2];
  for (auto& seen : shapes) {
    const auto program = [&](DualObject& onnx) {
      const DualObject y = onnx["Relu"]({random_tensor_of_rank(random(1, 5))});
      seen.push_back(ToString(y["shape"].reference()));
    };
    EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()), IsOk());
  }
  EXPECT_EQ(shapes[0], shapes[1]);
  EXPECT_GE(shapes[0].size(), 20U);
}

TEST(DualObjectTest, GradientsAgreeIfTheyAreAskedFor) {
  DualOptions options = SeededOptions();
  options.with_gradients = true;
  const auto program = [](DualObject& onnx) {
    const generator channels = random(1, 4);
    const DualObject conv = onnx["ConvTranspose"].Module(
        {{"strides", tuple_of(2, 1, 3)}},
        {random_tensor({channels, random(1, 4), 2, 2})});
    conv({random_tensor({1, channels, 3, random(2, 5)})})["Sigmoid"]();
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
}

TEST(DualObjectTest, AWrongGradientIsToldWithItsInput) {
  DualOptions options = SeededOptions();
  options.with_gradients = true;
  const auto wrong = CallableCandidate(
      "wrong",
      [](const Network& network, const std::vector<NDArray>& inputs) {
        return CandidateOutputs(Interpret(network, inputs));
      },
      [](const BackwardCase& backward,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        std::vector<NDArray> gradients;
        for (const size_t input : backward.inputs) {
          auto copy = inputs[input].CopyToHost();
          if (!copy.ok()) return copy.status();
          gradients.push_back(*std::move(copy));
        }
        return gradients;
      });
  EXPECT_THAT(autotest(AllOperators(), *wrong, &MatMul, options),
              FailsWith(absl::StatusCode::kInternal,
                        AllOf(HasSubstr("gradient_x"),
                              HasSubstr("as a gradient"))));
  options.with_gradients = false;
  EXPECT_THAT(autotest(AllOperators(), *wrong, &MatMul, options), IsOk());
}

}  // namespace
}  // namespace nodewise
