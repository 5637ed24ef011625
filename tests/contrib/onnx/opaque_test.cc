#include "nodewise/ops/opaque.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/onnx/opaque_models.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> LinesOf(const DiagnosticList& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

TEST(OpaqueTest, AnOperatorThatIsNotKnownIsKept) {
  DiagnosticList diagnostics;
  const Network network =
      ImportWhole(MagicModel().Bytes(), &diagnostics).value();
  const ops::Opaque& magic = OpaqueNamed(network, "magic");
  EXPECT_EQ(NameOf(magic), "vendor.ops.Magic");
  EXPECT_EQ(magic.version, 3);
  EXPECT_EQ(TypeTextOf(network, "b"), "float32[2]");
  EXPECT_EQ(TypeTextOf(network, "y"), "float32[2]");
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr(
                  "node magic (vendor.ops.Magic, opset 3): is of domain "
                  "vendor.ops and becomes opaque, expected ai.onnx, or a "
                  "function of the model")));
}

TEST(OpaqueTest, WhoDoesNotAskForItGetsAnError) {
  EXPECT_THAT(ImportWhole(MagicModel().Bytes(), nullptr, {}),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("is of domain vendor.ops, expected")));
}

TEST(OpaqueTest, BehindATypeThatIsNotStatedNothingIsKnown) {
  const Network network = ImportWhole(MagicModel(false).Bytes()).value();
  EXPECT_EQ(TypeTextOf(network, "b"), "?[...]");
  EXPECT_EQ(TypeTextOf(network, "y"), "?[...]");
  EXPECT_EQ(TypeTextOf(network, "z"), "float32[2]");
}

TEST(OpaqueTest, ATypeThatWasFoundMayBeGiven) {
  ImportOptions options{.keep_opaque = true};
  options.opaque_types = {{"b", TensorType(kFloat32, {2})}};
  const Network network =
      ImportWhole(MagicModel(false).Bytes(), nullptr, options).value();
  EXPECT_EQ(TypeTextOf(network, "y"), "float32[2]");
}

TEST(OpaqueTest, ManyNodesOfOneOperatorAreOneMessage) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2});
  for (const std::string name : {"a", "b", "c"}) {
    builder.Output(name);
    Vendor(builder.Node("Magic", {"x"}, {name}, "make_" + name));
  }
  DiagnosticList diagnostics;
  EXPECT_THAT(ImportWhole(builder.Bytes(), &diagnostics), IsOk());
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr("vendor.ops.Magic, 3 operations (make_a, "
                                    "make_b, make_c): is of domain")));
}

TEST(OpaqueTest, APlainOneHasItsAttributesAndNothingThatIsNotedOfIt) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y");
  auto& magic = Vendor(builder.Node("Magic", {"x"}, {"y"}, "hushed_node"));
  AddAttribute("strength", 1, &magic).set_f(2.5F);
  auto& branch = AddAttribute("branch", 5, &magic);
  auto* const inner = branch.mutable_g()->add_node();
  inner->set_op_type("Neg");
  inner->add_input("x");
  inner->add_output("z");
  inner->set_name("hushed_inner");
  for (auto* const node : {&magic, inner}) {
    node->set_doc_string("hushed words");
    node->add_metadata_props()->set_value("hushed note");
  }
  const Network network = ImportWhole(builder.Bytes()).value();
  const ops::Opaque& given = OpaqueNamed(network, "hushed_node");
  ASSERT_THAT(given.node, HasSubstr("hushed"));
  const auto plain = PlainOpaque(given);
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->node, testing::Not(HasSubstr("hushed")));
  EXPECT_THAT(plain->node, HasSubstr("strength"));
  EXPECT_EQ(plain->captures, given.captures);
}

TEST(OpaqueTest, WhatWorksOnSequencesStaysRefused) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("SplitToSequence", {"x"}, {"s"});
  builder.Node("SequenceAt", {"s", "x"}, {"y"});
  DiagnosticList diagnostics;
  EXPECT_FALSE(ImportWhole(builder.Bytes(), &diagnostics).ok());
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr("it works on sequences"),
                          HasSubstr("it works on sequences")));
}

TEST(OpaqueTest, WhatCouldWorkOnOptionalValuesMayBeAmongTensors) {
  ModelBuilder builder(18);
  builder.Input("x", {2}).Output("y");
  builder.Node("OptionalHasElement", {"x"}, {"y"}, "has");
  EXPECT_FALSE(ImportWhole(builder.Bytes()).ok());
  constexpr int kOnnxBool = 9;
  ModelBuilder::SetInfo("y", {}, kOnnxBool, builder.graph().mutable_output(0));
  const Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "has")), "OptionalHasElement");
}

TEST(OpaqueTest, AnOutputThatIsNotATensorIsRefused) {
  ModelBuilder builder = MagicModel(false);
  auto* const info = builder.graph().add_value_info();
  info->set_name("b");
  info->mutable_type()->mutable_sequence_type();
  DiagnosticList diagnostics;
  EXPECT_FALSE(ImportWhole(builder.Bytes(), &diagnostics).ok());
  EXPECT_THAT(LinesOf(diagnostics),
              testing::Contains(HasSubstr("output 0 (b): is a sequence, which "
                                          "is not supported")));
}

TEST(OpaqueTest, WhatIsNotSupportedInThisFormIsKept) {
  constexpr int kOnnxUint8 = 2;
  ModelBuilder builder(20);
  builder.Input("x", {9}, kOnnxUint8).Output("y");
  builder.Node("ImageDecoder", {"x"}, {"y"}, "decode");
  ModelBuilder::SetInfo("y", {4, 4, 3}, kOnnxUint8,
                        builder.graph().mutable_output(0));
  DiagnosticList diagnostics;
  const Network network = ImportWhole(builder.Bytes(), &diagnostics).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "decode")), "ImageDecoder");
  EXPECT_EQ(TypeTextOf(network, "y"), "uint8[4, 4, 3]");
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(testing::AllOf(
                  HasSubstr("node decode (ImageDecoder, opset 20): becomes "
                            "opaque: "),
                  HasSubstr("decodes image files"))));
}

// Such a model imports no version of ai.onnx.
TEST(OpaqueTest, NothingIsOpaqueInAModelOfOnnxruntimesOperatorsAlone) {
  ModelBuilder builder;
  builder.model().mutable_opset_import(0)->set_domain("com.microsoft");
  builder.Input("x", {2}).Output("y");
  builder.Node("Gelu", {"x"}, {"y"}).set_domain("com.microsoft");
  const auto network = ImportWhole(builder.Bytes());
  ASSERT_THAT(network, IsOk());
  EXPECT_THAT(OpaqueOperations(*network), testing::IsEmpty());
}

TEST(OpaqueTest, AnOperatorOfALaterOpsetIsStillAnError) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("y");
  builder.Node("Gelu", {"x"}, {"y"});
  EXPECT_THAT(ImportWhole(builder.Bytes()),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("expected opset 20 or more")));
}

TEST(OpaqueTest, ANodeThatClaimsToBeOpaqueIsKeptAsAnyOther) {
  ModelBuilder builder;
  auto* const import = builder.model().add_opset_import();
  import->set_domain(std::string(kOpaqueDomain));
  import->set_version(7);
  builder.Input("x", {2}).Output("y");
  auto& node = builder.Node("Opaque", {"x"}, {"y"}, "n");
  node.set_domain(std::string(kOpaqueDomain));
  AddAttribute("node", 3, &node).set_s("\xff\xff");
  const Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "n")), "nodewise.opaque.Opaque");
  EXPECT_THAT(ImportWhole(ExportOnnx(network).value()), IsOk());
}

TEST(OpaqueTest, TheNodeIsWrittenAsItWasRead) {
  ModelBuilder builder = MagicModel();
  // A field that nodewise knows nothing of.
  auto& magic = *builder.graph().mutable_node(1);
  magic.mutable_unknown_fields()->append(
      "\xf2\x01\x03"
      "new");
  const Network network = ImportWhole(builder.Bytes()).value();
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  EXPECT_EQ(written.graph().node(1).SerializeAsString(),
            magic.SerializeAsString());
  ASSERT_EQ(written.opset_import_size(), 2);
  EXPECT_EQ(written.opset_import(1).domain(), kVendor);
  EXPECT_EQ(written.opset_import(1).version(), 3);
}

TEST(OpaqueTest, TheNotesOfANodeAreWrittenOnce) {
  ModelBuilder builder = MagicModel();
  auto& note = *builder.graph().mutable_node(1)->add_metadata_props();
  note.set_key("namespace");
  note.set_value("stem");
  const Network network = ImportWhole(builder.Bytes()).value();
  const Operation& magic = network.operation(network.order()[1]);
  ASSERT_NE(magic.origin, nullptr);
  EXPECT_EQ(*magic.origin->notes[0].second, "stem");
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  EXPECT_EQ(written.graph().node(1).metadata_props_size(), 1);
}

TEST(OpaqueTest, AVersionThatIsNotKnownIsWrittenAsItWas) {
  ModelBuilder builder(99);
  builder.Input("x", {2}).Output("y");
  builder.Node("FromTheFuture", {"x"}, {"y"}, "n");
  const Network network = ImportWhole(builder.Bytes()).value();
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  ASSERT_EQ(written.opset_import_size(), 1);
  EXPECT_EQ(written.opset_import(0).version(), 99);
}

TEST(OpaqueTest, ExportInAnotherVersionIsRefused) {
  Network network = ImportWhole(MagicModel().Bytes()).value();
  ASSERT_THAT(network.SetOpset(kVendor, 4), IsOk());
  EXPECT_THAT(ExportOnnx(network),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("is of version 3 of domain \"vendor.ops\", "
                                  "and the network of 4")));
}

TEST(OpaqueTest, TheTextHasAllOfIt) {
  const Network network = ImportWhole(MagicModel().Bytes()).value();
  const std::string text = NetworkToText(network.data());
  const auto read = ParseNetworkText(text, AllOperators(), "text");
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(ToStatus(Verify(*read)), IsOk());
  EXPECT_EQ(NetworkToText(*read), text);
  EXPECT_EQ(ExportOnnx(Network::FromData(*read).value()).value(),
            ExportOnnx(network).value());
}

TEST(OpaqueTest, BytesThatAreNotSuchANodeAreRefused) {
  Network network;
  ASSERT_THAT(network.SetOpset(std::string(kOpaqueDomain), 1), IsOk());
  const ValueId x = network.AddInput("x", TensorType(kFloat32, {2})).value();
  ops::Opaque opaque;
  opaque.op_type = "Magic";
  opaque.domain = kVendor;
  EXPECT_THAT(network.Add(AllOperators(), opaque, {x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("attribute node: is missing")));
  for (const std::string bytes : {"\xff\xff\xff", "\x22\x05Other"}) {
    opaque.node = bytes;
    Network copy = network;
    const ValueId y = copy.Add(AllOperators(), opaque, {x}).value();
    ASSERT_THAT(copy.SetOutputs({y}), IsOk());
    EXPECT_THAT(ExportOnnx(copy),
                FailsWith(absl::StatusCode::kDataLoss,
                          HasSubstr("holds no node of vendor.ops.Magic")));
  }
}

TEST(OpaqueTest, SidesThatAreNamedAreBound) {
  ModelBuilder builder = MagicModel();
  for (auto* info : {builder.graph().mutable_input(0),
                     builder.graph().mutable_value_info(0)}) {
    info->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param("n");
  }
  Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_EQ(TypeTextOf(network, "y"), "float32[n]");
  ASSERT_THAT(network.BindDim("n", 5), IsOk());
  EXPECT_EQ(TypeTextOf(network, "b"), "float32[5]");
  EXPECT_EQ(TypeTextOf(network, "y"), "float32[5]");
}

TEST(OpaqueTest, ItIsNotEvaluatedUnlessSomethingRunsIt) {
  const Network network = ImportWhole(MagicModel().Bytes()).value();
  EXPECT_THAT(
      Interpret(network, {Floats({1, -3})}),
      FailsWith(absl::StatusCode::kUnimplemented,
                HasSubstr("operation magic (Opaque): is opaque, since "
                          "vendor.ops.Magic is not known here, expected a "
                          "program that runs it (SetOpaqueRunner())")));
  const auto doubler = std::make_shared<Doubler>();
  const WithRunner running(doubler);
  const auto outputs = Interpret(network, {Floats({1, -3})});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ(ValuesOf((*outputs)[0]), (std::vector<float>{-2, 0}));
  EXPECT_EQ(doubler->last_, "vendor.ops.Magic");
}

TEST(OpaqueTest, AnotherTypeThanTheModelStatesIsAnError) {
  ModelBuilder builder = MagicModel(false);
  ModelBuilder::SetInfo("b", {3}, kOnnxFloat, builder.graph().add_value_info());
  const Network network = ImportWhole(builder.Bytes()).value();
  const WithRunner running(std::make_shared<Doubler>());
  EXPECT_THAT(Interpret(network, {Floats({1, -3})}),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("the program made float32[2], expected "
                                  "float32[3] as the model states")));
}

TEST(OpaqueTest, ConstantsAreNotedAndNothingIsFolded) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y");
  builder.Floats("c", {1, 2});
  Vendor(builder.Node("Magic", {"c"}, {"d"}, "first"));
  Vendor(builder.Node("Magic", {"x", "", "c", "d"}, {"y"}, "second"));
  const WithRunner running(std::make_shared<Doubler>());
  const Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_THAT(OpaqueNamed(network, "first").constants, ElementsAre(0));
  EXPECT_THAT(OpaqueNamed(network, "second").constants, ElementsAre(2));
}

// --- Functions -------------------------------------------------------------

TEST(OpaqueTest, InAFunctionItHasTheAttributesOfTheCall) {
  ModelBuilder builder = VendorModel();
  auto* const import = builder.model().add_opset_import();
  import->set_domain("own");
  import->set_version(1);
  auto& function = *builder.model().add_functions();
  function.set_name("Shell");
  function.set_domain("own");
  function.add_input("in");
  function.add_output("out");
  function.add_attribute("power");
  auto& inner = Vendor(ModelBuilder::SetNode("Magic", {"in"}, {"out"}, "inner",
                                             function.add_node()));
  AddAttribute("strength", 1, &inner).set_ref_attr_name("power");
  builder.Input("x", {2}).Output("y");
  ModelBuilder::SetInfo("y", {2}, kOnnxFloat,
                        builder.graph().mutable_output(0));
  auto& call = builder.Node("Shell", {"x"}, {"y"}, "call");
  call.set_domain("own");
  AddAttribute("power", 1, &call).set_f(4);
  const Network network = ImportWhole(builder.Bytes()).value();
  EXPECT_EQ(TypeTextOf(network, "y"), "float32[2]");
  nodewise_onnx::Node kept;
  ASSERT_TRUE(kept.ParseFromString(OpaqueNamed(network, "call/inner").node));
  ASSERT_EQ(kept.attribute_size(), 1);
  EXPECT_EQ(kept.attribute(0).name(), "strength");
  EXPECT_EQ(kept.attribute(0).f(), 4);
  EXPECT_TRUE(kept.attribute(0).ref_attr_name().empty());
}

TEST(OpaqueTest, APartThatIsCutOutHasItToo) {
  const Network network = ImportWhole(MagicModel().Bytes()).value();
  const ValueId from[] = {network.FindValue("a").value()};
  const ValueId to[] = {network.FindValue("y").value()};
  const Network part = ExtractNetwork(network, from, to).value();
  const Network again = ImportWhole(ExportOnnx(part).value()).value();
  EXPECT_EQ(OpaqueNamed(again, "magic").version, 3);
  EXPECT_EQ(TypeTextOf(again, "y"), "float32[2]");
}

}  // namespace
}  // namespace nodewise
