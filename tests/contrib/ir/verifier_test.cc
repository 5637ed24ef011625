// Findings about information and run time, and how the verifier reports.

#include "nodewise/ir/verifier.h"

#include <gtest/gtest.h>

#include "tests/contrib/ir/verifier_support.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::Ops;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- Information.

TEST(VerifierTest, DoubledNames) {
  EXPECT_THAT(FindingsWith("\"r\"", "\"x\""),
              ElementsAre("information: value x: values %0 and %4 have this "
                          "name, expected one value of a name"));
  EXPECT_THAT(FindingsWith("\"relu\"", "\"add\""),
              ElementsAre("information: operation add: operations #0 and #1 "
                          "have this name, expected one operation of a name"));
}

TEST(VerifierTest, EmptyNames) {
  EXPECT_THAT(FindingsWith("\"r\"", "\"\""),
              ElementsAre("information: value %4: has no name, expected one"));
  EXPECT_THAT(
      FindingsWith("\"relu\"", "\"\""),
      ElementsAre("information: operation #1: has no name, expected one"));
}

TEST(VerifierTest, TypeThatIsNotTheOneInferred) {
  EXPECT_THAT(FindingsWith("\"r\": float32[2, 3]", "\"r\": float32[2, 4]"),
              testing::Contains("information: operation relu: output 0 (Y): "
                                "value r is of type float32[2, 4], expected "
                                "float32[2, 3], as inferred"));
}

TEST(VerifierTest, ElementsThatAreNotThoseInferred) {
  const std::string shape =
      "#3 \"sh\" = Shape@1(%0) -> %8 \"sh\": int64[2] elements [2, 4] barrier "
      "%9; output %6, %8;";
  EXPECT_THAT(FindingsWith(shape),
              ElementsAre("information: operation sh: output 0 (Y): value sh "
                          "has elements [2, 4], expected elements [2, 3], as "
                          "inferred"));
  EXPECT_THAT(FindingsWith(Replaced(shape, " elements [2, 4]", "")),
              ElementsAre(HasSubstr("value sh has no known elements")));
}

TEST(VerifierTest, TypeThatNoTensorCanHave) {
  EXPECT_THAT(FindingsWith("\"x\": float32", "\"x\": dtype(2, 7, 1)"),
              ElementsAre(HasSubstr("information: value x: type float7 (code "
                                    "2, 7 bits, 1 lanes)")));
  EXPECT_THAT(FindingsWith("\"x\": float32[2", "\"x\": float32[-2"),
              ElementsAre("information: value x: type float32[-2, 3] has a "
                          "negative side"));
}

TEST(VerifierTest, ConstantWithoutData) {
  EXPECT_THAT(FindingsWith("constant %1 \"w\" = float32[3] [1, 2, 3];",
                           "value %1 constant \"w\": float32[3];"),
              ElementsAre("information: value w: is a constant without data, "
                          "expected data"));
}

TEST(VerifierTest, ConstantOfAnotherTypeThanItsData) {
  EXPECT_THAT(
      FindingsWith("constant %1 \"w\" = float32[3] [1, 2, 3];",
                   "value %1 constant \"w\": float32[1, 3] = float32[3] "
                   "[1, 2, 3];"),
      ElementsAre("information: value w: is of type float32[1, 3], "
                  "expected float32[3], which its data is"));
}

TEST(VerifierTest, ConstantWithOtherElementsThanItsData) {
  EXPECT_THAT(FindingsWith("output %6;",
                           "value %8 constant \"k\": int64[1] = int64[1] [3] "
                           "elements [4]; output %6, %8;"),
              testing::Contains("information: value k: has elements [4], "
                                "expected elements [3], as in its data"));
}

// Constants that only the API can make.
std::vector<std::string> FindingsWithData(const DLTensor& tensor) {
  auto data = ParseNetworkText(kGood, Ops(), "net.txt");
  EXPECT_THAT(data, IsOk());
  data->values[1]->data = NDArray::Borrow(tensor, nullptr);
  return FindingsIn(*data);
}

TEST(VerifierTest, ConstantWhoseDataIsNotCompact) {
  float numbers[6] = {};
  int64_t shape[] = {3};
  int64_t strides[] = {2};
  EXPECT_THAT(
      FindingsWithData({numbers, kCpu, 1, kFloat32, shape, strides, 0}),
      ElementsAre("information: value w: has data that is on a device or not "
                  "compact, expected compact data in host memory"));
}

TEST(VerifierTest, ConstantWithDataThatNoTensorCanHave) {
  float numbers[6] = {};
  int64_t shape[] = {3};
  EXPECT_THAT(
      FindingsWithData({numbers, kCpu, 1, {kDLFloat, 7, 1}, shape, nullptr, 0}),
      ElementsAre(HasSubstr("information: value w: has data that cannot be")));
}

TEST(VerifierTest, InputWithDataOrElements) {
  EXPECT_THAT(
      FindingsWith(
          "input %0 \"x\": float32[2, 3];",
          "value %0 input \"x\": float32[2, 3] = float32[1] [1]; inputs "
          "%0;"),
      ElementsAre(HasSubstr("value x: has data, and is not a constant")));
  EXPECT_THAT(FindingsWith("input %0 \"x\": float32[2, 3];",
                           "value %0 input \"x\": float32[2, 3] elements [1]; "
                           "inputs %0;"),
              ElementsAre(HasSubstr("value x: is an input with elements [1]")));
}

// OV-26.
TEST(VerifierTest, BarrierWithAName) {
  EXPECT_THAT(
      FindingsWith("barrier %7;",
                   "barrier ref %7; value %7 barrier \"b\": ?[...] from #2.0;"),
      ElementsAre("information: value b: is a barrier with a name, a type or "
                  "data, expected none of these"));
}

TEST(VerifierTest, OperationWithoutAnOperator) {
  EXPECT_THAT(
      FindingsWith("Softmax@13(%4) {axis: int 1}", "none(%4)"),
      ElementsAre("information: operation soft: has no operator, expected "
                  "one"));
}

// OV-13.
TEST(VerifierTest, AttributeThatDoesNotFit) {
  EXPECT_THAT(FindingsWith("axis: int 1", "axis: int 2"),
              ElementsAre("information: operation soft: attribute axis: is 2, "
                          "expected -2 to 1"));
}

TEST(VerifierTest, InferenceThatFails) {
  EXPECT_THAT(FindingsWith("float32[3] [1, 2, 3]", "float32[2] [1, 2]"),
              ElementsAre(HasSubstr("information: operation add: [2, 3] and "
                                    "[2]: sides of 3 and 2")));
}

TEST(VerifierTest, WrongNumberOfInputs) {
  EXPECT_THAT(FindingsWith("Add@7(%0, %1)", "Add@7(%0, %1, %1)"),
              ElementsAre("information: operation add: has 3 inputs, expected "
                          "2 inputs (of Add)"));
  EXPECT_THAT(FindingsWith("Add@7(%0, %1)", "Add@7(%0, _)"),
              testing::Contains("information: operation add: input 1 (B): is "
                                "not given, expected a tensor"));
}

TEST(VerifierTest, WrongNumberOfOutputs) {
  EXPECT_THAT(FindingsWith("%6 \"s\": float32[2, 3]",
                           "%6 \"s\": float32[2, 3], %8 \"t\": float32[1]"),
              ElementsAre(HasSubstr("operation soft: has 2 outputs, expected 1 "
                                    "output (of Softmax)")));
  EXPECT_THAT(FindingsWith("%2 \"a\": float32[2, 3]", "_"),
              testing::Contains(HasSubstr("operation add: output 0 (C): is not "
                                          "wanted")));
}

TEST(VerifierTest, DomainWithoutAnOpset) {
  EXPECT_THAT(FindingsWith("opset \"\" 21;", ""),
              testing::Contains("information: operation add: the network has "
                                "no opset of domain \"\", expected one for "
                                "Add"));
}

TEST(VerifierTest, OpsetsThatCannotBe) {
  EXPECT_THAT(FindingsWith("opset \"a\" 0; opset \"\" 13;"),
              ElementsAre(HasSubstr("network net: has opset 0 of domain \"a\", "
                                    "expected 1 or more"),
                          HasSubstr("has opset 13 of domain \"\", and 21 as "
                                    "well")));
}

// --- Bodies.

constexpr char kWithBody[] = R"(network "net" {
  opset "" 21;
  input %0 "c": bool[];
  input %1 "x": float32[2];
  #0 "if" = If@11(%0, %1) {
    then_branch: graph 1 network "b" {
      opset "" 21;
      input %0 "p": float32[2];
      #0 "r" = Relu@6(%0) -> %1 "r": float32[2] barrier %2;
      output %1;
    },
    else_branch: graph 0 network "e" {
      opset "" 21;
      constant %0 "k" = float32[2] [0, 0];
      output %0;
    }
  } -> %2 "y": float32[2] barrier %3;
  output %2;
}
)";

TEST(VerifierTest, GoodBodiesHaveNoFaults) {
  EXPECT_THAT(FindingsIn(kWithBody), IsEmpty());
}

TEST(VerifierTest, FaultInABodyHasItsPath) {
  const std::string text =
      Replaced(kWithBody, "\"r\": float32[2]", "\"r\": float32[3]");
  EXPECT_THAT(
      FindingsIn(text),
      testing::Contains(
          "information: operation if: then_branch: operation r: output 0 (Y): "
          "value r is of type float32[3], expected float32[2], as inferred"));
}

TEST(VerifierTest, OperatorIsNotAskedAboutADamagedBody) {
  // Inference would follow the link that leads nowhere.
  const std::string text = Replaced(kWithBody, "output %1;", "output %9999;");
  EXPECT_THAT(FindingsIn(text),
              ElementsAre("structure: operation if: then_branch: network b: "
                          "output 0: is value %9999, which does not exist, "
                          "expected a tensor of the network"));
}

TEST(VerifierTest, TypeThatADamagedBodyWouldTellStaysUnknown) {
  std::string text = Replaced(kWithBody, "output %1;", "output %9999;");
  text = Replaced(text, "\"y\": float32[2]", "\"y\"");
  EXPECT_THAT(FindingsIn(text),
              ElementsAre(HasSubstr("structure: operation if: then_branch: ")));
}

TEST(VerifierTest, OperatorIsNotAskedAboutABodyWithADamagedBodyInIt) {
  const std::string inner(R"(    then_branch: graph 1 network "b" {
      opset "" 21;
      input %0 "p": float32[2];
      constant %1 "d" = bool[] [1];
      #0 "in" = If@11(%1, %0) {
        then_branch: graph 1 network "bb" { output %9999; },
        else_branch: graph 0 network "ee" { output %9998; }
      } -> %2 "r": float32[2] barrier %3;
      output %2;
    },
)");
  std::string text = kWithBody;
  const size_t start = text.find("    then_branch");
  text.replace(start, text.find("    else_branch") - start, inner);
  EXPECT_THAT(FindingsIn(text), testing::Each(HasSubstr("operation in: ")));
}

TEST(VerifierTest, BodyThatIsMissing) {
  std::string text = kWithBody;
  const size_t start = text.find("graph 0 network");
  text.replace(start, text.find("\n  } ->") - start, "graph 0 none");
  EXPECT_THAT(FindingsIn(text),
              ElementsAre("information: operation if: attribute else_branch "
                          "has no graph, expected one"));
}

TEST(VerifierTest, MoreCapturesThanInputs) {
  const std::string text = Replaced(kWithBody, "graph 1", "graph 3");
  EXPECT_THAT(FindingsIn(text),
              testing::Contains("information: operation if: its bodies capture "
                                "3 values, expected at most its 2 inputs"));
}

// --- Run time.

Support NoSoftmax(const OpAttrs& attrs, const Inputs& inputs,
                  absl::Span<const OutputInfo>) {
  if (attrs.def().name == "Softmax") return {false, "has no kernel", {}};
  if (attrs.def().name != "Relu") return {};
  return {true, "", {"a copy of " + ToString(inputs.type(0))}};
}

TEST(VerifierTest, TargetsAreAskedForEveryOperation) {
  const NetworkData data = *ParseNetworkText(kGood, Ops(), "net");
  const auto findings = Verify(data, {{{"box", "cpu"}, &NoSoftmax}});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind.name, "penalty");
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_EQ(findings[0].ToString(),
            "operation relu: box is not at its best with Relu: a copy of "
            "float32[2, 3]");
  EXPECT_EQ(findings[1].kind.name, "unsupported");
  EXPECT_EQ(findings[1].part(), "network-run-time");
  EXPECT_EQ(findings[1].ToString(),
            "operation soft: box cannot run Softmax: has no kernel");
}

TEST(VerifierTest, TargetsAreNotShownABrokenNetwork) {
  const NetworkData data = *ParseNetworkText(
      Replaced(kGood, "axis: int 1", "axis: int 5"), Ops(), "net");
  EXPECT_EQ(Verify(data, {{{"box", "cpu"}, &NoSoftmax}}).size(), 1u);
}

// --- The report.

TEST(VerifierTest, FaultsAreInTheOrderOfPartsThenOperations) {
  const std::string text = Replaced(
      Replaced(Replaced(kGood, "axis: int 1", "axis: int 5"), "\"x\"", "\"\""),
      "barrier %7;", "barrier _; uses %0;");
  EXPECT_THAT(FindingsIn(text),
              ElementsAre(HasSubstr("structure: operation add"),
                          HasSubstr("structure: operation soft"),
                          HasSubstr("information: value %0"),
                          HasSubstr("information: operation soft")));
}

// OV-21.
TEST(VerifierTest, FindingsNameTheOperationOrValueTheyAreAbout) {
  const std::string text =
      Replaced(Replaced(kGood, "axis: int 1", "axis: int 5"), "\"x\"", "\"\"");
  const auto findings = Verify(*ParseNetworkText(text, Ops(), "net"));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].place,
            FindingPlace(OperationPlace{"value %0", "", "%0"}));
  EXPECT_EQ(findings[1].place,
            FindingPlace(OperationPlace{"operation soft", "soft", ""}));
  EXPECT_EQ(findings[1].kind.name, "invalid-information");
}

// OV-01.
TEST(VerifierTest, ReportHasThreeHeadings) {
  const NetworkData data = *ParseNetworkText(
      Replaced(kGood, "axis: int 1", "axis: int 5"), Ops(), "net");
  EXPECT_EQ(FindingReport(Verify(data)),
            "Structure (links, order, what depends on what): no faults\n"
            "Information (names, types, attributes): \n"
            "  error: operation soft: attribute axis: is 5, expected -2 to 1\n"
            "Run time (what the targets can do): no faults\n");
}

TEST(VerifierTest, WarningsAreNotErrors) {
  const NetworkData data = *ParseNetworkText(
      Replaced(kGood, "output %6;", "output %4;"), Ops(), "net");
  EXPECT_EQ(Verify(data).size(), 1u);
  EXPECT_THAT(ToStatus(Verify(data)), IsOk());
}

TEST(VerifierTest, StatusHasTheFirstErrorAndTheirNumber) {
  const NetworkData data = *ParseNetworkText(
      Replaced(kGood, "output %6;", "output %4, %99; order #0;"), Ops(), "net");
  EXPECT_THAT(ToStatus(Verify(data)),
              FailsWith(StatusCode::kDataLoss,
                        AllOf(HasSubstr("operation relu: is not in the order"),
                              HasSubstr("and 2 more faults"))));
}

TEST(VerifierTest, VeryManyFaultsAreCutShort) {
  NetworkData data;
  data.values.resize(30'000);
  for (auto& value : data.values) value.emplace();
  const auto findings = Verify(data);
  EXPECT_EQ(findings.size(), 10'001u);
  EXPECT_EQ(findings.back().found, "more faults than are listed");
  EXPECT_EQ(findings.back().severity, Severity::kError);
}

TEST(VerifierTest, LongCycleIsFoundAndCutShort) {
  Network net("ring");
  ValueId last = net.AddInput("x", TensorType(kFloat32)).value();
  for (int i = 0; i < 100'000; ++i) {
    last = net.Add(Ops(), test_ops::Relu{}, {last}).value();
  }
  NetworkData data = net.data();
  data.operations[0]->inputs = {last};
  data.values[0]->uses.clear();
  data.values[Index(last)]->uses = {{OperationId{0}, 0}};
  const auto findings = Verify(data);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].found,
              AllOf(HasSubstr("depends on itself: Relu_0 -> Relu_1 -> "),
                    HasSubstr(" -> (99969 more) -> "),
                    HasSubstr(" -> Relu_99999 -> Relu_0")));
}

// Ten thousand are listed: the errors first, then warnings as far as there is
// room.
TEST(VerifierLimitTest, WarningsLeaveRoomForErrors) {
  Network net("net");
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  for (int i = 0; i < 10'100; ++i) {
    ASSERT_THAT(net.Add(Ops(), test_ops::Relu{}, {x}), IsOk());
  }
  ASSERT_THAT(net.SetOutputs({x}), IsOk());
  NetworkData data = net.data();
  for (auto& value : data.values) {
    if (value->kind == NetworkValue::Kind::kOutput &&
        value->id > ValueId{100}) {
      value->type.dtype = kInt64;
    }
  }
  const std::vector<Finding> findings = Verify(data);
  ASSERT_EQ(findings.size(), 10'001u);
  EXPECT_EQ(findings.back().kind, network_kinds::kNotListed);
  EXPECT_EQ(findings.back().severity, Severity::kError);
  const auto errors = std::count_if(
      findings.begin(), findings.end(),
      [](const Finding& each) { return each.severity == Severity::kError; });
  EXPECT_EQ(errors, 10'001);
}

}  // namespace
}  // namespace nodewise
