#include <map>

#include "nodewise/ir/network.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/recurrent.h"
#include "nodewise/ops/softmax.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

// Passes tell operators apart by their classes.
TEST(AllOperatorsTest, EachClassIsOfOneOperator) {
  std::map<const void*, std::string_view> names;
  for (const OperatorDef* def : AllOperators().rows()) {
    EXPECT_EQ(names.emplace(def->type, def->name).first->second, def->name);
  }
}

// OV-30: what an operator makes follows from its inputs and attributes.
TEST(AllOperatorsTest, DrawnNumbersFollowFromTheSeed) {
  const auto drawn = [](const char* name, std::vector<NDArray> inputs) {
    return ElementsOf({name, kNewestOpset, {Real("seed", 1)}},
                      std::move(inputs));
  };
  const NDArray x = MakeTensor<float>({2, 2}, {0.5F, 0.5F, 0.5F, 0.5F});
  for (const char* name :
       {"Bernoulli", "RandomNormalLike", "RandomUniformLike", "Multinomial"}) {
    EXPECT_EQ(drawn(name, {x}), drawn(name, {x})) << name;
  }
}

// Bodies, and what opaque operations hold, are checked by these operators.
TEST(AllOperatorsTest, RequiredAttributesBeginWithoutAValue) {
  for (const OperatorDef* def : AllOperators().rows()) {
    if (def->domain == kOpaqueDomain) continue;
    const OpAttrs unset = OpAttrs::Defaults(*def);
    for (const AttrField& field : def->fields) {
      if (!field.is_required || field.is_graph) continue;
      EXPECT_FALSE(CheckRequired(unset).ok()) << def->name << " " << field.name;
    }
  }
}

TEST(AllOperatorsTest, ConcatWithoutAnAxisIsRefused) {
  Network net;
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  EXPECT_THAT(net.Add(AllOperators(), ops::Concat{}, {x, x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        testing::HasSubstr("attribute axis: is missing, Concat "
                                           "needs it")));
  EXPECT_THAT(net.Add(AllOperators(), ops::Concat{0}, {x, x}), IsOk());
}

TEST(AllOperatorsTest, AttributesGivenByNameAreReadWithTheirTypes) {
  const auto attrs = OpSetup{"Conv",
                             11,
                             {{"strides", std::vector<int64_t>{2, 3}},
                              {"auto_pad", std::string("VALID")}}}
                         .Make();
  ASSERT_THAT(attrs, IsOk());
  const auto* const conv = attrs->As<ops::Conv>();
  ASSERT_NE(conv, nullptr);
  EXPECT_THAT(conv->strides, ElementsAre(2, 3));
  EXPECT_EQ(conv->auto_pad, ops::Padding::kValid);
  EXPECT_EQ(conv->group, 1);
  EXPECT_EQ(attrs->As<ops::ConvInteger>(), nullptr);
}

TEST(AllOperatorsTest, AttributesMadeOfAClassEqualThoseGivenByName) {
  ops::LSTM1 lstm;
  lstm.activations = {"Relu", "Tanh", "Relu"};
  lstm.direction = ops::Direction::kReverse;
  lstm.input_forget = true;
  lstm.output_sequence = true;
  const auto named = OpSetup{
      "LSTM",
      1,
      {{"activations", std::vector<std::string>{"Relu", "Tanh", "Relu"}},
       {"direction", std::string("reverse")},
       {"input_forget", int64_t{1}},
       {"output_sequence",
        int64_t{1}}}}.Make();
  ASSERT_THAT(named, IsOk());
  const OperatorDef* const def = AllOperators().FindType(&kTypeTag<ops::LSTM1>);
  EXPECT_TRUE(OpAttrs::From(def, lstm) == *named);
}

TEST(AllOperatorsTest, VersionsWithOtherDefaultsAreOtherClasses) {
  const auto before = OpSetup{"Softmax", 12}.Make();
  const auto since = OpSetup{"Softmax", 13}.Make();
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(since, IsOk());
  ASSERT_NE(before->As<ops::Softmax1>(), nullptr);
  ASSERT_NE(since->As<ops::Softmax>(), nullptr);
  EXPECT_EQ(before->As<ops::Softmax1>()->axis, 1);
  EXPECT_EQ(since->As<ops::Softmax>()->axis, -1);
  EXPECT_EQ(before->As<ops::Softmax>(), nullptr);
}

// Files say 0 where a type is not set.
TEST(AllOperatorsTest, ATypeOfZeroIsNone) {
  const auto attrs =
      OpSetup{"QuantizeLinear", 23, {{"output_dtype", int64_t{0}}}}.Make();
  ASSERT_THAT(attrs, IsOk());
  ASSERT_NE(attrs->As<ops::QuantizeLinear>(), nullptr);
  EXPECT_FALSE(attrs->As<ops::QuantizeLinear>()->output_dtype.has_value());
  EXPECT_TRUE(*attrs == OpAttrs::Defaults(attrs->def()));
}

}  // namespace
}  // namespace nodewise
