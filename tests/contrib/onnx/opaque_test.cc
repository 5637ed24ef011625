#include "nodewise/ops/opaque.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/subnetwork.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/known_part.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kDomain[] = "vendor.ops";

absl::StatusOr<Network> Import(const std::string& bytes,
                               DiagnosticList* diagnostics = nullptr,
                               ImportOptions options = {.keep_opaque = true}) {
  DiagnosticList own;
  return ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "model.onnx", "", AllOperators(), options,
      diagnostics == nullptr ? &own : diagnostics);
}

// A model that imports the vendor's domain.
ModelBuilder VendorModel(int opset = 13) {
  ModelBuilder builder(opset);
  auto* const import = builder.model().add_opset_import();
  import->set_domain(kDomain);
  import->set_version(3);
  return builder;
}

nodewise_onnx::Node& Vendor(nodewise_onnx::Node& node) {
  node.set_domain(kDomain);
  return node;
}

// x -> Relu -> a -> Magic -> b -> Neg -> y; a -> Abs -> z; all float32[2].
ModelBuilder MagicModel(bool states_types = true) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y").Output("z");
  builder.Node("Relu", {"x"}, {"a"}, "relu");
  auto& magic = Vendor(builder.Node("Magic", {"a"}, {"b"}, "magic"));
  AddAttribute("strength", 1, &magic).set_f(2.5f);
  builder.Node("Neg", {"b"}, {"y"}, "neg");
  builder.Node("Abs", {"a"}, {"z"}, "abs");
  if (states_types) {
    ModelBuilder::SetInfo("b", {2}, kOnnxFloat,
                          builder.graph().add_value_info());
  }
  return builder;
}

std::string TypeOf(const Network& network, const std::string& value) {
  return ToString(network.value(network.FindValue(value).value()).type);
}

const ops::Opaque& OpaqueNamed(const Network& network,
                               const std::string& name) {
  const auto* const opaque =
      network.operation(network.FindOperation(name).value())
          .attrs.As<ops::Opaque>();
  EXPECT_NE(opaque, nullptr);
  return *opaque;
}

std::vector<std::string> LinesOf(const DiagnosticList& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

// Multiplies the first input by two, and keeps what it was asked for.
class Doubler : public OpaqueRunner {
 public:
  absl::StatusOr<std::vector<NDArray>> Run(
      const ops::Opaque& op, absl::Span<const NDArray> inputs,
      absl::Span<const bool> wanted) const override {
    last_ = NameOf(op);
    std::vector<float> values = ValuesOf(inputs[0]);
    for (float& value : values) value *= 2;
    std::vector<NDArray> outputs(wanted.size());
    outputs[0] = Floats(values);
    return outputs;
  }
  mutable std::string last_;
};

// Has the process run opaque operations while it exists.
class WithRunner {
 public:
  explicit WithRunner(std::shared_ptr<const OpaqueRunner> runner) {
    SetOpaqueRunner(std::move(runner));
  }
  ~WithRunner() { SetOpaqueRunner(nullptr); }
};

TEST(OpaqueTest, AnOperatorThatIsNotKnownIsKept) {
  DiagnosticList diagnostics;
  const Network network = Import(MagicModel().Bytes(), &diagnostics).value();
  const ops::Opaque& magic = OpaqueNamed(network, "magic");
  EXPECT_EQ(NameOf(magic), "vendor.ops.Magic");
  EXPECT_EQ(magic.version, 3);
  EXPECT_EQ(TypeOf(network, "b"), "float32[2]");
  EXPECT_EQ(TypeOf(network, "y"), "float32[2]");
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr(
                  "node magic (vendor.ops.Magic, opset 3): is of domain "
                  "vendor.ops and becomes opaque, expected ai.onnx, or a "
                  "function of the model")));
}

TEST(OpaqueTest, WhoDoesNotAskForItGetsAnError) {
  EXPECT_THAT(Import(MagicModel().Bytes(), nullptr, {}),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("is of domain vendor.ops, expected")));
}

TEST(OpaqueTest, BehindATypeThatIsNotStatedNothingIsKnown) {
  const Network network = Import(MagicModel(false).Bytes()).value();
  EXPECT_EQ(TypeOf(network, "b"), "?[...]");
  EXPECT_EQ(TypeOf(network, "y"), "?[...]");
  EXPECT_EQ(TypeOf(network, "z"), "float32[2]");
}

TEST(OpaqueTest, ATypeThatWasFoundMayBeGiven) {
  ImportOptions options{.keep_opaque = true};
  options.opaque_types = {{"b", TensorType(kFloat32, {2})}};
  const Network network =
      Import(MagicModel(false).Bytes(), nullptr, options).value();
  EXPECT_EQ(TypeOf(network, "y"), "float32[2]");
}

TEST(OpaqueTest, ManyNodesOfOneOperatorAreOneMessage) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2});
  for (const std::string name : {"a", "b", "c"}) {
    builder.Output(name);
    Vendor(builder.Node("Magic", {"x"}, {name}, "make_" + name));
  }
  DiagnosticList diagnostics;
  EXPECT_THAT(Import(builder.Bytes(), &diagnostics), IsOk());
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr("vendor.ops.Magic, 3 operations (make_a, "
                                    "make_b, make_c): is of domain")));
}

TEST(OpaqueTest, WhatWorksOnSequencesStaysRefused) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("SplitToSequence", {"x"}, {"s"});
  builder.Node("SequenceAt", {"s", "x"}, {"y"});
  DiagnosticList diagnostics;
  EXPECT_FALSE(Import(builder.Bytes(), &diagnostics).ok());
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(HasSubstr("it works on sequences"),
                          HasSubstr("it works on sequences")));
}

TEST(OpaqueTest, WhatCouldWorkOnOptionalValuesMayBeAmongTensors) {
  ModelBuilder builder(18);
  builder.Input("x", {2}).Output("y");
  builder.Node("OptionalHasElement", {"x"}, {"y"}, "has");
  EXPECT_FALSE(Import(builder.Bytes()).ok());
  constexpr int kOnnxBool = 9;
  ModelBuilder::SetInfo("y", {}, kOnnxBool, builder.graph().mutable_output(0));
  const Network network = Import(builder.Bytes()).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "has")), "OptionalHasElement");
}

TEST(OpaqueTest, AnOutputThatIsNoTensorIsRefused) {
  ModelBuilder builder = MagicModel(false);
  auto* const info = builder.graph().add_value_info();
  info->set_name("b");
  info->mutable_type()->mutable_sequence_type();
  DiagnosticList diagnostics;
  EXPECT_FALSE(Import(builder.Bytes(), &diagnostics).ok());
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
  const Network network = Import(builder.Bytes(), &diagnostics).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "decode")), "ImageDecoder");
  EXPECT_EQ(TypeOf(network, "y"), "uint8[4, 4, 3]");
  EXPECT_THAT(LinesOf(diagnostics),
              ElementsAre(testing::AllOf(
                  HasSubstr("node decode (ImageDecoder, opset 20): becomes "
                            "opaque: "),
                  HasSubstr("decodes image files"))));
}

TEST(OpaqueTest, ABodyOfControlFlowMayRunIt) {
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
  const Network network = Import(builder.Bytes()).value();
  const WithRunner running(std::make_shared<Doubler>());
  const auto outputs = Interpret(
      network, {Floats({1, -3}), MakeTensor<uint8_t>({}, {1}, kBool)});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ(ValuesOf((*outputs)[0]), (std::vector<float>{-2, 6}));
}

TEST(OpaqueTest, WhatIsMissingForAnOperatorOfOnnxruntimesIsSaid) {
  ModelBuilder builder;
  builder.model().mutable_opset_import(0)->set_domain("com.microsoft");
  builder.Input("x", {2}).Output("y");
  builder.Node("Gelu", {"x"}, {"y"}).set_domain("com.microsoft");
  EXPECT_THAT(Import(builder.Bytes()),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("is not known in an opset of ai.onnx this "
                                  "old, expected 11 or more")));
}

TEST(OpaqueTest, AnOperatorOfALaterOpsetIsStillAnError) {
  ModelBuilder builder(13);
  builder.Input("x", {2}).Output("y");
  builder.Node("Gelu", {"x"}, {"y"});
  EXPECT_THAT(Import(builder.Bytes()),
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
  const Network network = Import(builder.Bytes()).value();
  EXPECT_EQ(NameOf(OpaqueNamed(network, "n")), "nodewise.opaque.Opaque");
  EXPECT_THAT(Import(ExportOnnx(network).value()), IsOk());
}

TEST(OpaqueTest, TheNodeIsWrittenAsItWasRead) {
  ModelBuilder builder = MagicModel();
  // A field that nodewise knows nothing of.
  auto& magic = *builder.graph().mutable_node(1);
  magic.mutable_unknown_fields()->append(
      "\x32\x03"
      "doc");
  const Network network = Import(builder.Bytes()).value();
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  EXPECT_EQ(written.graph().node(1).SerializeAsString(),
            magic.SerializeAsString());
  ASSERT_EQ(written.opset_import_size(), 2);
  EXPECT_EQ(written.opset_import(1).domain(), kDomain);
  EXPECT_EQ(written.opset_import(1).version(), 3);
}

TEST(OpaqueTest, AVersionThatIsNotKnownIsWrittenAsItWas) {
  ModelBuilder builder(99);
  builder.Input("x", {2}).Output("y");
  builder.Node("FromTheFuture", {"x"}, {"y"}, "n");
  const Network network = Import(builder.Bytes()).value();
  nodewise_onnx::Model written;
  ASSERT_TRUE(written.ParseFromString(ExportOnnx(network).value()));
  ASSERT_EQ(written.opset_import_size(), 1);
  EXPECT_EQ(written.opset_import(0).version(), 99);
}

TEST(OpaqueTest, NobodyKnowsWhatItMeansInAnotherVersion) {
  Network network = Import(MagicModel().Bytes()).value();
  ASSERT_THAT(network.SetOpset(kDomain, 4), IsOk());
  EXPECT_THAT(ExportOnnx(network),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("is of version 3 of domain \"vendor.ops\", "
                                  "and the network of 4")));
}

TEST(OpaqueTest, TheTextHasAllOfIt) {
  const Network network = Import(MagicModel().Bytes()).value();
  const std::string text = NetworkToText(network.data());
  const auto read = ParseNetworkText(text, AllOperators(), "text");
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(ToStatus(Verify(*read)), IsOk());
  EXPECT_EQ(NetworkToText(*read), text);
  EXPECT_EQ(ExportOnnx(Network::FromData(*read).value()).value(),
            ExportOnnx(network).value());
}

TEST(OpaqueTest, BytesThatAreNoSuchNodeAreRefused) {
  Network network;
  ASSERT_THAT(network.SetOpset(std::string(kOpaqueDomain), 1), IsOk());
  const ValueId x = network.AddInput("x", TensorType(kFloat32, {2})).value();
  ops::Opaque opaque;
  opaque.op_type = "Magic";
  opaque.domain = kDomain;
  for (const std::string bytes : {"", "\xff\xff\xff", "\x22\x05Other"}) {
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
  Network network = Import(builder.Bytes()).value();
  EXPECT_EQ(TypeOf(network, "y"), "float32[n]");
  ASSERT_THAT(network.BindDim("n", 5), IsOk());
  EXPECT_EQ(TypeOf(network, "b"), "float32[5]");
  EXPECT_EQ(TypeOf(network, "y"), "float32[5]");
}

TEST(OpaqueTest, ItIsNotEvaluatedUnlessSomethingRunsIt) {
  const Network network = Import(MagicModel().Bytes()).value();
  EXPECT_THAT(
      Interpret(network, {Floats({1, -3})}),
      FailsWith(absl::StatusCode::kUnimplemented,
                HasSubstr("operation magic (Opaque): is opaque, since "
                          "vendor.ops.Magic is not known here, expected a "
                          "program that runs it (--opaque ort)")));
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
  const Network network = Import(builder.Bytes()).value();
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
  const Network network = Import(builder.Bytes()).value();
  EXPECT_THAT(OpaqueNamed(network, "first").constants, ElementsAre(0));
  EXPECT_THAT(OpaqueNamed(network, "second").constants, ElementsAre(2));
}

// --- The part that can be computed --------------------------------------

TEST(KnownPartTest, WhatDependsOnOpaqueOperationsIsLeftOut) {
  const Network network = Import(MagicModel().Bytes()).value();
  EXPECT_EQ(TextOf(OpaqueOperators(network)), "vendor.ops.Magic: 1 operation");
  const KnownPart part = KnownPartOf(network).value();
  ASSERT_EQ(part.missing.size(), 1);
  EXPECT_EQ(part.missing[0].name, "y");
  EXPECT_THAT(part.missing[0].because, ElementsAre("magic"));
  EXPECT_THAT(part.ends, ElementsAre("a"));
  std::vector<std::string> outputs;
  for (const ValueId id : part.network.outputs()) {
    outputs.push_back(part.network.value(id).name);
  }
  EXPECT_THAT(outputs, ElementsAre("z", "a"));
  EXPECT_EQ(part.network.order().size(), 2);
  EXPECT_THAT(Interpret(part.network, {Floats({1, -3})}), IsOk());
}

TEST(KnownPartTest, WithoutAnythingLeftItFails) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y");
  Vendor(builder.Node("Magic", {"x"}, {"y"}, "magic"));
  EXPECT_THAT(KnownPartOf(Import(builder.Bytes()).value()),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("everything depends on opaque operations "
                                  "(magic)")));
}

TEST(KnownPartTest, ANetworkWithoutThemStaysAsItIs) {
  const Network network = Import(NegModel().Bytes()).value();
  const KnownPart part = KnownPartOf(network).value();
  EXPECT_TRUE(part.missing.empty());
  EXPECT_EQ(NetworkToText(part.network.data()), NetworkToText(network.data()));
}

// --- Bodies ----------------------------------------------------------------

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

TEST(OpaqueTest, WhatABodyReadsFromAroundIsAnInput) {
  const Network network = Import(BodyModel().Bytes()).value();
  const ops::Opaque& twice = OpaqueNamed(network, "twice");
  EXPECT_THAT(twice.captures, ElementsAre("a"));
  EXPECT_THAT(twice.body_domains, ElementsAre("", kDomain));
  const Operation& operation =
      network.operation(network.FindOperation("twice").value());
  ASSERT_EQ(operation.inputs.size(), 2);
  EXPECT_EQ(network.value(operation.inputs[1]).name, "a");
}

TEST(OpaqueTest, ABodyReadsByTheNamesThatThereAreNow) {
  Network network = Import(BodyModel().Bytes()).value();
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

TEST(OpaqueTest, ABodyThatReadsNothingKnownIsAnError) {
  ModelBuilder builder = BodyModel();
  builder.graph()
      .mutable_node(1)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_node(0)
      ->set_input(0, "nowhere");
  EXPECT_THAT(Import(builder.Bytes()),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("(nowhere) is made by nothing")));
}

TEST(OpaqueTest, ABranchMayHaveOpaqueOperations) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Input("c", {}, 9).Output("y");
  auto& node = builder.Node("If", {"c"}, {"y"}, "if");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    body.set_name(name);
    Vendor(ModelBuilder::SetNode("Magic", {"x"}, {"m"}, "", body.add_node()));
    ModelBuilder::SetInfo("m", {2}, kOnnxFloat, body.add_output());
  }
  const Network network = Import(builder.Bytes()).value();
  EXPECT_THAT(ToStatus(Verify(network.data())), IsOk());
  const auto operators = OpaqueOperators(network);
  ASSERT_EQ(operators.size(), 1);
  EXPECT_THAT(operators[0].operations, ElementsAre("if"));
  EXPECT_THAT(Import(ExportOnnx(network).value()), IsOk());
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
  const Network network = Import(builder.Bytes()).value();
  EXPECT_EQ(TypeOf(network, "y"), "float32[2]");
  nodewise_onnx::Node kept;
  ASSERT_TRUE(kept.ParseFromString(OpaqueNamed(network, "call/inner").node));
  ASSERT_EQ(kept.attribute_size(), 1);
  EXPECT_EQ(kept.attribute(0).name(), "strength");
  EXPECT_EQ(kept.attribute(0).f(), 4);
  EXPECT_TRUE(kept.attribute(0).ref_attr_name().empty());
}

TEST(OpaqueTest, APartThatIsCutOutHasItToo) {
  const Network network = Import(MagicModel().Bytes()).value();
  const ValueId from[] = {network.FindValue("a").value()};
  const ValueId to[] = {network.FindValue("y").value()};
  const Network part = ExtractNetwork(network, from, to).value();
  const Network again = Import(ExportOnnx(part).value()).value();
  EXPECT_EQ(OpaqueNamed(again, "magic").version, 3);
  EXPECT_EQ(TypeOf(again, "y"), "float32[2]");
}

}  // namespace
}  // namespace nodewise
