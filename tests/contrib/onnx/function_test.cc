#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/ir/network_text.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

nodewise_onnx::Function& AddFunction(const std::string& name,
                                     const std::vector<std::string>& inputs,
                                     const std::vector<std::string>& outputs,
                                     ModelBuilder* builder) {
  if (builder->model().functions_size() == 0) {
    auto& import = *builder->model().add_opset_import();
    import.set_domain("local");
    import.set_version(1);
  }
  nodewise_onnx::Function& function = *builder->model().add_functions();
  function.set_name(name);
  function.set_domain("local");
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  return function;
}

nodewise_onnx::Node& Call(const std::string& name,
                          const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs,
                          nodewise_onnx::Node* node) {
  node->set_domain("local");
  return ModelBuilder::SetNode(name, inputs, outputs, "", node);
}

// Twice(a) = Neg(Neg(a)).
ModelBuilder TwiceModel() {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& function = AddFunction("Twice", {"a"}, {"c"}, &builder);
  ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", function.add_node());
  ModelBuilder::SetNode("Neg", {"b"}, {"c"}, "", function.add_node());
  Call("Twice", {"x"}, {"y"}, builder.graph().add_node());
  return builder;
}

TEST(OnnxFunctionTest, ACallGivesWayToWhatIsInTheFunction) {
  const Network network = TwiceModel().Import().value();
  EXPECT_THAT(network.FindOperation("Twice_0/Neg_0"), IsOk());
  EXPECT_THAT(network.FindOperation("Twice_0/Neg_1"), IsOk());
  EXPECT_THAT(network.FindValue("Twice_0/b"), IsOk());
  EXPECT_THAT(network.FindValue("y"), IsOk());
}

TEST(OnnxFunctionTest, TheDomainOfAFunctionIsImportedToo) {
  ModelBuilder builder = TwiceModel();
  builder.model().mutable_opset_import()->RemoveLast();
  EXPECT_THAT(builder.Import(),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("node Twice_0 (local.Twice): is of a domain "
                                  "that the model does not import")));
}

TEST(OnnxFunctionTest, FunctionsCallFunctions) {
  ModelBuilder builder = TwiceModel();
  auto& outer = AddFunction("Outer", {"p"}, {"r"}, &builder);
  Call("Twice", {"p"}, {"q"}, outer.add_node());
  Call("Twice", {"q"}, {"r"}, outer.add_node());
  builder.graph().mutable_node(0)->set_op_type("Outer");
  const Network network = builder.Import().value();
  EXPECT_EQ(network.order().size(), 4);
  EXPECT_THAT(network.FindOperation("Outer_0/Twice_1/Neg_1"), IsOk());
}

TEST(OnnxFunctionTest, WhatIsPassedOnAsItIsHasTheNameOfTheCall) {
  const std::vector<std::string> cases[] = {{"a", "b"}, {"b", "b"}};
  for (const std::vector<std::string>& outputs : cases) {
    ModelBuilder builder;
    builder.Input("x", {2}).Output("y").Output("z");
    auto& function = AddFunction("Both", {"a"}, outputs, &builder);
    ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", function.add_node());
    Call("Both", {"x"}, {"y", "z"}, builder.graph().add_node());
    const Network network = builder.Import().value();
    ASSERT_EQ(network.outputs().size(), 2);
    EXPECT_EQ(network.value(network.outputs()[0]).name, "y");
    EXPECT_EQ(network.value(network.outputs()[1]).name, "z");
    EXPECT_EQ(network.order().size(), 2);
  }
}

TEST(OnnxFunctionTest, AttributesGoFromTheCallIntoTheFunction) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& function = AddFunction("Grow", {"a"}, {"b"}, &builder);
  function.add_attribute("by");
  auto& with_default = *function.add_attribute_proto();
  with_default.set_name("more");
  with_default.set_type(1);
  with_default.set_f(2);
  auto& scale =
      ModelBuilder::SetNode("Scale", {"a"}, {"b"}, "", function.add_node());
  AddAttribute("factor", 1, &scale).set_ref_attr_name("by");
  AddAttribute("offset", 1, &scale).set_ref_attr_name("more");
  auto& call = Call("Grow", {"x"}, {"y"}, builder.graph().add_node());
  AddAttribute("by", 1, &call).set_f(3);
  const Network network = builder.Import().value();
  const auto attrs = NamedAttrsOf(network.operation(network.order()[0]).attrs);
  EXPECT_EQ(std::get<float>(attrs[0].value), 3);
  EXPECT_EQ(std::get<float>(attrs[1].value), 2);
}

TEST(OnnxFunctionTest, AFunctionThatCallsItselfIsRefused) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& function = AddFunction("Loop", {"a"}, {"b"}, &builder);
  Call("Loop", {"a"}, {"b"}, function.add_node());
  Call("Loop", {"x"}, {"y"}, builder.graph().add_node());
  EXPECT_THAT(builder.Import(),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("calls itself: Loop -> Loop")));
}

TEST(OnnxFunctionTest, FunctionsThatMakeMuchOfLittleAreRefused) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& last = AddFunction("F0", {"a"}, {"b"}, &builder);
  ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", last.add_node());
  for (int i = 1; i < 40; ++i) {
    auto& next = AddFunction("F" + std::to_string(i), {"a"}, {"b"}, &builder);
    const std::string callee = "F" + std::to_string(i - 1);
    Call(callee, {"a"}, {"m"}, next.add_node());
    Call(callee, {"m"}, {"b"}, next.add_node());
  }
  Call("F39", {"x"}, {"y"}, builder.graph().add_node());
  EXPECT_THAT(builder.Import(),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("functions call each other too often")));
}

TEST(OnnxFunctionTest, ACallThatDoesNotFitIsRefused) {
  ModelBuilder builder = TwiceModel();
  builder.graph().mutable_node(0)->add_input("x");
  EXPECT_THAT(builder.Import(),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("has 2 inputs and 1 outputs")));
}

TEST(OnnxFunctionTest, AnAttributeThatTheFunctionDoesNotHaveIsIgnored) {
  ModelBuilder builder = TwiceModel();
  AddAttribute("by", 1, builder.graph().mutable_node(0));
  DiagnosticList diagnostics;
  EXPECT_THAT(builder.Import({}, &diagnostics), IsOk());
  EXPECT_THAT(diagnostics.items().at(0).ToString(),
              HasSubstr("attribute by is unknown, expected one of function "
                        "Twice (it is ignored)"));
}

TEST(OnnxFunctionTest, AnInputThatIsNotGivenIsNotGivenInside) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& function = AddFunction("Squashed", {"a", "axes"}, {"b"}, &builder);
  ModelBuilder::SetNode("Squash", {"a", "axes"}, {"b"}, "",
                        function.add_node());
  Call("Squashed", {"x"}, {"y"}, builder.graph().add_node());
  const Network network = builder.Import().value();
  EXPECT_EQ(network.operation(network.order()[0]).inputs.size(), 1);
}

TEST(OnnxFunctionTest, AnAttributeThatIsNotGivenIsNotGivenInside) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& function = AddFunction("Grow", {"a"}, {"b"}, &builder);
  function.add_attribute("by");
  auto& scale =
      ModelBuilder::SetNode("Scale", {"a"}, {"b"}, "", function.add_node());
  AddAttribute("factor", 1, &scale).set_ref_attr_name("by");
  Call("Grow", {"x"}, {"y"}, builder.graph().add_node());
  EXPECT_THAT(builder.Import(), FailsWith(absl::StatusCode::kDataLoss,
                                          HasSubstr("factor: is missing")));
}

// --- Bodies -----------------------------------------------------------------

// y = which ? -x : -(x + w), with x and w from around the bodies.
ModelBuilder ChooseModel() {
  ModelBuilder builder;
  builder.Input("which", {}, 9).Input("x", {2}).Output("y");
  builder.Floats("w", {1, 2});
  auto& node = builder.Node("Choose", {"which"}, {"y"}, "choose");
  auto& otherwise = *AddAttribute("else_branch", 5, &node).mutable_g();
  ModelBuilder::SetNode("Plus", {"x", "w"}, {"s"}, "", otherwise.add_node());
  ModelBuilder::SetNode("Neg", {"s"}, {"e"}, "", otherwise.add_node());
  otherwise.set_name("else");
  otherwise.add_output()->set_name("e");
  auto& then = *AddAttribute("then_branch", 5, &node).mutable_g();
  ModelBuilder::SetNode("Neg", {"x"}, {"t"}, "", then.add_node());
  then.set_name("then");
  then.add_output()->set_name("t");
  return builder;
}

TEST(OnnxBodyTest, WhatABodyReadsFromOutsideIsAnInput) {
  const Network network = ChooseModel().Import().value();
  const Operation& choose =
      network.operation(network.FindOperation("choose").value());
  // which, x for either body; w is a constant inside.
  ASSERT_EQ(choose.inputs.size(), 3);
  EXPECT_EQ(network.value(choose.inputs[1]).name, "x");
  EXPECT_EQ(network.value(choose.inputs[2]).name, "x");
  const auto attrs = NamedAttrsOf(choose.attrs);
  const Subgraph& otherwise = std::get<Subgraph>(attrs[1].value);
  EXPECT_EQ(otherwise.captures, 1);
  EXPECT_EQ(otherwise.body->name(), "else");
  EXPECT_EQ(ToString(otherwise.body->value(otherwise.body->outputs()[0]).type),
            "float32[2]");
}

TEST(OnnxBodyTest, FaultsInABodyNameItsNodeAndTheBody) {
  ModelBuilder builder = ChooseModel();
  builder.graph()
      .mutable_node(0)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_node(1)
      ->set_op_type("Nag");
  EXPECT_THAT(
      builder.Import(),
      FailsWith(absl::StatusCode::kDataLoss,
                HasSubstr("model.onnx: node choose (Choose, opset 13): "
                          "else_branch: node Nag_1 (Nag, opset 13): ")));
}

TEST(OnnxBodyTest, FaultsBehindABodyAreNotOfIt) {
  ModelBuilder builder = ChooseModel();
  builder.Node("Nag", {"x"}, {"z"});
  EXPECT_THAT(builder.Import(),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("model.onnx: node Nag_1 (Nag, opset 13)")));
}

// Gives the first side of a value a name.
void NameSide(const char* name, nodewise_onnx::ValueInfo* info) {
  info->clear_type();
  ModelBuilder::SetInfo(info->name(), {0}, kOnnxFloat, info);
  auto& shape = *info->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param(name);
}

// Returns the type of the else branch's own input.
std::string TypeInBody(const ModelBuilder& builder,
                       const ImportOptions& options) {
  const Network network = builder.Import(options).value();
  const Operation& choose =
      network.operation(network.FindOperation("choose").value());
  const auto attrs = NamedAttrsOf(choose.attrs);
  const Network& body = *std::get<Subgraph>(attrs[1].value).body;
  return ToString(body.value(body.FindValue("own").value()).type);
}

TEST(OnnxBodyTest, NamesOfSidesInABodySayNothing) {
  ModelBuilder builder = ChooseModel();
  NameSide("n", builder.graph().mutable_input(1));
  auto& body =
      *builder.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  body.add_input()->set_name("own");
  NameSide("n", body.mutable_input(0));
  NameSide("m", body.mutable_output(0));
  EXPECT_EQ(TypeInBody(builder, {}), "float32[?]");
  EXPECT_EQ(TypeInBody(builder, {.dims = {{"n", 2}}}), "float32[?]");
  EXPECT_THAT(builder.Import({.dims = {{"m", 2}}}),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("dimension m: is not in the model")));
}

TEST(OnnxBodyTest, BodiesInBodiesSeeAllAroundThem) {
  ModelBuilder builder = ChooseModel();
  const ModelBuilder inner = ChooseModel();
  auto& then =
      *builder.graph().mutable_node(0)->mutable_attribute(1)->mutable_g();
  *then.add_node() = ModelBuilder(inner).graph().node(0);
  then.mutable_node(1)->set_output(0, "inner");
  then.add_output()->set_name("inner");
  const Network network = builder.Import().value();
  const Operation& choose =
      network.operation(network.FindOperation("choose").value());
  // x and which for one body, x for the other.
  EXPECT_EQ(choose.inputs.size(), 4);
}

TEST(OnnxBodyTest, TooManyBodiesWithinEachOtherAreRefused) {
  nodewise_onnx::Graph graph;
  graph.add_output()->set_name("x");
  for (int i = 0; i < 200; ++i) {
    nodewise_onnx::Graph outer;
    auto& node =
        ModelBuilder::SetNode("Choose", {"which"}, {"y"}, "", outer.add_node());
    AddAttribute("then_branch", 5, &node).mutable_g()->Swap(&graph);
    outer.add_output()->set_name("y");
    graph.Swap(&outer);
  }
  ModelBuilder builder;
  builder.graph().Swap(&graph);
  EXPECT_THAT(builder.Import(), FailsWith(absl::StatusCode::kDataLoss,
                                          HasSubstr("is not an ONNX model")));
}

}  // namespace
}  // namespace nodewise
