#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contrib/onnx/operator_signatures.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"

// What is against ONNX's specification and could be imported. What its checker
// says of thousands of models is measured (tests/measure).

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> LinesOf(const ModelBuilder& builder,
                                 bool check_specification,
                                 Severity severity = Severity::kError) {
  const std::string bytes = builder.Bytes();
  DiagnosticList diagnostics;
  ImportOptions options;
  options.check_specification = check_specification;
  (void)ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "model.onnx", "", AllOperators(), options, &diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    if (diagnostic.severity != severity) continue;
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

// The errors of a model that can be imported.
std::vector<std::string> ErrorsOf(const ModelBuilder& builder) {
  EXPECT_THAT(LinesOf(builder, false), IsEmpty());
  return LinesOf(builder, true);
}

// x -> Relu -> y, both float32[2] and stated to be so.
ModelBuilder ReluModel(int opset = 13) {
  ModelBuilder builder(opset);
  builder.Input("x", {2});
  ModelBuilder::SetInfo("y", {2}, kOnnxFloat, builder.graph().add_output());
  builder.Node("Relu", {"x"}, {"y"}, "n");
  return builder;
}

TEST(OnnxSpecificationTest, ASoundModelHasNoErrors) {
  EXPECT_THAT(ErrorsOf(ReluModel()), IsEmpty());
}

TEST(OnnxSpecificationTest, AnAttributeThatAConstantDoesNotHaveIsAnError) {
  ModelBuilder builder = ReluModel();
  auto& node = builder.Node("Constant", {}, {"k"}, "c");
  AddAttribute("value_int", 2, &node).set_i(1);
  EXPECT_THAT(ErrorsOf(builder), IsEmpty());
  builder.model().mutable_opset_import(0)->set_version(11);
  EXPECT_THAT(ErrorsOf(builder),
              ElementsAre(HasSubstr("node c (Constant, opset 11): attribute "
                                    "value_int is unknown, expected one that "
                                    "the operator has since opset 11")));
}

TEST(OnnxSpecificationTest, AnOutputOfAnotherTypeThanStatedIsAnError) {
  ModelBuilder builder(13);
  builder.Input("x", {2});
  ModelBuilder::SetInfo("y", {2}, kOnnxFloat, builder.graph().add_output());
  auto& node = builder.Node("Cast", {"x"}, {"y"}, "n");
  AddAttribute("to", 2, &node).set_i(kOnnxInt64);
  EXPECT_THAT(ErrorsOf(builder),
              ElementsAre(HasSubstr("value y: is stated to be float32[2], "
                                    "expected int64[2] as inferred")));
}

TEST(OnnxSpecificationTest, AShapeOtherThanStatedIsAnError) {
  ModelBuilder builder = ReluModel();
  ModelBuilder::SetInfo("y", {-1}, kOnnxFloat,
                        builder.graph().mutable_output(0));
  EXPECT_THAT(ErrorsOf(builder), ElementsAre(HasSubstr("value y: is stated")));
}

// The specification infers nothing from a shape that must be computed.
TEST(OnnxSpecificationTest, AShapeThatOnlyFoldingTellsMayBeStatedOtherwise) {
  ModelBuilder builder(13);
  builder.Input("x", {2, 3});
  ModelBuilder::SetInfo("y", {2, 3}, kOnnxFloat, builder.graph().add_output());
  builder.Ints("a", {3});
  builder.Ints("b", {2});
  auto& node = builder.Node("Concat", {"a", "b"}, {"shape"});
  AddAttribute("axis", 2, &node).set_i(0);
  builder.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_THAT(ErrorsOf(builder), IsEmpty());
}

TEST(OnnxSpecificationTest, AnElementTypeOfALaterOpsetIsAnError) {
  ModelBuilder builder(12);
  builder.Input("x", {2}, 6);
  ModelBuilder::SetInfo("y", {2}, 6, builder.graph().add_output());
  builder.Node("Relu", {"x"}, {"y"}, "n");
  EXPECT_THAT(LinesOf(builder, true),
              ElementsAre(HasSubstr("node n (Relu, opset 12)")));
}

TEST(OnnxSpecificationTest, FieldsThatContradictEachOtherAreErrors) {
  ModelBuilder builder = ReluModel();
  auto& node = builder.Node("Softmax", {"x"}, {"s"}, "soft");
  auto& attribute = AddAttribute("axis", 2, &node);
  attribute.set_i(0);
  attribute.set_f(1);
  EXPECT_THAT(ErrorsOf(builder),
              ElementsAre(HasSubstr("attribute axis has 2 values")));
}

TEST(OnnxSpecificationTest, WhatIsMissingIsAnError) {
  ModelBuilder builder = ReluModel();
  builder.graph().clear_name();
  builder.graph().mutable_output(0)->clear_type();
  builder.model().mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_THAT(ErrorsOf(builder),
              ElementsAre(HasSubstr("graph: has no name"),
                          HasSubstr("output y: has no type"),
                          HasSubstr("is of domain \"\", which is not")));
}

TEST(OnnxSpecificationTest, ANameOfABodyThatIsThereAroundItIsAnError) {
  ModelBuilder builder = ReluModel();
  builder.Input("c", {}, 9);
  auto& node = builder.Node("If", {"c"}, {"z"}, "choice");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    body.set_name("body");
    ModelBuilder::SetNode("Neg", {"x"}, {"y"}, "inner", body.add_node());
    body.add_output()->set_name("y");
  }
  EXPECT_THAT(ErrorsOf(builder),
              testing::Each(HasSubstr("output y is there already")));
  EXPECT_EQ(LinesOf(builder, true).size(), 2);
}

TEST(OnnxSpecificationTest, AFlagThatIsNeitherZeroNorOneIsAWarning) {
  ModelBuilder builder(11);
  builder.Input("x", {2, 3}).Output("y");
  auto& node = builder.Node("ReduceSum", {"x"}, {"y"}, "n");
  AddAttribute("keepdims", 2, &node).set_i(5);
  // onnxruntime and ONNX's own inference compare it with 1.
  EXPECT_THAT(LinesOf(builder, false, Severity::kWarning),
              ElementsAre(HasSubstr("attribute keepdims is 5, expected 0 or 1 "
                                    "(it is taken as 0)")));
}

TEST(OnnxSpecificationTest, AModelWithoutOutputsIsAWarning) {
  ModelBuilder builder = ReluModel();
  builder.graph().clear_output();
  EXPECT_THAT(LinesOf(builder, true), IsEmpty());
}

TEST(OnnxSpecificationTest, ABodyIsReadAfterWhatItReadsOfTheGraphAroundIt) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Input("c", {}, 9).Output("y");
  auto& choice = builder.Node("If", {"c"}, {"y"}, "choice");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &choice).mutable_g();
    ModelBuilder::SetNode("Neg", {"inner"}, {"z"}, "n", body.add_node());
    ModelBuilder::SetNode("Neg", {"late"}, {"inner"}, "m", body.add_node());
    body.add_output()->set_name("z");
  }
  builder.Node("Neg", {"x"}, {"late"}, "outer");
  EXPECT_THAT(LinesOf(builder, false), IsEmpty());
  const auto found = LinesOf(builder, false, Severity::kWarning);
  EXPECT_EQ(found.size(), 3);
  EXPECT_THAT(found, testing::Each(HasSubstr("the import sorts them")));
}

TEST(OperatorSignaturesTest, AnOperatorIsFoundByItsVersion) {
  EXPECT_EQ(FindSignature("", "Relu", 5)->since, 1);
  EXPECT_EQ(FindSignature("", "Relu", 13)->since, 13);
  EXPECT_EQ(FindSignature("", "Gelu", 19), nullptr);
  EXPECT_EQ(FindSignature("other", "Relu", 13), nullptr);
  EXPECT_TRUE(FindSignature("", "Upsample", 10)->is_deprecated);
}

TEST(OperatorSignaturesTest, EveryOperatorOfOursIsOneOfOnnx) {
  for (const OperatorDef* const row : AllOperators().rows()) {
    if (!row->domain.empty()) continue;
    EXPECT_NE(FindSignature("", row->name, row->since), nullptr) << row->name;
  }
}

}  // namespace
}  // namespace nodewise
