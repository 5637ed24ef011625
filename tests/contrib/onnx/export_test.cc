#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/ir/network_text.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

absl::StatusOr<Network> ImportBytes(const std::string& bytes) {
  DiagnosticList diagnostics;
  return ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "again.onnx", "", TestOperators(), {}, &diagnostics);
}

nodewise_onnx::Model Exported(const Network& network) {
  nodewise_onnx::Model model;
  model.ParseFromString(ExportOnnx(network).value());
  return model;
}

// One of everything that a graph may hold.
ModelBuilder RichModel(int opset) {
  ModelBuilder builder(opset);
  builder.Input("x", {2}).Input("which", {}, 9).Output("y").Output("w");
  builder.Floats("w", {1, 2});
  auto& scale = builder.Node("Scale", {"x"}, {"a"}, "scale");
  AddAttribute("factor", 1, &scale).set_f(3);
  AddAttribute("offset", 1, &scale).set_f(4);
  if (opset < 10) {
    AddAttribute("axes", 7, &builder.Node("Squash", {"a"}, {"b"}, "squash"))
        .add_ints(0);
    AddAttribute("k", 2, &builder.Node("Best", {"b"}, {"b2"}, "best")).set_i(5);
    AddAttribute("limit", 1, &builder.Node("Bound", {"b2"}, {"c"}, "bound"))
        .set_f(6);
  } else {
    builder.Ints("axes", {0});
    builder.Node("Squash", {"a", "axes"}, {"c"}, "squash");
  }
  auto& node = builder.Node("Choose", {"which"}, {"d"}, "choose");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = *AddAttribute(name, 5, &node).mutable_g();
    ModelBuilder::SetNode("Plus", {"c", "w"}, {"s"}, "inner", body.add_node());
    body.set_name(name);
    body.add_output()->set_name("s");
  }
  builder.Node("Halve", {"c"}, {"y", ""}, "halve");
  builder.Output("d");
  return builder;
}

TEST(OnnxExportTest, ReadingBackGivesAnEqualNetwork) {
  for (const int opset : {9, 13, 17}) {
    const Network network = RichModel(opset).Import().value();
    const std::string bytes = ExportOnnx(network).value();
    const auto again = ImportBytes(bytes);
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(NetworkToText(again->data()), NetworkToText(network.data()));
    EXPECT_EQ(ExportOnnx(*again).value(), bytes);
  }
}

// Here a constant that a body reads from around it comes before one of its own;
// in the exported model it comes after the body's initializers.
TEST(OnnxExportTest, ConstantsInABodyKeepTheirOrder) {
  ModelBuilder builder = RichModel(13);
  auto& body =
      *builder.graph().mutable_node(2)->mutable_attribute(0)->mutable_g();
  auto& node =
      ModelBuilder::SetNode("Constant", {}, {"own"}, "own", body.add_node());
  AddAttribute("value_floats", 6, &node).add_floats(3);
  ModelBuilder::SetNode("Plus", {"s", "own"}, {"t"}, "", body.add_node());
  body.mutable_output(0)->set_name("t");
  const Network network = builder.Import().value();
  const auto again = ImportBytes(ExportOnnx(network).value());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(NetworkToText(again->data()), NetworkToText(network.data()));
}

TEST(OnnxExportTest, MovedInputsAreAttributesAgain) {
  const auto model = Exported(RichModel(9).Import().value());
  const auto& squash = model.graph().node(1);
  EXPECT_EQ(squash.input_size(), 1);
  EXPECT_EQ(squash.attribute(0).name(), "axes");
  EXPECT_EQ(squash.attribute(0).ints(0), 0);
  EXPECT_EQ(model.graph().node(2).attribute(0).i(), 5);
  EXPECT_EQ(model.graph().node(3).attribute(0).f(), 6);
  EXPECT_EQ(model.graph().initializer_size(), 1);
}

TEST(OnnxExportTest, AMovedInputThatIsCalculatedIsRefused) {
  Network network = NegModel(9).Import().value();
  const ValueId x = network.inputs()[0];
  const OperatorDef* const squash = TestOperators().Find("", "Squash", 9);
  NewOperation operation{MakeAttrs(*squash, {}).value(),
                         {x, network.outputs()[0]}};
  operation.name = "s";
  ASSERT_THAT(network.AddOperation(operation), IsOk());
  EXPECT_THAT(ExportOnnx(network),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("operation s (Squash): input 1 (y) is "
                                  "calculated, expected a constant")));
}

TEST(OnnxExportTest, DefaultsAreNotWritten) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  AddAttribute("factor", 1, &builder.Node("Scale", {"x"}, {"y"})).set_f(0);
  const auto model = Exported(builder.Import().value());
  ASSERT_EQ(model.graph().node(0).attribute_size(), 1);
  EXPECT_EQ(model.graph().node(0).attribute(0).name(), "factor");
}

TEST(OnnxExportTest, BodiesReadWhatIsAroundThemByItsName) {
  const auto model = Exported(RichModel(13).Import().value());
  const auto& choose = model.graph().node(2);
  EXPECT_EQ(choose.input_size(), 1);
  const auto& body = choose.attribute(0).g();
  EXPECT_EQ(body.input_size(), 0);
  EXPECT_EQ(body.initializer_size(), 0);
  EXPECT_THAT(body.node(0).input(), testing::ElementsAre("c", "w"));
}

TEST(OnnxExportTest, TypesAreStated) {
  const auto model = Exported(RichModel(13).Import().value());
  const auto& graph = model.graph();
  EXPECT_EQ(graph.input(0).type().tensor_type().elem_type(), kOnnxFloat);
  EXPECT_EQ(graph.output(0).type().tensor_type().shape().dim(0).dim_value(), 2);
  EXPECT_EQ(graph.value_info(0).name(), "a");
  EXPECT_EQ(model.ir_version(), 7);
  EXPECT_EQ(model.opset_import(0).version(), 13);
}

TEST(OnnxExportTest, TheIrIsThatOfTheOpset) {
  EXPECT_EQ(Exported(NegModel(27).Import().value()).ir_version(), 13);
  EXPECT_EQ(Exported(NegModel(28).Import().value()).ir_version(), 14);
}

TEST(OnnxExportTest, ACaseIsAFolderAsOnnxsOwnTestsHaveThem) {
  const fs::path folder = fs::path(testing::TempDir()) / "onnx_case";
  const Network network = NegModel().Import().value();
  ASSERT_THAT(
      WriteOnnxCase(folder, network, {Floats({1, 2})}, {Floats({-1, -2})}),
      IsOk());
  DiagnosticList diagnostics;
  EXPECT_THAT(
      ImportOnnx(folder / "model.onnx", TestOperators(), {}, &diagnostics),
      IsOk());
  const auto output =
      ReadTensorFile(folder / "test_data_set_0/output_0.pb").value();
  EXPECT_EQ(output[0].name, "y");
  EXPECT_EQ(ValuesOf(output[0].tensor), (std::vector<float>{-1, -2}));
  EXPECT_THAT(WriteOnnxCase(folder, network, {}, {Floats({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 0 inputs, expected 1")));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace nodewise
