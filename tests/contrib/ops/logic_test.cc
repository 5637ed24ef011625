#include <limits>

#include "nodewise/ir/network.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Truths(const std::vector<uint8_t>& values) {
  return MakeTensor<uint8_t>({static_cast<int64_t>(values.size())}, values,
                             kBool);
}
std::vector<uint8_t> ResultOfOp(const OpSetup& operation,
                                std::vector<NDArray> inputs) {
  return ElementsOf<uint8_t>(operation, std::move(inputs));
}

TEST(LogicTest, TruthsAreJoined) {
  const std::vector<NDArray> inputs = {Truths({0, 0, 1, 1}),
                                       Truths({0, 1, 0, 1})};
  EXPECT_THAT(ResultOfOp({"And"}, inputs), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(ResultOfOp({"Or"}, inputs), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(ResultOfOp({"Xor"}, inputs), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(ResultOfOp({"Not"}, {inputs[0]}), ElementsAre(1, 1, 0, 0));
}

TEST(LogicTest, NumbersAreNotTakenForBools) {
  EXPECT_THAT(EvaluateOne({"And"}, {Floats({1}), Floats({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 0: is of type float32")));
}

TEST(LogicTest, NanComparesWithNothing) {
  const std::vector<NDArray> inputs = {Floats({1, kNan, 2}),
                                       Floats({1, kNan, 3})};
  EXPECT_THAT(ResultOfOp({"Equal"}, inputs), ElementsAre(1, 0, 0));
  EXPECT_THAT(ResultOfOp({"LessOrEqual"}, inputs), ElementsAre(1, 0, 1));
  EXPECT_THAT(ResultOfOp({"GreaterOrEqual"}, inputs), ElementsAre(1, 0, 0));
  EXPECT_THAT(ResultOfOp({"Less"}, inputs), ElementsAre(0, 0, 1));
  EXPECT_THAT(ResultOfOp({"Greater"}, inputs), ElementsAre(0, 0, 0));
}

TEST(LogicTest, LargeIntegersAreComparedExactly) {
  const int64_t large = int64_t{1} << 60;
  EXPECT_THAT(ResultOfOp({"Equal"}, {MakeTensor<int64_t>({1}, {large}),
                                     MakeTensor<int64_t>({1}, {large + 1})}),
              ElementsAre(0));
}

TEST(LogicTest, FloatsAreTested) {
  const auto x = Floats({kInf, -kInf, kNan, 1});
  EXPECT_THAT(ResultOfOp({"IsNaN"}, {x}), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(ResultOfOp({"IsInf"}, {x}), ElementsAre(1, 1, 0, 0));
  const OpSetup positive{"IsInf", 20, {{"detect_negative", int64_t{0}}}};
  EXPECT_THAT(ResultOfOp(positive, {x}), ElementsAre(1, 0, 0, 0));
}

TEST(LogicTest, BitsAreJoinedAndShifted) {
  const auto x = MakeTensor<uint8_t>({3}, {0x0F, 0x81, 0xFF});
  const auto y = MakeTensor<uint8_t>({3}, {0x3C, 1, 8});
  EXPECT_THAT(ResultOfOp({"BitwiseAnd"}, {x, y}), ElementsAre(0x0C, 1, 8));
  EXPECT_THAT(ResultOfOp({"BitwiseXor"}, {x, y}),
              ElementsAre(0x33, 0x80, 0xF7));
  EXPECT_THAT(ResultOfOp({"BitwiseNot"}, {x}), ElementsAre(0xF0, 0x7E, 0));
  const OpSetup left{"BitShift", 11, {{"direction", std::string("LEFT")}}};
  const auto by = MakeTensor<uint8_t>({3}, {1, 1, 8});
  EXPECT_THAT(ResultOfOp(left, {x, by}), ElementsAre(0x1E, 2, 0));
}

TEST(LogicTest, SignedNumbersAreShiftedWithTheirSign) {
  const auto x = MakeTensor<int8_t>({6}, {-8, -8, 8, -128, 100, -1});
  const auto by = MakeTensor<int8_t>({6}, {1, 8, 2, -1, -1, 0});
  const OpSetup right{"BitShift", 28, {Word("direction", "RIGHT")}};
  const OpSetup left{"BitShift", 28, {Word("direction", "LEFT")}};
  EXPECT_THAT(ElementsOf<int8_t>(right, {x, by}),
              ElementsAre(-4, -1, 2, -1, 0, -1));
  EXPECT_THAT(ElementsOf<int8_t>(left, {x, by}),
              ElementsAre(-16, 0, 32, 0, 0, -1));
  EXPECT_THAT(ElementsOf<int8_t>(left, {MakeTensor<int8_t>({1}, {96}),
                                        MakeTensor<int8_t>({1}, {1})}),
              ElementsAre(-64));
  EXPECT_THAT(
      EvaluateOne({"BitShift", 27, {Word("direction", "LEFT")}}, {x, by}),
      FailsWith(kInvalid, HasSubstr("an unsigned integer")));
}

TEST(LogicTest, ShiftNeedsADirection) {
  const auto x = MakeTensor<uint8_t>({1}, {1});
  EXPECT_THAT(
      EvaluateOne({"BitShift"}, {x, x}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("direction")));
}

TEST(WhereTest, AllThreeAreBroadcast) {
  const auto column = MakeTensor<uint8_t>({2, 1}, {1, 0}, kBool);
  const auto y = EvaluateOne({"Where"}, {column, Floats({1, 2}), Floats({9})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf(*y), ElementsAre(1, 2, 9, 9));
}

// Returns the known elements of Where(condition, [4, 3], [7, 8]).
std::string KnownChoice(const NDArray& condition) {
  Network network("net");
  const auto constant = [&](const char* name, NDArray data) {
    return network.AddConstant(name, std::move(data)).value();
  };
  const auto two = [](int64_t a, int64_t b) {
    return MakeTensor<int64_t>({2}, {a, b});
  };
  const OpSetup where{"Where"};
  NewOperation operation{where.Make().value(),
                         {constant("c", condition), constant("x", two(4, 3)),
                          constant("y", two(7, 8))}};
  operation.name = "where";
  const auto id = network.AddOperation(std::move(operation));
  if (!id.ok()) return id.status().ToString();
  const auto& made = network.value(network.operation(*id).outputs[0]);
  return made.elements.has_value() ? ToString(*made.elements) : "";
}

TEST(WhereTest, AShapeThatIsChosenIsKnown) {
  EXPECT_EQ(KnownChoice(Truths({1, 0})), "[4, 8]");
}

TEST(WhereTest, WhatAConditionWithMoreSidesChoosesIsNotKnown) {
  for (const auto& shape : {std::vector<int64_t>{1, 2}, {2, 1}}) {
    EXPECT_EQ(KnownChoice(MakeTensor<uint8_t>(shape, {1, 0}, kBool)), "");
  }
}

TEST(WhereTest, TypesAreChecked) {
  EXPECT_THAT(
      EvaluateOne({"Where"}, {Floats({1}), Floats({1}), Floats({1})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("input 0")));
  EXPECT_EQ(
      InferredType({"Where"}, {{"bool[n]"}, {"float16[...]"}, {"float16[1]"}}),
      "float16[...]");
}

}  // namespace
}  // namespace nodewise
