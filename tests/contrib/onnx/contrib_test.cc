#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/function_body.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

// Operators of com.microsoft, imported as what they mean.

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

// A model of one such node, whose inputs are floats of these shapes.
class ContribModel {
 public:
  ContribModel(int opset, const char* op,
               const std::vector<std::vector<int64_t>>& shapes,
               const std::vector<std::string>& outputs = {"y"},
               int first_type = kOnnxFloat)
      : builder_(opset) {
    auto& import = *builder_.model().add_opset_import();
    import.set_domain("com.microsoft");
    import.set_version(1);
    std::vector<std::string> names;
    for (size_t i = 0; i < shapes.size(); ++i) {
      names.push_back("x" + std::to_string(i));
      builder_.Input(names.back(), shapes[i], i == 0 ? first_type : kOnnxFloat);
    }
    for (const std::string& output : outputs) {
      if (!output.empty()) builder_.Output(output);
    }
    node_ = &builder_.Node(op, names, outputs, "n");
    node_->set_domain("com.microsoft");
  }

  ModelBuilder& builder() { return builder_; }
  nodewise_onnx::Node& node() { return *node_; }

  absl::StatusOr<Network> Import(DiagnosticList* diagnostics) const {
    const std::string bytes = builder_.Bytes();
    return ImportOnnx(
        {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
        "model.onnx", "", AllOperators(), {}, diagnostics);
  }
  // Returns the first error.
  std::string Error() const {
    DiagnosticList diagnostics;
    EXPECT_FALSE(Import(&diagnostics).ok());
    return diagnostics.items().empty() ? "" : diagnostics.items()[0].ToString();
  }
  std::vector<NDArray> Run(std::vector<NDArray> inputs) const {
    DiagnosticList diagnostics;
    const auto network = Import(&diagnostics);
    EXPECT_THAT(network, IsOk());
    if (!network.ok()) return {};
    const auto outputs = Interpret(*network, std::move(inputs));
    EXPECT_THAT(outputs, IsOk());
    return outputs.ok() ? *outputs : std::vector<NDArray>();
  }

 private:
  ModelBuilder builder_;
  nodewise_onnx::Node* node_ = nullptr;
};

TEST(ContribFunctionsTest, BodiesHaveOperatorsOfTheirOpset) {
  const std::set<std::string> own = {"SwapLast",      "BatchToSecondLast",
                                     "ChannelsFirst", "ChannelsLast",
                                     "ZeroOf",        "CastAs",
                                     "Refuse"};
  for (const ContribFunction* const function : ContribFunctions()) {
    for (const BodyStatement& statement : ParseBody(function->body)) {
      if (own.contains(statement.op)) continue;
      const bool is_function =
          FindContribFunction(statement.domain, statement.op,
                              function->opset) != nullptr;
      EXPECT_TRUE(is_function ||
                  AllOperators().Find(statement.domain, statement.op,
                                      function->opset) != nullptr)
          << function->name << " " << statement.op;
    }
  }
}

TEST(ContribFunctionsTest, BodiesReadWhatALineBeforeThemHasGiven) {
  for (const ContribFunction* const function : ContribFunctions()) {
    std::set<std::string> names = {""};
    for (const Param& param : function->inputs) {
      names.emplace(param.name);
      names.insert(std::string(param.name) + "...3");
      names.insert(std::string(param.name) + "...");
    }
    for (const BodyStatement& statement : ParseBody(function->body)) {
      if (statement.op == "Refuse") continue;  // Its words are not values.
      for (const std::string& input : statement.inputs) {
        const bool is_constant =
            std::string_view("[#$-0123456789")
                .find(input.empty() ? ' ' : input[0]) != std::string_view::npos;
        EXPECT_TRUE(is_constant || names.contains(input))
            << function->name << " " << input;
      }
      names.insert(statement.outputs.begin(), statement.outputs.end());
    }
    // onnxruntime never gives some of the others either.
    EXPECT_TRUE(names.contains(std::string(function->outputs[0].name)))
        << function->name;
  }
}

TEST(ContribFunctionsTest, TheNewestBodyThatTheOpsetAllowsIsTaken) {
  EXPECT_EQ(FindContribFunction("com.microsoft", "Gelu", 8), nullptr);
  EXPECT_EQ(FindContribFunction("com.microsoft", "Gelu", 9)->opset, 9);
  EXPECT_EQ(FindContribFunction("com.microsoft", "Gelu", 28)->opset, 20);
  EXPECT_EQ(FindContribFunction("", "Gelu", 28), nullptr);
}

TEST(FunctionBodyTest, LinesAreTakenApart) {
  const auto body = ParseBody(R"(
      a, b = Split<axis=-1, to=$type>(x, , [0, -2]) if !bias
      y = Add(a,
          1.5))");
  ASSERT_EQ(body.size(), 2);
  EXPECT_THAT(body[0].outputs, ElementsAre("a", "b"));
  EXPECT_EQ(body[0].op, "Split");
  EXPECT_THAT(body[0].attributes, ElementsAre(testing::Pair("axis", "-1"),
                                              testing::Pair("to", "$type")));
  EXPECT_THAT(body[0].inputs, ElementsAre("x", "", "[0, -2]"));
  EXPECT_EQ(body[0].condition, "!bias");
  EXPECT_THAT(body[1].inputs, ElementsAre("a", "1.5"));
  const auto more = ParseBody(R"(
      y = com.microsoft.Attention<perm=[0, $side]>(x) if bias and
          rank(x)=3
      z = Identity(y))");
  ASSERT_EQ(more.size(), 2);
  EXPECT_EQ(more[0].domain, "com.microsoft");
  EXPECT_EQ(more[0].op, "Attention");
  EXPECT_THAT(more[0].attributes,
              ElementsAre(testing::Pair("perm", "[0, $side]")));
  EXPECT_EQ(more[0].condition, "bias and rank(x)=3");
}

TEST(OnnxContribTest, ABiasIsAddedWhereItIsGiven) {
  for (const int opset : {11, 20}) {
    const NDArray x = Floats({1, -2});
    EXPECT_THAT(
        ValuesOf(ContribModel(opset, "FastGelu", {{2}}).Run({x})[0]),
        ElementsAre(FloatNear(0.841192F, 1e-6F), FloatNear(-0.045402F, 1e-6F)));
    EXPECT_THAT(
        ValuesOf(ContribModel(opset, "FastGelu", {{2}, {2}})
                     .Run({Floats({0, 0}), x})[0]),
        ElementsAre(FloatNear(0.841192F, 1e-6F), FloatNear(-0.045402F, 1e-6F)));
  }
}

TEST(OnnxContribTest, OutputsKeepTheirNamesAndOthersAreLeftOut) {
  for (const int opset : {11, 17}) {
    ContribModel model(opset, "SkipLayerNormalization", {{1, 2}, {1, 2}, {2}},
                       {"y", "", "", "sum"});
    DiagnosticList diagnostics;
    const auto network = model.Import(&diagnostics);
    ASSERT_THAT(network, IsOk());
    EXPECT_EQ(network->value(network->outputs()[0]).name, "y");
    EXPECT_EQ(network->value(network->outputs()[1]).name, "sum");
    const auto y =
        model.Run({MakeTensor<float>({1, 2}, {1, 2}),
                   MakeTensor<float>({1, 2}, {0, 3}), Floats({2, 4})});
    EXPECT_THAT(ValuesOf(y[0]),
                ElementsAre(FloatNear(-2, 1e-6F), FloatNear(4, 1e-6F)));
    EXPECT_THAT(ValuesOf(y[1]), ElementsAre(1, 5));
  }
}

TEST(OnnxContribTest, SidesAreExchangedAsAttributesSay) {
  ContribModel model(13, "FusedMatMul", {{2, 1}, {2, 1}});
  AddAttribute("transA", 2, &model.node()).set_i(1);
  AddAttribute("alpha", 1, &model.node()).set_f(0.5F);
  const NDArray x = MakeTensor<float>({2, 1}, {3, 4});
  EXPECT_THAT(ValuesOf(model.Run({x, x})[0]), ElementsAre(12.5F));
  ContribModel batch(13, "FusedMatMul", {{2, 3, 1}, {3, 1, 1}});
  AddAttribute("transBatchA", 2, &batch.node()).set_i(1);
  const auto y = batch.Run({MakeTensor<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6}),
                            MakeTensor<float>({3, 1, 1}, {1, 10, 100})});
  EXPECT_EQ(ToString(TensorType::From(*y[0])), "float32[3, 2, 1]");
  EXPECT_THAT(ValuesOf(y[0]), ElementsAre(1, 4, 20, 50, 300, 600));
}

TEST(OnnxContribTest, AttributesOfTheOperatorInsideAreHandedOn) {
  ContribModel model(13, "FusedConv", {{1, 1, 1, 3}, {1, 1, 1, 2}});
  auto& strides = AddAttribute("strides", 7, &model.node());
  strides.add_ints(1);
  strides.add_ints(2);
  AddAttribute("pads", 7, &model.node()).mutable_ints()->Add(0);
  model.node().mutable_attribute(1)->mutable_ints()->Resize(4, 0);
  model.node().mutable_attribute(1)->set_ints(3, 1);
  AddAttribute("activation", 3, &model.node()).set_s("LeakyRelu");
  AddAttribute("activation_params", 6, &model.node()).add_floats(0.5F);
  EXPECT_THAT(ValuesOf(model.Run({MakeTensor<float>({1, 1, 1, 3}, {1, -4, 2}),
                                  MakeTensor<float>({1, 1, 1, 2}, {1, 1})})[0]),
              ElementsAre(-1.5F, 2));
}

TEST(OnnxContribTest, ChannelsMayBeTheLastSide) {
  ContribModel model(13, "NhwcConv", {{1, 1, 2, 2}, {1, 2, 1, 1}});
  const auto y = model.Run({MakeTensor<float>({1, 1, 2, 2}, {1, 2, 3, 4}),
                            MakeTensor<float>({1, 2, 1, 1}, {1, 10})});
  EXPECT_EQ(ToString(TensorType::From(*y[0])), "float32[1, 1, 2, 1]");
  EXPECT_THAT(ValuesOf(y[0]), ElementsAre(21, 43));
}

TEST(OnnxContribTest, FunctionsCallFunctionsWithWhatIsKnownOfTheirInputs) {
  // One head of one element: each query takes the mean of keys that are alike.
  ContribModel model(13, "MultiHeadAttention",
                     {{1, 2, 1}, {1, 2, 1}, {1, 2, 1}}, {"y", "", "v"});
  AddAttribute("num_heads", 2, &model.node()).set_i(1);
  AddAttribute("unidirectional", 2, &model.node()).set_i(1);
  const auto y = model.Run({MakeTensor<float>({1, 2, 1}, {1, 1}),
                            MakeTensor<float>({1, 2, 1}, {5, 5}),
                            MakeTensor<float>({1, 2, 1}, {2, 4})});
  EXPECT_THAT(ValuesOf(y[0]), ElementsAre(2, 3));
  EXPECT_EQ(ToString(TensorType::From(*y[1])), "float32[1, 1, 2, 1]");
}

TEST(OnnxContribTest, VariadicInputsComeInWholeGroups) {
  ContribModel model(13, "QLinearConcat", {{}, {}, {1}, {}});
  AddAttribute("axis", 2, &model.node()).set_i(0);
  EXPECT_THAT(model.Error(),
              HasSubstr("inputs inputs: are 2, expected a multiple of 3"));
}

TEST(OnnxContribTest, AZeroPointThatIsLeftOutIsZeroInTheTypeOfTheInput) {
  constexpr int kOnnxInt8 = 3;
  ContribModel model(13, "QLinearLeakyRelu", {{2}, {}, {}}, {"y"}, kOnnxInt8);
  AddAttribute("alpha", 1, &model.node()).set_f(0.5F);
  // The third input is the scale of the output, behind a zero point.
  model.node().set_input(2, "");
  model.node().add_input("x2");
  const NDArray half = MakeTensor<float>({}, {0.5F});
  const auto y = model.Run({MakeTensor<int8_t>({2}, {-4, 8}), half, half});
  EXPECT_THAT(ValuesOf<int8_t>(y[0]), ElementsAre(-2, 8));
}

TEST(OnnxContribTest, BlocksOfShortIntegersAndFloatsLieAlongAnyAxis) {
  constexpr int kOnnxInt4 = 22;
  constexpr int kOnnxE4M3 = 17;
  const NDArray places = MakeTensor<int64_t>({2}, {1, -2});
  const auto run = [&](int type, int64_t block_size, const NDArray& data,
                       const NDArray& scales) {
    ContribModel gather(21, "GatherBlockQuantized",
                        {{3, 2}, {2}, {scales.shape()[0], scales.shape()[1]}},
                        {"y"}, type);
    gather.builder()
        .model()
        .mutable_graph()
        ->mutable_input(1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->set_elem_type(kOnnxInt64);
    AddAttribute("quantize_axis", 2, &gather.node()).set_i(0);
    AddAttribute("gather_axis", 2, &gather.node()).set_i(-1);
    AddAttribute("block_size", 2, &gather.node()).set_i(block_size);
    return ValuesOf(gather.Run({data, places, scales})[0]);
  };
  // Two scales for each column, the first one for two rows.
  EXPECT_THAT(
      run(kOnnxInt4, 2,
          MakeTensor<int8_t>({3, 2}, {1, -2, 3, 4, 5, -6}, {kDLInt, 4, 1}),
          MakeTensor<float>({2, 2}, {1, 10, 2, 20})),
      ElementsAre(-20, 1, 40, 3, -120, 10));
  // One scale for all: 1, 2 and -1 as bytes.
  EXPECT_THAT(
      run(kOnnxE4M3, 0,
          MakeTensor<uint8_t>({3, 2}, {0x38, 0x40, 0x38, 0x40, 0xB8, 0x40},
                              {kDTypeE4M3, 8, 1}),
          MakeTensor<float>({1, 1}, {3})),
      ElementsAre(6, 3, 6, 3, 6, -3));
}

TEST(OnnxContribTest, WhatDoesNotFitIsNamed) {
  ContribModel gemm(13, "FusedGemm", {{1, 1}, {1, 1}});
  AddAttribute("activation", 3, &gemm.node()).set_s("Fancy");
  EXPECT_THAT(gemm.Error(), HasSubstr("node n (com.microsoft.FusedGemm, opset "
                                      "1): attribute activation: is Fancy, "
                                      "which is not known"));
  ContribModel kind(13, "QuickGelu", {{1}});
  AddAttribute("alpha", 2, &kind.node()).set_i(1);
  EXPECT_THAT(kind.Error(), HasSubstr("attribute alpha: is of the wrong type"));
  ContribModel other(13, "QuickGelu", {{1}});
  AddAttribute("beta", 1, &other.node()).set_f(1);
  EXPECT_THAT(other.Error(), HasSubstr("attribute beta is unknown"));
  constexpr int kOnnxUint8 = 2;
  ContribModel gather(13, "GatherBlockQuantized", {{1, 1}, {1}, {1, 1}}, {"y"},
                      kOnnxUint8);
  AddAttribute("quantize_axis", 2, &gather.node()).set_i(0);
  EXPECT_THAT(gather.Error(), HasSubstr("attribute quantize_axis: is not known "
                                        "for such an input"));
  EXPECT_THAT(ContribModel(13, "MultiHeadAttention", {{1, 1, 1}}).Error(),
              HasSubstr("attribute num_heads: is not given"));
  EXPECT_THAT(ContribModel(13, "BiasGelu", {{1}}).Error(),
              HasSubstr("input B: is not given"));
  EXPECT_THAT(ContribModel(13, "FastGello", {{1}}).Error(),
              HasSubstr("is not known, expected an operator of com.microsoft "
                        "that is known; did you mean FastGelu?"));
  EXPECT_THAT(ContribModel(8, "Gelu", {{1}}).Error(),
              HasSubstr("is not known in an opset of ai.onnx this old"));
}

// Makes it a model of classical operators alone.
void MakeClassic(ContribModel* model, int version) {
  auto& imports = *model->builder().model().mutable_opset_import();
  imports.Clear();
  imports.Add()->set_domain("ai.onnx.ml");
  imports[0].set_version(version);
  model->node().set_domain("ai.onnx.ml");
}

TEST(OnnxContribTest, ClassicalModelsNeedNotNameTheMainDomain) {
  ContribModel model(13, "Binarizer", {{3}});
  MakeClassic(&model, 1);
  AddAttribute("threshold", 1, &model.node()).set_f(1);
  EXPECT_THAT(ValuesOf(model.Run({Floats({0, 1, 2})})[0]),
              ElementsAre(0, 0, 1));
  model.node().set_op_type("Binariser");
  model.node().clear_attribute();
  EXPECT_THAT(model.Error(), HasSubstr("an operator of ai.onnx.ml that is "
                                       "known; did you mean Binarizer?"));
}

TEST(OnnxContribTest, ClassicalOperatorsOnStringsAndMapsAreNamed) {
  const auto error = [](const char* op, int version) {
    ContribModel model(13, op, {{3}});
    MakeClassic(&model, version);
    return model.Error();
  };
  const char* const strings = "is not supported: it works on strings";
  EXPECT_THAT(error("CategoryMapper", 1), HasSubstr(strings));
  EXPECT_THAT(error("LabelEncoder", 1), HasSubstr(strings));
  EXPECT_THAT(error("ZipMap", 1),
              HasSubstr("is not supported: it works on maps"));
  EXPECT_THAT(error("SVMRegresor", 1), HasSubstr("did you mean SVMRegressor?"));
}

TEST(OnnxContribTest, TreesAsListsAreDeprecatedFromVersion5On) {
  ContribModel model(13, "TreeEnsembleRegressor", {{1, 1}});
  AddAttribute("n_targets", 2, &model.node()).set_i(1);
  for (const char* const name :
       {"nodes_treeids", "nodes_nodeids", "nodes_featureids",
        "nodes_truenodeids", "nodes_falsenodeids", "target_treeids",
        "target_nodeids", "target_ids"}) {
    AddAttribute(name, 7, &model.node()).add_ints(0);
  }
  AddAttribute("nodes_values", 6, &model.node()).add_floats(0);
  AddAttribute("target_weights", 6, &model.node()).add_floats(2.5F);
  AddAttribute("nodes_modes", 8, &model.node()).add_strings("LEAF");
  for (const int version : {3, 5}) {
    MakeClassic(&model, version);
    DiagnosticList diagnostics;
    EXPECT_THAT(model.Import(&diagnostics), IsOk());
    const std::string said =
        diagnostics.items().empty() ? "" : diagnostics.items()[0].ToString();
    EXPECT_EQ(
        said.find("is deprecated from opset 5 on, expected TreeEnsemble") !=
            std::string::npos,
        version == 5)
        << said;
  }
  EXPECT_THAT(ValuesOf(model.Run({MakeTensor<float>({1, 1}, {7})})[0]),
              ElementsAre(2.5F));
}

TEST(OnnxContribTest, AFunctionOfTheModelComesFirst) {
  ContribModel model(13, "FastGelu", {{2}});
  auto& function = *model.builder().model().add_functions();
  function.set_name("FastGelu");
  function.set_domain("com.microsoft");
  function.add_input("a");
  function.add_output("b");
  ModelBuilder::SetNode("Neg", {"a"}, {"b"}, "", function.add_node());
  EXPECT_THAT(ValuesOf(model.Run({Floats({1, -2})})[0]), ElementsAre(-1, 2));
}

}  // namespace
}  // namespace nodewise
