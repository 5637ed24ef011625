#include "nodewise/op/op_def.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nodewise/op/op_row.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::Ops;
using testing::AllOf;
using testing::HasSubstr;

const OperatorDef& ScaleRow() { return *Ops().Find("", "Scale", 21); }

// OV-07.
TEST(OpDefTest, OperatorCannotBeMadeWithoutARequiredAttribute) {
  EXPECT_THAT(MakeAttrs(ScaleRow(), {}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("Scale: attribute factor: is missing")));
}

// OV-35.
TEST(OpDefTest, EveryWrongAttributeIsInTheError) {
  EXPECT_THAT(
      MakeAttrs(ScaleRow(), {{"factr", 1.0f},
                             {"times", std::string("2")},
                             {"is_exact", int64_t{2}},
                             {"rounding", std::string("up")},
                             {"to", int64_t{27}}}),
      FailsWith(
          StatusCode::kInvalidArgument,
          AllOf(HasSubstr("attribute factr: Scale has none of that name; did "
                          "you mean factor?"),
                HasSubstr("attribute times: is a string, expected an integer"),
                HasSubstr("attribute is_exact: is 2, expected 0 or 1"),
                HasSubstr("attribute rounding: is \"up\", expected one of "
                          "\"even\", \"down\""),
                HasSubstr("attribute to: element type float6e2m3 (27) is "
                          "not supported"),
                HasSubstr("attribute factor: is missing"))));
}

TEST(OpDefTest, AttributeGivenTwiceIsRefused) {
  EXPECT_THAT(MakeAttrs(ScaleRow(), {{"factor", 1.0f}, {"factor", 2.0f}}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("attribute factor: is given twice")));
}

TEST(OpDefTest, AttributesComeBackByName) {
  const std::vector<NamedAttr> given = {{"factor", 0.5f},
                                        {"times", int64_t{3}},
                                        {"axes", std::vector<int64_t>{1, -1}},
                                        {"table", Floats({1, 2})},
                                        {"to", int64_t{10}},
                                        {"rounding", std::string("down")},
                                        {"is_exact", int64_t{1}}};
  const OpAttrs attrs = MakeAttrs(ScaleRow(), given).value();
  const auto* const scale = attrs.As<test_ops::Scale>();
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->axes, (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(scale->to->bits, 16);
  EXPECT_EQ(scale->rounding, test_ops::Rounding::kDown);
  EXPECT_TRUE(scale->is_exact);
  EXPECT_EQ(attrs.As<test_ops::Relu>(), nullptr);
  EXPECT_EQ(MakeAttrs(ScaleRow(), NamedAttrsOf(attrs)).value(), attrs);
}

// OV-08.
TEST(OpDefTest, TensorThatIsGivenByNameIsCopied) {
  const NDArray kept = Floats({1, 2});
  const OpAttrs attrs =
      MakeAttrs(ScaleRow(), {{"factor", 1.0f}, {"table", kept}}).value();
  kept.As<float>()[0] = 7;
  EXPECT_THAT(ValuesOf(*attrs.As<test_ops::Scale>()->table),
              testing::ElementsAre(1, 2));
}

// OV-08.
TEST(OpDefTest, TensorOfAClassIsCopied) {
  const NDArray kept = Floats({1, 2});
  const OpAttrs attrs =
      test_ops::AttrsOf(test_ops::Scale{.factor = 1, .table = kept});
  kept.As<float>()[0] = 7;
  EXPECT_THAT(ValuesOf(*attrs.As<test_ops::Scale>()->table),
              testing::ElementsAre(1, 2));
}

struct Pool {
  std::vector<int64_t> kernel;
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Pool::kernel>("kernel"));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs&) const {
    return OutputInfos(1);
  }
  absl::Status Evaluate(EvalArgs&) const { return absl::OkStatus(); }
};

TEST(OpDefTest, RequiredAttributeWithoutAValueIsNamed) {
  static constexpr OperatorDef kPool = Row<Pool>({.name = "Pool"});
  EXPECT_THAT(
      CheckRequired(OpAttrs::From(&kPool, Pool{})),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("attribute kernel: is missing, Pool needs it")));
  EXPECT_THAT(CheckRequired(OpAttrs::From(&kPool, Pool{{2, 2}})), IsOk());
}

struct Put {
  Required<int64_t> axis;
  Required<std::string> text;
};
struct PutRules : Put {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&PutRules::axis>("axis"),
                     RequiredField<&PutRules::text>("text"));
  }
  OutputInfos Infer(const Inputs& in) const { return {in.type(0)}; }
  absl::Status Evaluate(EvalArgs&) const { return absl::OkStatus(); }
};

// OV-07. A number has no value that says that it was not given.
TEST(OpDefTest, RequiredNumberAndWordBeginWithoutAValue) {
  static constexpr OperatorDef kPut = Row<Put, PutRules>({.name = "Put"});
  EXPECT_THAT(CheckRequired(OpAttrs::From(&kPut, Put{})),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("attribute axis: is missing, Put needs it")));
  EXPECT_THAT(CheckRequired(OpAttrs::From(&kPut, Put{.axis = 0, .text = {}})),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("attribute text: is missing")));
  EXPECT_THAT(CheckRequired(OpAttrs::From(&kPut, Put{0, std::string()})),
              IsOk());
}

TEST(OpDefTest, AttributesAreEqualByContent) {
  const auto with = [](const NDArray& table, float factor) {
    return test_ops::AttrsOf(test_ops::Scale{.factor = factor, .table = table});
  };
  EXPECT_EQ(with(Floats({1, 2}), NAN), with(Floats({1, 2}), NAN));
  EXPECT_FALSE(with(Floats({1, 2}), 1) == with(Floats({1, 3}), 1));
  EXPECT_FALSE(with(Floats({1, 2}), 0) == with(Floats({1, 2}), -0.0f));
  EXPECT_FALSE(with(NDArray(), 1) == with(Floats({1}), 1));
}

TEST(OpDefTest, RowOfAnOpsetIsTheNewestUpToIt) {
  EXPECT_EQ(Ops().Find("", "Relu", 5), nullptr);
  EXPECT_EQ(Ops().Find("", "Relu", 6)->since, 6);
  EXPECT_EQ(Ops().Find("", "Relu", 13)->since, 6);
  EXPECT_EQ(Ops().Find("", "Relu", 99)->since, 14);
  EXPECT_EQ(Ops().Find("", "Rel", 99), nullptr);
  EXPECT_EQ(Ops().Find("other", "Relu", 99), nullptr);
  EXPECT_EQ(Ops().FindType(&kTypeTag<test_ops::Relu>)->since, 14);
}

TEST(OpDefTest, RowAddedLastReplacesOneOfItsNameAndVersion) {
  static constexpr OperatorDef kOther[] = {
      Row<test_ops::Add>({.name = "Relu", .since = 6})};
  OpSet ops = Ops();
  ops.Add(kOther);
  EXPECT_EQ(ops.rows().size(), Ops().rows().size());
  EXPECT_EQ(ops.Find("", "Relu", 6), &kOther[0]);
}

TEST(OpDefTest, CountsFollowFromTheRow) {
  const OperatorDef& clip = *Ops().Find("", "Clip", 21);
  EXPECT_EQ(clip.min_inputs(), 1u);
  EXPECT_EQ(clip.max_inputs(), 3u);
  EXPECT_EQ(clip.min_outputs(), 1u);
  EXPECT_EQ(clip.max_outputs(), 2u);
  const OperatorDef& split = *Ops().Find("", "Split", 21);
  EXPECT_EQ(split.min_outputs(), 1u);
  EXPECT_EQ(split.max_outputs(), SIZE_MAX);
}

TEST(OpDefTest, IntsAreReadFromConstantsAndElements) {
  const NDArray narrow = MakeTensor<int32_t>({2}, {3, -4});
  const NDArray floats = Floats({1});
  const Shape known = {5, -1};
  const Shape named = {5, Dim::Named("n")};
  std::vector<InputInfo> infos(4);
  infos[0].constant = &narrow;
  infos[1].constant = &floats;
  infos[2].elements = &known;
  infos[3].elements = &named;
  const Inputs inputs(infos);
  EXPECT_EQ(inputs.Ints(0), (std::vector<int64_t>{3, -4}));
  EXPECT_FALSE(inputs.Ints(1).has_value());
  EXPECT_EQ(inputs.Ints(2), (std::vector<int64_t>{5, -1}));
  EXPECT_FALSE(inputs.Ints(3).has_value());
  EXPECT_FALSE(inputs.Ints(4).has_value());
  EXPECT_FALSE(inputs.has(4));
}

TEST(OpDefTest, ElementsOfSmallIntegerConstantsAreKept) {
  EXPECT_EQ(ElementsOf(MakeTensor<int64_t>({}, {7})), Shape{7});
  EXPECT_EQ(ElementsOf(MakeTensor<int64_t>({0}, {})), Shape{});
  EXPECT_FALSE(ElementsOf(MakeTensor<int64_t>({1, 1}, {7})).has_value());
  EXPECT_FALSE(ElementsOf(Floats({1})).has_value());
  const std::vector<int64_t> many(kMostElements + 1);
  EXPECT_FALSE(
      ElementsOf(MakeTensor<int64_t>({static_cast<int64_t>(many.size())}, many))
          .has_value());
}

}  // namespace
}  // namespace nodewise
