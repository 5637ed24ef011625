#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/autotest/dual_program.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
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

// The shapes that the cases of a program draw.
std::vector<std::string> ShapesDrawn(const DualOptions& options) {
  std::vector<std::string> shapes;
  const auto program = [&shapes](DualObject& onnx) {
    const DualObject y = onnx["Relu"]({random_tensor_of_rank(random(1, 5))});
    shapes.push_back(ToString(y["shape"].reference()));
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
  return shapes;
}

// OF-03, OF-09, OF-34 to OF-36, OF-39
TEST(DualObjectTest, BothSidesGetTheSameTensors) {
  std::vector<NDArray> got;
  const auto recorder = CallableCandidate(
      "recorder",
      [&got](const Network& network, const std::vector<NDArray>& inputs) {
        got = inputs;
        return CandidateOutputs(Interpret(network, inputs));
      });
  const auto program = [&got](DualObject& onnx) {
    EXPECT_EQ(onnx.name(), "onnx");
    TensorOptions options;
    options.dtype = random_dtype({kFloat32, kFloat64, kInt64, kInt8});
    const DualObject y =
        onnx["Identity"]({random_tensor({2, random(1, 4)}, options)});
    EXPECT_EQ(y.name(), "y0");
    const auto* const reference = y.reference().As<NDArray>();
    const auto* const tested = y.tested().As<NDArray>();
    ASSERT_NE(reference, nullptr);
    ASSERT_NE(tested, nullptr);
    ASSERT_EQ(got.size(), 1U);
    for (const NDArray& tensor : {got[0], *tested}) {
      EXPECT_EQ(ToString(TensorType::From(*tensor)),
                ToString(TensorType::From(**reference)));
      EXPECT_EQ(ToDoubles(tensor), ToDoubles(*reference));
    }
  };
  EXPECT_THAT(autotest(AllOperators(), *recorder, program, SeededOptions()),
              IsOk());
}

// OF-13, OF-44, OFc-01
TEST(DualObjectTest, AProgramRunsInSoManyCases) {
  int cases = 0;
  const auto program = [&cases](DualObject& onnx) {
    ++cases;
    onnx["Neg"]({random_tensor({2})});
  };
  DualOptions options = SeededOptions();
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
  EXPECT_EQ(cases, 20);
  cases = 0;
  options.n = 7;
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
  EXPECT_EQ(cases, 7);
}

// OF-02, OF-11, OF-12, OF-33
TEST(DualObjectTest, MatMulWithSharedSizesAgrees) {
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), &MatMul, SeededOptions()),
              IsOk());
}

// OF-02, OF-08, OF-10, OF-14, OF-37, OF-43
TEST(DualObjectTest, TransposedConvolutionAgrees) {
  const auto program = [](DualObject& onnx) {
    const generator channels = random(1, 6);
    const generator kernel = random(1, 4);
    const DualObject conv = onnx["ConvTranspose"].Module(
        {{"strides", tuple_of(2, 1, 4)},
         {"pads", tuple_of(4, 0, 2) | nothing()},
         {"dilations", tuple_of(2, 1, 3)}},
        {random_tensor({channels, random(1, 6), kernel, kernel})});
    const DualObject y =
        conv({random_tensor({random(1, 3), channels, 5, random(4, 9)})});
    y["Relu"]();
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              IsOk());
}

TEST(DualObjectTest, EveryExecutionAgrees) {
  DualOptions options = SeededOptions();
  options.executions = {DualExecution::kEager, DualExecution::kGraph,
                        DualExecution::kConcurrent};
  const auto program = [](DualObject& onnx) {
    const DualObject y =
        onnx["Add"]({random_tensor_of_rank(random(1, 5)), random_tensor({1})});
    onnx["Sigmoid"]({y});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, options), IsOk());
}

// OF-34, OF-38
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

// OF-25, OF-42
TEST(DualObjectTest, WholeAttributesGetWholeNumbers) {
  const auto program = [](DualObject& onnx) {
    onnx["Softmax"]({random_tensor({2, 3, 4})}, {{"axis", random(-3, 3)}});
    onnx["LeakyRelu"]({random_tensor({2, 3})}, {{"alpha", random(0, 2)}});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              IsOk());
}

// OF-02, OF-06, OF-45
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

// OF-04, OF-37, OF-39
TEST(DualObjectTest, AFaultBetweenTwoCallsIsNamed) {
  const auto program = [](DualObject& onnx) {
    const DualObject y = onnx["Neg"]({random_tensor({4})});
    const DualObject z = onnx["Exp"]({y});
    onnx["Abs"]({z});
  };
  DualOptions options = SeededOptions();
  options.executions = {DualExecution::kEager};
  EXPECT_THAT(
      autotest(AllOperators(), *Faulty("Exp", &AddToFirst), program, options),
      FailsWith(absl::StatusCode::kInternal,
                HasSubstr("y1 of faulty (called by itself)")));
}

// OF-04, OF-37, OF-44, OF-46
TEST(DualObjectTest, AFaultInsideOfANetworkIsNamed) {
  const auto program = [](DualObject& onnx) {
    const DualObject y = onnx["Neg"]({random_tensor({4})});
    const DualObject z = onnx["Exp"]({y});
    onnx["Abs"]({z});
  };
  const auto faulty = CallableCandidate(
      "faulty",
      [](const Network& network,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        if (outputs.ok()) AddToFirst((*outputs)[1]);
        return outputs;
      });
  DualOptions options = SeededOptions();
  options.executions = {DualExecution::kGraph};
  EXPECT_THAT(autotest(AllOperators(), *faulty, program, options),
              FailsWith(absl::StatusCode::kInternal,
                        HasSubstr("y1 of faulty (as one network)")));
}

// OF-04, OF-39
TEST(DualObjectTest, AFaultInALaterOutputIsNamed) {
  const auto program = [](DualObject& onnx) {
    onnx["Split"].Call({random_tensor({4, 2})}, {{"num_outputs", 2}}, 2);
  };
  EXPECT_THAT(autotest(AllOperators(), *Faulty("Split", &AddToFirst), program,
                       SeededOptions()),
              FailsWith(absl::StatusCode::kInternal,
                        HasSubstr("y0_1 of faulty (called by itself)")));
}

// OF-23
TEST(DualObjectTest, NothingLeavesAnArgumentOut) {
  const auto program = [](DualObject& onnx) {
    const DualObject y =
        onnx["Clip"]({random_tensor({1}), nothing(), random_tensor({})});
    onnx["LeakyRelu"]({y}, {{"alpha", nothing()}});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              IsOk());
  EXPECT_THAT(
      autotest(AllOperators(), *Faulty("Clip", &AddToFirst), program,
               SeededOptions()),
      FailsWith(absl::StatusCode::kInternal,
                AllOf(HasSubstr("[\"Clip\"].Call({x0, nothing(), x1}, {}, 1)"),
                      HasSubstr("[\"LeakyRelu\"].Call({y0}, {}, 1)"))));
}

// OF-44
TEST(DualObjectTest, AToleranceMayAllowIt) {
  DualOptions options = SeededOptions();
  options.tolerance = Tolerance{1.5, 0};
  EXPECT_THAT(autotest(AllOperators(), *Faulty("MatMul", &AddToFirst), &MatMul,
                       options),
              IsOk());
}

// OF-07
TEST(DualObjectTest, ACandidateThatLiesAboutShapesIsNamed) {
  const auto liar = CallableCandidate(
      "liar",
      [](const Network& network,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        const int64_t shape[] = {1};
        outputs->back() = NDArray::Empty(shape, kFloat64, kCpu).value();
        return outputs;
      });
  EXPECT_THAT(autotest(AllOperators(), *liar, &MatMul, SeededOptions()),
              FailsWith(absl::StatusCode::kInternal,
                        HasSubstr("wrong type: is float64[1], expected")));
}

// OF-07
TEST(DualObjectTest, ShapesAreComparedUnderAnyTolerance) {
  const auto flat = CallableCandidate(
      "flat",
      [](const Network& network,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        outputs->back() = outputs->back().View({6}, kFloat32).value();
        return outputs;
      });
  const auto program = [](DualObject& onnx) {
    onnx["Relu"]({random_tensor({2, 3})});
  };
  DualOptions options = SeededOptions();
  options.tolerance = Tolerance{100, 0};
  EXPECT_THAT(
      autotest(AllOperators(), *flat, program, options),
      FailsWith(
          absl::StatusCode::kInternal,
          HasSubstr("wrong type: is float32[6], expected float32[2, 3]")));
}

// OF-09
TEST(DualObjectTest, ACandidateThatWritesToItsInputsIsNamed) {
  const auto scribbler = CallableCandidate(
      "scribbler",
      [](const Network& network,
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
      CallableCandidate(
          "hang",
          [](const Network&, const std::vector<NDArray>&) -> CandidateOutputs {
            for (;;) {
            }
          }),
      50);
  EXPECT_THAT(autotest(AllOperators(), *hang, &MatMul, once),
              FailsWith(absl::StatusCode::kInternal, HasSubstr("hang: ")));
}

// OF-41
TEST(DualObjectTest, AnUnknownAttributeIsAnError) {
  const auto program = [](DualObject& onnx) {
    onnx["LeakyRelu"]({random_tensor({2})}, {{"alhpa", 1.0}});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("LeakyRelu has no attribute alhpa"),
                              HasSubstr("alpha"))));
}

// OF-40
TEST(DualObjectTest, AnUnknownOperatorIsAnError) {
  const auto program = [](DualObject& onnx) { onnx["Cnov"](); };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("there is no operator Cnov")));
}

// OF-40, OF-41
TEST(DualObjectTest, WhatIsNotMeantForItIsRefused) {
  using Use = std::function<void(DualObject&, const DualObject&)>;
  const std::pair<Use, const char*> misuses[] = {
      {[](DualObject& onnx, const DualObject&) { onnx["Neg"]({random(1, 4)}); },
       "as an input, expected a tensor"},
      {[](DualObject& onnx, const DualObject& y) { onnx["Neg"]({y["shape"]}); },
       "y0.shape is not a tensor, and cannot be an input"},
      {[](DualObject&, const DualObject& y) { y(); },
       "y0 cannot be called: it is not an operator"},
      {[](DualObject&, const DualObject& y) { y.Module({}); },
       "y0 is not an operator, and cannot become a module"},
      {[](DualObject&, const DualObject& y) { y["shape"]["Relu"]; },
       "y0.shape has no attribute Relu"}};
  for (const auto& [use, words] : misuses) {
    const auto program = [&misuse = use](DualObject& onnx) {
      misuse(onnx, onnx["Relu"]({random_tensor({2})}));
    };
    EXPECT_THAT(
        autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  }
}

// OF-41, OFc-01
TEST(DualObjectTest, AProgramThatIsNeverLegalIsAnError) {
  const auto program = [](DualObject& onnx) {
    onnx["MatMul"]({random_tensor({2, 3}), random_tensor({4, 2})});
  };
  EXPECT_THAT(autotest(AllOperators(), *OneDnn(), program, SeededOptions()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("none of 20 draws is legal")));
}

// OF-41
TEST(DualObjectTest, ARefusalSaysInWhichExecutionItCame) {
  const auto candidate = CallableCandidate(
      "mine",
      [](const Network& network,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        if (network.order().size() == 1) return Interpret(network, inputs);
        return absl::UnimplementedError("two at once");
      });
  const auto program = [](DualObject& onnx) {
    onnx["Relu"]({random_tensor({2})})["Neg"]();
  };
  EXPECT_THAT(autotest(AllOperators(), *candidate, program, SeededOptions()),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("mine (as one network): two at once")));
}

// OF-45, OFc-03
TEST(DualObjectTest, TheSeedMayComeFromTheEnvironment) {
  constexpr const char* kName = "NODEWISE_SEED";
  const char* const given = std::getenv(kName);
  const std::string kept = given == nullptr ? "" : given;
  setenv(kName, std::to_string(kSeed).c_str(), 1);
  EXPECT_EQ(ShapesDrawn({}), ShapesDrawn(SeededOptions()));
  unsetenv(kName);
  if (!kept.empty()) setenv(kName, kept.c_str(), 1);
}

// OF-45
TEST(DualObjectTest, TheSameSeedDrawsTheSameCases) {
  const std::vector<std::string> shapes = ShapesDrawn(SeededOptions());
  EXPECT_EQ(shapes, ShapesDrawn(SeededOptions()));
  EXPECT_GE(shapes.size(), 20U);
}

// OF-05
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

// OF-05, OF-44
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
  EXPECT_THAT(
      autotest(AllOperators(), *wrong, &MatMul, options),
      FailsWith(absl::StatusCode::kInternal,
                AllOf(HasSubstr("gradient_x"), HasSubstr("as a gradient"))));
  options.with_gradients = false;
  EXPECT_THAT(autotest(AllOperators(), *wrong, &MatMul, options), IsOk());
}

}  // namespace
}  // namespace nodewise
