#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

// Models with real operators.

namespace nodewise {
namespace {

using testing::ElementsAre;

absl::StatusOr<Network> ImportBytes(const std::string& bytes,
                                    const ImportOptions& options = {}) {
  DiagnosticList diagnostics;
  return ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "model.onnx", "", AllOperators(), options, &diagnostics);
}

std::vector<std::string> KindsOf(const Network& network) {
  std::vector<std::string> kinds;
  for (const OperationId id : network.order()) {
    kinds.emplace_back(network.operation(id).kind());
  }
  return kinds;
}

// y = x split into four parts and joined, or Relu(x + k), depending on whether
// `second` is 1.
ModelBuilder BranchModel(int64_t second) {
  ModelBuilder builder(18);
  builder.Input("x", {5}).Output("y");
  builder.Ints("first", {1});
  builder.Ints("second", {second});
  builder.Node("Equal", {"first", "second"}, {"same"});
  auto& node = builder.Node("If", {"same"}, {"y"}, "choose");
  auto& split = *AddAttribute("then_branch", 5, &node).mutable_g();
  auto& parts = ModelBuilder::SetNode("Split", {"x"}, {"a", "b", "c", "d"}, "",
                                      split.add_node());
  AddAttribute("num_outputs", 2, &parts).set_i(4);
  auto& joined = ModelBuilder::SetNode("Concat", {"a", "b", "c", "d"}, {"s"},
                                       "", split.add_node());
  AddAttribute("axis", 2, &joined).set_i(0);
  split.add_output()->set_name("s");
  auto& relu = *AddAttribute("else_branch", 5, &node).mutable_g();
  auto& k = *relu.add_initializer();
  k.set_name("k");
  k.set_data_type(kOnnxFloat);
  k.add_float_data(1);
  ModelBuilder::SetNode("Add", {"x", "k"}, {"t"}, "", relu.add_node());
  ModelBuilder::SetNode("Relu", {"t"}, {"r"}, "last", relu.add_node());
  relu.add_output()->set_name("r");
  return builder;
}

// A side of 5 does not split into four parts, but nothing splits it.
TEST(OnnxBranchTest, WhatIsNeverTakenNeedNotFit) {
  const auto network = ImportBytes(BranchModel(2).Bytes());
  ASSERT_THAT(network, IsOk());
  EXPECT_THAT(KindsOf(*network), ElementsAre("Add", "Relu"));
  const auto y = Interpret(*network, {Floats({-3, -2, -1, 0, 1})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf((*y)[0]), ElementsAre(0, 0, 0, 1, 2));
}

TEST(OnnxBranchTest, TheOutputKeepsItsNameAndNodesAreNamedAfterTheIf) {
  const auto network = ImportBytes(BranchModel(2).Bytes());
  ASSERT_THAT(network, IsOk());
  EXPECT_EQ(network->value(network->outputs()[0]).name, "y");
  EXPECT_THAT(network->FindOperation("choose/last"), IsOk());
  EXPECT_THAT(network->FindValue("choose/t"), IsOk());
}

TEST(OnnxBranchTest, WhatIsTakenMustFit) {
  EXPECT_FALSE(ImportBytes(BranchModel(1).Bytes()).ok());
}

TEST(OnnxBranchTest, WithoutFoldingBothMustFit) {
  EXPECT_FALSE(
      ImportBytes(BranchModel(2).Bytes(), {.fold_shapes = false}).ok());
}

TEST(OnnxBranchTest, AConditionThatIsAnInputLeavesTheIf) {
  ModelBuilder builder(18);
  builder.Input("x", {2}).Input("which", {}, 9).Output("y");
  auto& node = builder.Node("If", {"which"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    ModelBuilder::SetNode("Relu", {"x"}, {"r"}, "", body.add_node());
    body.add_output()->set_name("r");
  }
  const auto network = ImportBytes(builder.Bytes());
  ASSERT_THAT(network, IsOk());
  EXPECT_THAT(KindsOf(*network), ElementsAre("If"));
}

// A side of 5 does not split into four parts.
TEST(OnnxBranchTest, ABranchThatFreezingRulesOutIsNotAFaultAndTheHintSaysSo) {
  ModelBuilder builder = BranchModel(2);
  builder.Input("which", {1}, kOnnxInt64);
  builder.graph().mutable_node(0)->set_input(1, "which");
  DiagnosticList diagnostics;
  const std::string bytes = builder.Bytes();
  const absl::Span<const uint8_t> span(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  EXPECT_FALSE(
      ImportOnnx(span, "model.onnx", "", AllOperators(), {}, &diagnostics)
          .ok());
  ASSERT_EQ(diagnostics.items().size(), 1);
  EXPECT_EQ(diagnostics.items()[0].hint,
            "a branch that is never taken is left out where these are "
            "constants: which (ImportOptions::freeze)");
  EXPECT_THAT(
      ImportBytes(bytes,
                  {.freeze = {{"which", MakeTensor<int64_t>({1}, {2})}}}),
      IsOk());
}

// An If whose condition is known would give one value two names.
TEST(OnnxBranchTest, ABranchThatGivesOneValueTwiceLeavesTheIf) {
  ModelBuilder builder(18);
  builder.Input("x", {2}).Output("y").Output("z");
  builder.Ints("one", {1});
  builder.Node("Equal", {"one", "one"}, {"same"});
  auto& node = builder.Node("If", {"same"}, {"y", "z"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    ModelBuilder::SetNode("Relu", {"x"}, {"r"}, "", body.add_node());
    body.add_output()->set_name("r");
    body.add_output()->set_name("r");
  }
  const auto network = ImportBytes(builder.Bytes());
  ASSERT_THAT(network, IsOk());
  EXPECT_EQ(network->value(network->outputs()[0]).name, "y");
  EXPECT_EQ(network->value(network->outputs()[1]).name, "z");
}

TEST(OnnxDeprecatedTest, AnOperatorThatHasEndedIsAWarningWithItsSuccessor) {
  const auto diagnostics_of = [](int opset) {
    ModelBuilder builder(opset);
    builder.Input("x", {3}).Input("u", {1}).Output("y");
    builder.Ints("i", {0});
    builder.Node("Scatter", {"x", "i", "u"}, {"y"}, "old");
    DiagnosticList diagnostics;
    const std::string bytes = builder.Bytes();
    EXPECT_THAT(ImportOnnx({reinterpret_cast<const uint8_t*>(bytes.data()),
                            bytes.size()},
                           "model.onnx", "", AllOperators(), {}, &diagnostics),
                IsOk());
    return diagnostics;
  };
  EXPECT_TRUE(diagnostics_of(10).items().empty());
  const DiagnosticList diagnostics = diagnostics_of(11);
  ASSERT_EQ(diagnostics.items().size(), 1);
  EXPECT_EQ(diagnostics.items()[0].ToString(),
            "model.onnx: node old (Scatter, opset 11): is deprecated from "
            "opset 11 on, expected ScatterElements");
}

TEST(OnnxDeprecatedTest, OneOfAnOpsetThatHasItAgainGivesNoWarning) {
  ModelBuilder builder(21);
  builder.Input("x", {1, 2, 3}).Output("y");
  builder.Floats("s", {1, 1});
  auto& node = builder.Node("GroupNormalization", {"x", "s", "s"}, {"y"});
  AddAttribute("num_groups", 2, &node).set_i(1);
  DiagnosticList diagnostics;
  const std::string bytes = builder.Bytes();
  EXPECT_THAT(
      ImportOnnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                 "model.onnx", "", AllOperators(), {}, &diagnostics),
      IsOk());
  EXPECT_TRUE(diagnostics.items().empty());
}

// Splits x into three parts, of which some are not wanted.
ModelBuilder PartsModel(const std::vector<std::string>& names) {
  ModelBuilder builder(18);
  builder.Input("x", {6});
  for (const std::string& name : names) {
    if (!name.empty()) builder.Output(name);
  }
  auto& node = builder.Node("Split", {"x"}, names);
  AddAttribute("num_outputs", 2, &node).set_i(3);
  return builder;
}

TEST(OnnxSkippedOutputTest, OutputsKeepTheirPlaceWhereverOneIsLeftOut) {
  const struct {
    std::vector<std::string> names;
    float first;
    float last;
  } cases[] = {
      {{"a", "", "c"}, 1, 5}, {{"", "b", "c"}, 3, 5}, {{"a", "b", ""}, 1, 3}};
  for (const auto& one : cases) {
    const auto network = ImportBytes(PartsModel(one.names).Bytes());
    ASSERT_THAT(network, IsOk());
    // Through a file and back.
    const auto again = ImportBytes(ExportOnnx(*network).value());
    ASSERT_THAT(again, IsOk());
    for (const Network* each : {&*network, &*again}) {
      const auto parts = Interpret(*each, {Floats({1, 2, 3, 4, 5, 6})});
      ASSERT_THAT(parts, IsOk());
      EXPECT_THAT(ValuesOf((*parts)[0]), ElementsAre(one.first, one.first + 1));
      EXPECT_THAT(ValuesOf((*parts)[1]), ElementsAre(one.last, one.last + 1));
    }
  }
}

}  // namespace
}  // namespace nodewise
