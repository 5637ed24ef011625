#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Counting(const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape).value()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return MakeTensor<float>(shape, values);
}

TEST(MatMulTest, VectorsArePromotedAsInNumPy) {
  EXPECT_THAT(ElementsOf({"MatMul"}, {Floats({1, 2}), Counting({2, 3})}),
              ElementsAre(6, 9, 12));
  EXPECT_THAT(ElementsOf({"MatMul"}, {Counting({2, 2}), Floats({1, 2})}),
              ElementsAre(2, 8));
  EXPECT_EQ(InferredType({"MatMul"}, {{"float32[3]"}, {"float32[3]"}}),
            "float32[]");
}

TEST(MatMulTest, MatricesAreBroadcast) {
  EXPECT_THAT(
      ElementsOf({"MatMul"}, {Counting({2, 1, 1, 2}), Counting({2, 2, 1})}),
      ElementsAre(1, 3, 3, 13));
  EXPECT_EQ(
      InferredType({"MatMul"}, {{"float32[b, 1, 4, k]"}, {"float32[5, k, n]"}}),
      "float32[b, 5, 4, n]");
}

// Compares with sums of small integers, which are exact in any order.
void ExpectRightProduct(int64_t rows, int64_t depth, int64_t columns) {
  std::vector<float> a(static_cast<size_t>(rows * depth));
  std::vector<float> b(static_cast<size_t>(depth * columns));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
  const auto y =
      ElementsOf({"MatMul"}, {MakeTensor<float>({rows, depth}, a),
                              MakeTensor<float>({depth, columns}, b)});
  ASSERT_EQ(y.size(), static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; i += 97) {
    float sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      sum += a[static_cast<size_t>(i / columns * depth + k)] *
             b[static_cast<size_t>(k * columns + i % columns)];
    }
    ASSERT_EQ(y[static_cast<size_t>(i)], sum) << "element " << i;
  }
}

TEST(MatMulTest, BlocksMakeNoDifference) {
  // Larger than a tile along every side, and not a multiple of its size.
  ExpectRightProduct(401, 259, 397);
  // Too deep for a thread to keep the left factor packed.
  ExpectRightProduct(203, 5003, 67);
}

TEST(MatMulTest, SumsAreRoundedOnce) {
  EXPECT_THAT(
      ElementsOf({"MatMul"}, {Floats({16777216, 1, 1}), Floats({1, 1, 1})}),
      ElementsAre(16777218));
}

TEST(MatMulTest, IntegersWrapAround) {
  const auto y =
      ElementsOf<int64_t>({"MatMul"}, {MakeTensor<int64_t>({2}, {INT64_MAX, 1}),
                                       MakeTensor<int64_t>({2}, {1, 2})});
  EXPECT_THAT(y, ElementsAre(INT64_MIN + 1));
}

TEST(MatMulTest, EmptySumsAreZero) {
  EXPECT_THAT(ElementsOf({"MatMul"}, {Counting({1, 0}), Counting({0, 2})}),
              ElementsAre(0, 0));
}

TEST(MatMulTest, DepthsThatDifferAreRefused) {
  EXPECT_THAT(EvaluateOne({"MatMul"}, {Counting({2, 3}), Counting({2, 3})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 2 rows, expected 3")));
}

TEST(MatMulTest, ScalarsAreRefused) {
  const NDArray scalar = MakeTensor<float>({}, {1});
  for (const auto& inputs :
       {std::vector{scalar, Floats({1})}, std::vector{Floats({1}), scalar}}) {
    EXPECT_THAT(
        EvaluateOne({"MatMul"}, inputs),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("rank 0")));
  }
}

TEST(MatMulTest, ResultsTooLargeToCountAreRefused) {
  EXPECT_THAT(InferOf({"MatMul"}, {{"float32[4611686018427387904, 0]"},
                                   {"float32[0, 4611686018427387904]"}}),
              FailsWith(absl::StatusCode::kInvalidArgument, testing::_));
}

TEST(MatMulIntegerTest, ZeroPointsOfRowsAndColumnsAreSubtracted) {
  const auto y = ElementsOf<int32_t>(
      {"MatMulInteger"},
      {MakeTensor<uint8_t>({2, 2}, {1, 2, 3, 255}),
       MakeTensor<int8_t>({2, 2}, {-128, 1, 2, 3}),
       MakeTensor<uint8_t>({2}, {1, 3}), MakeTensor<int8_t>({2}, {0, 1})});
  EXPECT_THAT(y, ElementsAre(2, 2, 504, 504));
}

TEST(GemmTest, AllAttributesTakePart) {
  const OpSetup gemm = {"Gemm",
                        13,
                        {{"alpha", 0.5f},
                         {"beta", 2.0f},
                         {"transA", int64_t{1}},
                         {"transB", int64_t{1}}}};
  EXPECT_THAT(ElementsOf(gemm, {Counting({2, 1}),
                                MakeTensor<float>({2, 2}, {1, 2, 3, 4}),
                                Floats({10, 20})}),
              ElementsAre(21, 42));
}

TEST(GemmTest, OldOnesMustSayThatTheBiasIsBroadcast) {
  const std::vector<NDArray> inputs = {Counting({1, 2}), Counting({2, 2}),
                                       Floats({1, 1})};
  EXPECT_THAT(EvaluateOne({"Gemm", 6}, inputs),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("broadcast is 0")));
  EXPECT_THAT(ElementsOf({"Gemm", 6, {{"broadcast", int64_t{1}}}}, inputs),
              ElementsAre(3, 4));
}

TEST(GemmTest, BiasThatDoesNotFitIsRefused) {
  EXPECT_THAT(
      InferOf({"Gemm"}, {{"float32[2, 3]"}, {"float32[3, 4]"}, {"float32[3]"}}),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("input 2: is of shape [3]")));
}

OpSetup EinsumOf(const char* equation) {
  return {"Einsum", 12, {{"equation", std::string(equation)}}};
}

TEST(EinsumTest, DiagonalsSumsAndProducts) {
  const NDArray x = Counting({2, 2});
  EXPECT_THAT(ElementsOf(EinsumOf("ii->i"), {x}), ElementsAre(0, 3));
  EXPECT_THAT(ElementsOf(EinsumOf("ij->"), {x}), ElementsAre(6));
  EXPECT_THAT(ElementsOf(EinsumOf("ij,jk"), {x, x}), ElementsAre(2, 3, 6, 11));
  EXPECT_THAT(ElementsOf(EinsumOf("i,i,i->i"),
                         {Floats({1, 2}), Floats({3, 4}), Floats({5, 6})}),
              ElementsAre(15, 48));
  EXPECT_THAT(ElementsOf(EinsumOf("...i->..."), {x}), ElementsAre(1, 5));
}

TEST(EinsumTest, EquationsThatMeanNothingAreRefused) {
  for (const char* const bad : {"i->ii", "i->j", "ij->i", "i,i->i", "i;->i"}) {
    EXPECT_THAT(EvaluateOne(EinsumOf(bad), {Floats({1, 2})}),
                FailsWith(absl::StatusCode::kInvalidArgument, testing::_))
        << bad;
  }
}

TEST(DetTest, PivotsChangeTheSign) {
  const auto y = ElementsOf(
      {"Det"}, {MakeTensor<float>({2, 2, 2}, {0, 1, 1, 0, 1, 2, 2, 4})});
  EXPECT_THAT(y, ElementsAre(-1, 0));
}

TEST(InverseTest, RowsAreExchangedWhereTheDiagonalIsZero) {
  const OpSetup inverse{"Inverse", 1, {}, 1, "com.microsoft"};
  EXPECT_THAT(ElementsOf(inverse, {MakeTensor<float>(
                                      {2, 2, 2}, {0, 2, 4, 0, 1, 2, 3, 4})}),
              ElementsAre(0, 0.25F, 0.5F, 0, -2, 1, 1.5F, -0.5F));
  EXPECT_THAT(EvaluateOne(inverse, {MakeTensor<float>({1, 2}, {1, 2})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        testing::HasSubstr("expected square ones")));
}

}  // namespace
}  // namespace nodewise
