#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/passes/known_part.h"
#include "tests/contrib/onnx/opaque_models.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

// Opaque operations that have bodies, and bodies that have such operations.

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = Twice(x) with a body that reads `a` from around it and has `b` itself.
ModelBuilder BodyModel() {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y");
  builder.Node("Relu", {"x"}, {"a"}, "relu");
  auto& twice = Vendor(builder.Node("Twice", {"x"}, {"y"}, "twice"));
  auto& body = *AddAttribute("body", 5, &twice).mutable_g();
  body.set_name("body");
  ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", body.add_node());
  ModelBuilder::SetNode("Add", {"b", "a"}, {"c"}, "", body.add_node());
  body.add_output()->set_name("c");
  return builder;
}

TEST(OpaqueBodyTest, WhatABodyReadsFromAroundIsAnInput) {
  const Network network = ImportWhole(BodyModel().Bytes()).value();
  const ops::Opaque& twice = OpaqueNamed(network, "twice");
  EXPECT_THAT(twice.captures, ElementsAre("a"));
  EXPECT_THAT(twice.body_domains, ElementsAre("", kVendor));
  const Operation& operation =
      network.operation(network.FindOperation("twice").value());
  ASSERT_EQ(operation.inputs.size(), 2);
  EXPECT_EQ(network.value(operation.inputs[1]).name, "a");
}

TEST(OpaqueBodyTest, ABodyReadsByTheNamesThatThereAreNow) {
  Network network = ImportWhole(BodyModel().Bytes()).value();
  ASSERT_THAT(network.Rename(network.FindValue("a").value(), "other"), IsOk());
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  const auto& node = written.graph().node(1);
  EXPECT_THAT(node.input(), ElementsAre("x"));
  EXPECT_EQ(node.attribute(0).g().node(0).input(0), "other");
  EXPECT_EQ(node.attribute(0).g().node(1).input(1), "other");
  ASSERT_THAT(network.Rename(network.FindValue("other").value(), "b"), IsOk());
  EXPECT_THAT(
      ExportOnnx(network),
      FailsWith(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("b, which its body reads, has the name of a value in it")));
}

TEST(OpaqueBodyTest, ABodyThatReadsNothingKnownIsAnError) {
  ModelBuilder builder = BodyModel();
  builder.graph()
      .mutable_node(1)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_node(0)
      ->set_input(0, "nowhere");
  EXPECT_THAT(ImportWhole(builder.Bytes()),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("(nowhere) is made by nothing")));
}

TEST(OpaqueBodyTest, ABranchMayHaveOpaqueOperations) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Input("c", {}, 9).Output("y");
  auto& node = builder.Node("If", {"c"}, {"y"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    body.set_name(name);
    Vendor(ModelBuilder::SetNode("Magic", {"x"}, {"m"}, "", body.add_node()));
    ModelBuilder::SetInfo("m", {2}, kOnnxFloat, body.add_output());
  }
  const Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_THAT(ToStatus(Verify(network.data())), IsOk());
  const auto operators = OpaqueOperators(network);
  ASSERT_EQ(operators.size(), 1);
  EXPECT_THAT(operators[0].operations, ElementsAre("if"));
  EXPECT_THAT(ImportWhole(ExportOnnx(network).value()), IsOk());
}

TEST(OpaqueBodyTest, ABodyOfControlFlowMayRunIt) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Input("c", {}, 9).Output("y");
  auto& node = builder.Node("If", {"c"}, {"y"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    body.set_name(name);
    Vendor(ModelBuilder::SetNode("Magic", {"x"}, {"m"}, "", body.add_node()));
    ModelBuilder::SetNode("Neg", {"m"}, {"n"}, "", body.add_node());
    body.add_output()->set_name("n");
  }
  const Network network = ImportWhole(builder.Bytes()).value();
  const WithRunner running(std::make_shared<Doubler>());
  const auto outputs = Interpret(
      network, {Floats({1, -3}), MakeTensor<uint8_t>({}, {1}, kBool)});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ(ValuesOf((*outputs)[0]), (std::vector<float>{-2, 6}));
}

}  // namespace
}  // namespace nodewise
