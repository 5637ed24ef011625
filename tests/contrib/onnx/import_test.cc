#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> LinesOf(const DiagnosticList& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

// Returns all faults of a model that cannot be imported.
std::vector<std::string> DiagnosticsOf(const ModelBuilder& builder,
                                       const ImportOptions& options = {}) {
  DiagnosticList diagnostics;
  const auto network = builder.Import(options, &diagnostics);
  EXPECT_EQ(network.ok(), !diagnostics.HasErrors());
  return LinesOf(diagnostics);
}

const NetworkValue& ValueNamed(const Network& network,
                               const std::string& name) {
  return network.value(network.FindValue(name).value());
}

TEST(OnnxImportTest, ANodeBecomesAnOperationWithItsNames) {
  const Network network = NegModel().Import().value();
  ASSERT_EQ(network.order().size(), 1);
  const Operation& neg = network.operation(network.order()[0]);
  EXPECT_EQ(neg.name, "n");
  EXPECT_EQ(neg.kind(), "Neg");
  EXPECT_EQ(ToString(ValueNamed(network, "y").type), "float32[2]");
  EXPECT_EQ(network.name(), "net");
  EXPECT_EQ(network.opset(), 13);
}

TEST(OnnxImportTest, ANodeWithoutNameIsNamedAfterOperatorAndNumber) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("z");
  builder.Node("Neg", {"x"}, {"y"});
  builder.Node("Neg", {"y"}, {"z"});
  const Network network = builder.Import().value();
  EXPECT_THAT(network.FindOperation("Neg_1"), IsOk());
}

TEST(OnnxImportTest, AnInputThatIsAnInitializerTooIsAConstant) {
  ModelBuilder builder;
  builder.Input("x", {2}).Input("w", {2}).Output("y");
  builder.Floats("w", {1, 2});
  builder.Node("Plus", {"x", "w"}, {"y"});
  const Network network = builder.Import().value();
  EXPECT_EQ(network.inputs().size(), 1);
  EXPECT_EQ(ValuesOf(ValueNamed(network, "w").data),
            (std::vector<float>{1, 2}));
}

TEST(OnnxImportTest, AConstantNodeIsAConstant) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  auto& node = builder.Node("Constant", {}, {"c"});
  AddAttribute("value_floats", 6, &node).add_floats(3);
  builder.Node("Plus", {"x", "c"}, {"y"});
  const Network network = builder.Import({.fold_shapes = false}).value();
  EXPECT_EQ(ValueNamed(network, "c").kind, NetworkValue::Kind::kConstant);
}

TEST(OnnxImportTest, AttributesThatAreNotGivenHaveTheirDefaults) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  auto& node = builder.Node("Scale", {"x"}, {"y"});
  AddAttribute("factor", 1, &node).set_f(3);
  const Network network = builder.Import().value();
  const auto attrs = NamedAttrsOf(network.operation(network.order()[0]).attrs);
  ASSERT_EQ(attrs.size(), 2);
  EXPECT_EQ(std::get<float>(attrs[0].value), 3);
  EXPECT_EQ(std::get<float>(attrs[1].value), 0);
}

TEST(OnnxImportTest, AllFaultsComeInOnePass) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("Nag", {"x"}, {"a"}, "first");
  builder.Node("Scale", {"a"}, {"b"}, "second");
  auto& node = builder.Node("Fused", {"x"}, {"c"}, "third");
  node.set_domain("com.microsoft");
  builder.Node("Late", {"x"}, {"d"}, "fourth");
  builder.Node("Plus", {"b", "gone"}, {"y"}, "fifth");
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(
          "model.onnx: node first (Nag, opset 13): is not known, expected an "
          "operator that is known; did you mean Neg?",
          AllOf(HasSubstr("node second (Scale, opset 13)"),
                HasSubstr("factor: is missing")),
          HasSubstr("node third (com.microsoft.Fused): is of a domain that "
                    "the model does not import"),
          "model.onnx: node fourth (Late, opset 13): is not known, expected "
          "opset 15 or more",
          HasSubstr("node fifth (Plus, opset 13): input 1 (gone) is made by "
                    "nothing")));
}

TEST(OnnxImportTest, OneFaultOfManyNodesOfAnOperatorIsSaidOnce) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("x");
  for (const std::string name : {"a", "b", "c"}) {
    builder.Node("Fused", {"x"}, {name}, "make_" + name).set_domain("own");
  }
  builder.Node("Nag", {"x"}, {"d"}, "one");
  builder.Node("Nag", {"x"}, {"e"}, "other");
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(HasSubstr("own.Fused, 3 operations (make_a, make_b, make_c): "
                            "is of domain own, expected"),
                  HasSubstr("Nag, 2 operations (one, other): is not known")));
}

TEST(OnnxImportTest, AFullListOfFaultsStaysAsItIs) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("x");
  for (int i = 0; i < 22000; ++i) {
    const std::string n = std::to_string(i);
    builder.Node("Nag" + std::to_string(i / 2), {"x"}, {"y" + n}, "n" + n);
  }
  const std::vector<std::string> lines = DiagnosticsOf(builder);
  EXPECT_THAT(lines.front(), HasSubstr("Nag0, 2 operations (n0, n1): "));
  EXPECT_THAT(lines.back(), HasSubstr("more faults than are listed"));
}

TEST(OnnxImportTest, WhatReadsABrokenNodeStaysQuiet) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("z");
  builder.Node("Nag", {"x"}, {"y"});
  builder.Node("Neg", {"y"}, {"z"});
  EXPECT_EQ(DiagnosticsOf(builder).size(), 1);
}

TEST(OnnxImportTest, RestrictionsOfOperatorsAreFaultsOfTheirNodes) {
  ModelBuilder builder;
  builder.Input("x", {2}, kOnnxInt64).Output("y");
  builder.Node("Neg", {"x"}, {"y"}, "n");
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(AllOf(HasSubstr("node n (Neg, opset 13)"),
                                HasSubstr("input X: is not a float"))));
}

TEST(OnnxImportTest, VersionsThatAreTooOldAreRefused) {
  EXPECT_THAT(
      DiagnosticsOf(NegModel(0)),
      testing::Contains(HasSubstr("opset of ai.onnx is 0, expected 1")));
  ModelBuilder builder = NegModel();
  builder.model().set_ir_version(2);
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre("model.onnx: ir_version: is 2, expected 3 or more"));
}

TEST(OnnxImportTest, ANewerIrIsReadAsTheNewestThatIsKnown) {
  ModelBuilder builder = NegModel();
  builder.model().set_ir_version(99);
  EXPECT_THAT(builder.Import(), IsOk());
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre("model.onnx: ir_version: is 99, which is newer than what is "
                  "known, expected 3 to 14 (the model is read as one of 14)"));
}

TEST(OnnxImportTest, OperatorsOfANewerOpsetAreSaidOnceEach) {
  ModelBuilder builder(99);
  builder.Input("x", {2}).Output("y");
  builder.Node("Neg", {"x"}, {"a"});
  builder.Node("Late", {"a"}, {"b"});
  builder.Node("Neg", {"b"}, {"y"});
  const auto network = builder.Import();
  ASSERT_THAT(network, IsOk());
  EXPECT_EQ(network->opset(), kNewestOpset);
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(HasSubstr("operator Neg: is of opset 99, taken as that of "
                            "opset 6, expected opset 28 or less"),
                  HasSubstr("operator Late: is of opset 99, taken as that of "
                            "opset 15")));
}

TEST(OnnxImportTest, AnOperatorThatANewerOpsetBringsIsNotKnown) {
  ModelBuilder builder(99);
  builder.Input("x", {2}).Output("y");
  builder.Node("Nag", {"x"}, {"y"});
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr("is not known, expected an operator of "
                                    "opset 28 or less")));
}

TEST(OnnxImportTest, ADomainMayBeImportedTwiceAsOneVersion) {
  ModelBuilder builder = NegModel();
  builder.model().add_opset_import()->set_version(13);
  EXPECT_THAT(builder.Import(), IsOk());
  builder.model().mutable_opset_import(1)->set_version(14);
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr("domain \"\" is imported as 13 and as 14, "
                                    "expected one version (the last is "
                                    "taken)")));
  EXPECT_EQ(builder.Import()->opset(), 14);
}

TEST(OnnxImportTest, OperatorsOnOtherThanNumbersAreNotSupported) {
  const struct {
    const char* name;
    const char* reason;
  } cases[] = {{"SequenceAt", "it works on sequences of tensors"},
               {"OptionalHasElement", "it works on optional values"},
               {"StringSplit", "it works on strings"}};
  for (const auto& c : cases) {
    ModelBuilder builder;
    builder.Input("x", {2}).Output("y");
    builder.Node(c.name, {"x"}, {"y"});
    EXPECT_THAT(DiagnosticsOf(builder),
                ElementsAre(testing::AllOf(HasSubstr("is not supported: "),
                                           HasSubstr(c.reason))))
        << c.name;
  }
}

TEST(OnnxImportTest, BothNamesOfOnnxsDomainAreOne) {
  ModelBuilder builder = NegModel();
  builder.model().mutable_opset_import(0)->set_domain("ai.onnx");
  builder.graph().mutable_node(0)->set_domain("ai.onnx");
  EXPECT_THAT(builder.Import(), IsOk());
}

TEST(OnnxImportTest, NodesOutOfOrderAreNamed) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("z");
  builder.Node("Neg", {"y"}, {"z"}, "second");
  builder.Node("Neg", {"x"}, {"y"}, "first");
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(HasSubstr("node second (Neg, opset 13): reads y, which is "
                            "made further on, by node first")));
}

TEST(OnnxImportTest, WhatHasNoNameIsNamedByItsNumber) {
  ModelBuilder builder;
  builder.Input("x", {2}).Input("", {2}).Output("z");
  builder.Node("Neg", {"y"}, {"z"});
  builder.Node("Neg", {"x"}, {"y"});
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr("further on, by node Neg_1"),
                          HasSubstr("input 1: has no name")));
  builder = NegModel();
  builder.Floats("", {1});
  builder.Floats("", {1});
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr("initializer 0: has no name"),
                          HasSubstr("initializer 1: has no name")));
}

TEST(OnnxImportTest, DoubledNamesAreFaults) {
  ModelBuilder builder = NegModel();
  builder.Node("Neg", {"x"}, {"y"}, "again");
  builder.Input("x", {2});
  builder.Floats("x", {1});
  EXPECT_THAT(
      DiagnosticsOf(builder),
      testing::Contains(HasSubstr(
          "node again (Neg, opset 13): output 0 (y) is there already")));
}

TEST(OnnxImportTest, TypesThatAreRefusedAreNamed) {
  ModelBuilder builder;
  builder.Input("x", {2}, 8).Input("q", {2}, 27).Output("y");
  builder.graph().add_input()->set_name("s");
  builder.graph().mutable_input(2)->mutable_type()->mutable_sequence_type();
  builder.Node("Neg", {"x"}, {"y"});
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(testing::ContainsRegex("input x: .*[sS](TRING|tring)"),
                  testing::ContainsRegex("input q: .*6[eE]2[mM]3"),
                  HasSubstr("input s: is a sequence, which is not supported")));
}

TEST(OnnxImportTest, AStatedTypeThatIsNotWhatIsInferredIsAWarning) {
  ModelBuilder builder = NegModel();
  builder.Node("Neg", {"y"}, {"z"});
  builder.Output("z");
  ModelBuilder::SetInfo("z", {3}, kOnnxFloat, builder.graph().add_value_info());
  DiagnosticList diagnostics;
  EXPECT_THAT(builder.Import({}, &diagnostics), IsOk());
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre("model.onnx: value z: is stated to be float32[3], "
                          "expected float32[2] as inferred"));
}

// y = -x, where the only side of x has this name.
ModelBuilder NegModelOfSide(const char* name) {
  ModelBuilder builder = NegModel();
  builder.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param(name);
  return builder;
}

TEST(OnnxImportTest, ANameOfASideThatIsNotANameLeavesItUnknown) {
  const auto type = [](const char* name) {
    const Network network = NegModelOfSide(name).Import().value();
    return ToString(ValueNamed(network, "y").type);
  };
  for (const char* const none : {"", "?", "-1"}) {
    EXPECT_EQ(type(none), "float32[?]") << none;
  }
  for (const char* const name : {"_", "Side.0", "\xC3\xA4"}) {
    EXPECT_NE(type(name), "float32[?]") << name;
  }
}

TEST(OnnxImportTest, DimensionsAreBoundByName) {
  ModelBuilder builder = NegModelOfSide("batch");
  EXPECT_EQ(ToString(ValueNamed(builder.Import().value(), "y").type),
            "float32[batch]");
  const ImportOptions options{.dims = {{"batch", 7}}};
  EXPECT_EQ(ToString(ValueNamed(builder.Import(options).value(), "y").type),
            "float32[7]");
  EXPECT_THAT(DiagnosticsOf(builder, {.dims = {{"batsh", 7}}}),
              ElementsAre(HasSubstr("dimension batsh: is not in the model, "
                                    "expected the name of a dimension "
                                    "(batch); did you mean batch?")));
}

TEST(OnnxImportTest, SidesWithoutANameAreBoundByInputAndNumber) {
  const ModelBuilder builder = NegModelOfSide("?");
  const ImportOptions options{.dims = {{"x:0", 7}}};
  EXPECT_EQ(ToString(ValueNamed(builder.Import(options).value(), "y").type),
            "float32[7]");
  EXPECT_THAT(DiagnosticsOf(builder, {.dims = {{"x:1", 7}}}),
              ElementsAre(HasSubstr("dimension x:1: is not in the model, "
                                    "expected the name of a dimension (x:0); "
                                    "did you mean x:0?")));
}

TEST(OnnxImportTest, ASideThatHasANameIsBoundByThatAlone) {
  EXPECT_THAT(DiagnosticsOf(NegModelOfSide("batch"), {.dims = {{"x:0", 7}}}),
              ElementsAre(HasSubstr("dimension x:0: is not in the model, "
                                    "expected batch, which is what that side "
                                    "is called")));
  EXPECT_THAT(DiagnosticsOf(NegModel(), {.dims = {{"x:0", 7}}}),
              ElementsAre(HasSubstr("expected the name of a dimension (that "
                                    "side is 2)")));
}

TEST(OnnxImportTest, AFrozenInputIsAConstant) {
  const ImportOptions options{.freeze = {{"x", Floats({1, 2})}}};
  const Network network = NegModel().Import(options).value();
  EXPECT_TRUE(network.inputs().empty());
  EXPECT_THAT(DiagnosticsOf(NegModel(), {.freeze = {{"x", Floats({1})}}}),
              ElementsAre(HasSubstr("input x: is frozen to float32[1], "
                                    "expected float32[2]")));
  EXPECT_THAT(DiagnosticsOf(NegModel(), {.freeze = {{"w", Floats({1})}}}),
              ElementsAre(HasSubstr("input w: is not in the model and cannot "
                                    "be frozen, expected the name of an input "
                                    "(x)")));
}

// y = -x and z = -w, whose only sides have the same name.
ModelBuilder TwoOfASide() {
  ModelBuilder builder = NegModelOfSide("batch");
  *builder.graph().add_input() = builder.graph().input(0);
  builder.graph().mutable_input(1)->set_name("w");
  builder.Output("z").Node("Neg", {"w"}, {"z"});
  return builder;
}

TEST(OnnxImportTest, AFrozenInputBindsTheNamesOfItsSides) {
  const ImportOptions options{.freeze = {{"w", Floats({1, 2})}}};
  EXPECT_EQ(
      ToString(ValueNamed(TwoOfASide().Import(options).value(), "x").type),
      "float32[2]");
}

TEST(OnnxImportTest, AFrozenInputThatIsNotOfTheBoundSizeIsRefused) {
  const NDArray two = Floats({1, 2});
  EXPECT_THAT(
      DiagnosticsOf(TwoOfASide(), {.freeze = {{"x", two}, {"w", Floats({1})}}}),
      ElementsAre(HasSubstr("input w: is frozen to float32[1], expected "
                            "float32[2]")));
  EXPECT_THAT(DiagnosticsOf(TwoOfASide(),
                            {.dims = {{"batch", 3}}, .freeze = {{"x", two}}}),
              ElementsAre(HasSubstr("input x: is frozen to float32[2], "
                                    "expected float32[3]")));
}

TEST(OnnxImportTest, AnInputIsFrozenOnce) {
  const NDArray two = Floats({1, 2});
  EXPECT_THAT(DiagnosticsOf(NegModel(), {.freeze = {{"x", two}, {"x", two}}}),
              ElementsAre("model.onnx: input x: is frozen twice, expected "
                          "once"));
}

TEST(OnnxImportTest, ShapesThatAreCalculatedAreFolded) {
  ModelBuilder builder;
  builder.Input("x", {2, 3}).Input("flat", {6}).Output("y");
  builder.Node("Sides", {"x"}, {"sides"});
  builder.Node("Fit", {"flat", "sides"}, {"y"});
  const Network network = builder.Import().value();
  EXPECT_EQ(network.order().size(), 1);
  EXPECT_EQ(ToString(ValueNamed(network, "y").type), "float32[2, 3]");
  const Network whole = builder.Import({.fold_shapes = false}).value();
  EXPECT_EQ(whole.order().size(), 2);
}

TEST(OnnxImportTest, WhatReadsConstantsAloneIsCalculated) {
  ModelBuilder builder;
  builder.Output("y");
  builder.Floats("w", {1, -2});
  builder.Node("Neg", {"w"}, {"y"});
  const Network network = builder.Import().value();
  EXPECT_EQ(network.order().size(), 0);
  EXPECT_EQ(ValuesOf(ValueNamed(network, "y").data),
            (std::vector<float>{-1, 2}));
}

TEST(OnnxImportTest, AConstantKnowsTheOperationsItWasCalculatedBy) {
  ModelBuilder builder;
  builder.Output("y");
  builder.Floats("w", {1, -2});
  builder.Node("Neg", {"w"}, {"v"}, "first");
  builder.Node("Neg", {"v"}, {"y"}, "second");
  const Network network = builder.Import().value();
  EXPECT_THAT(ValueNamed(network, "y").folded_from,
              ElementsAre("first", "second"));
}

TEST(OnnxImportTest, AttributesThatMovedBecomeConstants) {
  ModelBuilder builder(9);
  builder.Input("x", {2}).Output("a").Output("b").Output("c");
  AddAttribute("axes", 7, &builder.Node("Squash", {"x"}, {"a"}, "s"))
      .add_ints(0);
  AddAttribute("k", 2, &builder.Node("Best", {"x"}, {"b"}, "t")).set_i(5);
  AddAttribute("limit", 1, &builder.Node("Bound", {"x"}, {"c"}, "u")).set_f(6);
  const Network network = builder.Import().value();
  EXPECT_EQ(ToString(ValueNamed(network, "s/axes").type), "int64[1]");
  EXPECT_EQ(ToString(ValueNamed(network, "t/k").type), "int64[1]");
  EXPECT_EQ(ToString(ValueNamed(network, "u/limit").type), "float32[]");
}

TEST(OnnxImportTest, AMovedAttributeIsUnknownWhereItIsAnInput) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("y");
  AddAttribute("axes", 7, &builder.Node("Squash", {"x"}, {"y"})).add_ints(0);
  EXPECT_THAT(DiagnosticsOf(builder), ElementsAre(HasSubstr("attribute axes")));
}

TEST(OnnxImportTest, OptionalInputsAndOutputsMayBeEmptyNames) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("Squash", {"x", ""}, {"a"});
  builder.Node("Halve", {"a"}, {"y", ""});
  EXPECT_THAT(builder.Import(), IsOk());
}

TEST(OnnxImportTest, WhatIsNotAModelIsDataLoss) {
  DiagnosticList diagnostics;
  const std::string bytes = "no model at all";
  EXPECT_THAT(
      ImportOnnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                 "model.onnx", "", TestOperators(), {}, &diagnostics),
      FailsWith(absl::StatusCode::kDataLoss,
                HasSubstr("model.onnx: is not an ONNX model")));
}

// OV-04.
TEST(OnnxImportTest, ACycleIsOneFaultAndPrintedAsAPath) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("c");
  builder.Node("Plus", {"x", "c"}, {"a"}, "first");
  builder.Node("Neg", {"a"}, {"b"}, "second");
  builder.Node("Neg", {"b"}, {"c"}, "third");
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr(
                  "node first (Plus, opset 13): depends on itself: first -> "
                  "second -> third -> first, expected no cycle")));
}

ModelBuilder UnsortedModel() {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("y");
  builder.Node("Neg", {"b"}, {"y"}, "last");
  builder.Node("Neg", {"a"}, {"b"}, "late");
  builder.Node("Neg", {"x"}, {"a"}, "early");
  return builder;
}

TEST(OnnxImportTest, NodesInTheWrongOrderAreSortedWithOneWarning) {
  const ModelBuilder builder = UnsortedModel();
  EXPECT_THAT(
      DiagnosticsOf(builder),
      ElementsAre(AllOf(HasSubstr("node last (Neg, opset 13): reads b, which "
                                  "is made further on, by node late (2 nodes "
                                  "read what is made further on)"),
                        HasSubstr("the import sorts them"))));
  const Network network = builder.Import().value();
  std::vector<std::string> names;
  for (const OperationId id : network.order()) {
    names.push_back(network.operation(id).name);
  }
  EXPECT_THAT(names, ElementsAre("early", "late", "last"));
}

TEST(OnnxImportTest, NodesInTheWrongOrderAreAnErrorIfThatIsAskedFor) {
  ImportOptions options;
  options.refuse_unsorted = true;
  DiagnosticList diagnostics;
  EXPECT_FALSE(UnsortedModel().Import(options, &diagnostics).ok());
  EXPECT_THAT(LinesOf(diagnostics), ElementsAre(HasSubstr("(sort them)")));
}

// The body reads what only exists once its own operation has run.
TEST(OnnxImportTest, ACycleThroughABodyIsFound) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Input("c", {}, 9).Output("y");
  auto& choice = builder.Node("If", {"c"}, {"y"}, "choice");
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& branch = *choice.add_attribute();
    branch.set_name(name);
    branch.set_type(5);
    auto& body = *branch.mutable_g();
    ModelBuilder::SetNode("Neg", {"after"}, {"z"}, "inner", body.add_node());
    body.add_output()->set_name("z");
  }
  builder.Node("Neg", {"y"}, {"after"}, "outer");
  EXPECT_THAT(
      DiagnosticsOf(builder),
      testing::Contains(HasSubstr("depends on itself: choice -> outer -> "
                                  "choice")));
}

// OV-05.
TEST(OnnxImportTest, WhatNoOutputDependsOnIsNamedIfThatIsAskedFor) {
  ModelBuilder builder = NegModel();
  builder.Floats("spare", {1});
  builder.Node("Neg", {"x"}, {"p"}, "dead");
  builder.Node("Neg", {"p"}, {"q"}, "deader");
  EXPECT_THAT(DiagnosticsOf(builder), testing::IsEmpty());
  ImportOptions options;
  options.report_unused = true;
  EXPECT_THAT(
      DiagnosticsOf(builder, options),
      ElementsAre(HasSubstr("node dead (Neg, opset 13): no output depends on "
                            "it"),
                  HasSubstr("node deader"), HasSubstr("initializer spare")));
}

// OV-01.
TEST(OnnxImportTest, EveryDiagnosticHasItsKind) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("y");
  builder.Node("Neg", {"gone"}, {"a"});
  builder.Node("Scale", {"x"}, {"b"});
  builder.Node("SequenceAt", {"x"}, {"y"});
  std::vector<const FindingKind*> kinds;
  ImportOptions options;
  options.kinds = &kinds;
  EXPECT_EQ(DiagnosticsOf(builder, options).size(), 3);
  ASSERT_EQ(kinds.size(), 3);
  EXPECT_EQ(kinds[0]->part, network_kinds::kStructure);
  EXPECT_EQ(kinds[1]->part, network_kinds::kInformation);
  EXPECT_EQ(kinds[2]->part, network_kinds::kRunTime);
}

TEST(OnnxImportTest, AnOutputThatNothingMakesIsNamed) {
  ModelBuilder builder = NegModel();
  builder.Output("yy");
  EXPECT_THAT(DiagnosticsOf(builder),
              ElementsAre(HasSubstr("output yy: is made by nothing")));
}

}  // namespace
}  // namespace nodewise
