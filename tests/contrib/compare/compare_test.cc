#include "nodewise/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nodewise/ndarray/hash.h"
#include "nodewise/tensors/tensor_collector.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const float kNotANumber = std::nanf("");

const TensorKey kConv{"conv"};

absl::StatusOr<TensorComparison> CompareWithBounds(
    const NDArray& expected, const NDArray& actual,
    const std::vector<double>& bounds) {
  TensorItem item{kConv};
  item.tensor = expected.tensor();
  item.proved_bounds = bounds;
  item.expected_bounds = bounds;
  return CompareTensors(item, *actual);
}

struct VerdictCase {
  const char* what;
  std::vector<float> expected, actual;
  std::vector<double> bounds;
  Verdict verdict;
  uint64_t worst;  // Element.
};

TEST(CompareTest, VerdictIsThatOfTheWorstElement) {
  constexpr Verdict kPass = Verdict::kPass, kError = Verdict::kError;
  const VerdictCase cases[] = {
      {"bits", {1, 2}, {1, 2}, {0, 0}, kPass, 0},
      {"signs of zero", {0, 2}, {-0.0F, 2}, {0, 0}, kPass, 0},
      {"NaN", {kNotANumber}, {-kNotANumber}, {0}, kPass, 0},
      {"infinity", {kInfinite}, {kInfinite}, {0}, kPass, 0},
      {"rounding", {1, 32}, {1, 32.5}, {0, 1}, kPass, 1},
      {"at the bound", {16, 2}, {16.5, 2}, {0.5, 0}, kPass, 0},
      {"too far", {1, 2}, {1.5, 2.5}, {1, 0.25}, kError, 1},
      {"exact", {1, 2, 3}, {1, 3, 5}, {0, 0, 0}, kError, 2},
      {"no bound", {1, 2}, {1, 9}, {0, NAN}, Verdict::kInconclusive, 1},
      {"no bound needed", {1, 2}, {1, 2.00001F}, {0, NAN}, kPass, 1},
      {"both", {1, 2}, {9, 9}, {0, NAN}, kError, 0},
      {"vague bounds", {1, 2}, {2, 1}, {4, 4}, Verdict::kInconclusive, 0},
      {"new NaN", {1, 2}, {9, kNotANumber}, {0, 9}, kError, 1},
      {"lost NaN", {kNotANumber}, {1}, {NAN}, kError, 0},
      {"any of NaN", {kNotANumber, 2}, {1, 2}, {INFINITY, 0}, kPass, 0},
      {"not of others", {kNotANumber, 2}, {1, 3}, {INFINITY, 0}, kError, 1},
      {"overflow", {1}, {kInfinite}, {9}, kError, 0},
      {"other sign", {kInfinite}, {-kInfinite}, {9}, kError, 0},
  };
  for (const VerdictCase& c : cases) {
    SCOPED_TRACE(c.what);
    const auto compared =
        CompareWithBounds(Floats(c.expected), Floats(c.actual), c.bounds);
    ASSERT_THAT(compared, IsOk());
    EXPECT_EQ(NameOf(compared->verdict()), NameOf(c.verdict));
    EXPECT_FALSE(compared->judgement.reason.empty());
    if (compared->is_equal()) continue;
    EXPECT_EQ(compared->Worst().element, c.worst);
  }
}

TEST(CompareTest, PlaceAndSizeOfTheWorstErrorAreTold) {
  const auto compared = CompareWithBounds(
      Floats({1, 2, 4, 8}), Floats({1, 2.5, 5, 8}), {1, 0.125, 0.5, 1});
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->metrics.elements, 4U);
  EXPECT_EQ(compared->metrics.different, 2U);
  EXPECT_EQ(compared->bounds->outside, 2U);
  // The smaller error is the larger multiple of its bound.
  EXPECT_EQ(compared->Worst().element, 1U);
  EXPECT_EQ(compared->Worst().expected, 2);
  EXPECT_EQ(compared->Worst().actual, 2.5);
  EXPECT_EQ(ErrorOverBound(*compared), 4);
  EXPECT_EQ(compared->metrics.largest_error.error, 1);
  EXPECT_THAT(compared->judgement.reason, HasSubstr("4 x the proved bound"));
  EXPECT_EQ(compared->judgement.would_pass, "4 times the proved bound");
}

// OFc-07
TEST(CompareTest, LargeIntegersDifferThoughTheirDoublesDoNot) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  const auto compared =
      CompareWithBounds(MakeTensor<int64_t>({1}, {kLarge}),
                        MakeTensor<int64_t>({1}, {kLarge + 1}), {0});
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->verdict(), Verdict::kError);
  EXPECT_EQ(compared->Worst().error, 1);
}

TEST(CompareTest, TypesMayDifferIfThatIsAskedFor) {
  const NDArray expected = Floats({1, 2});
  TensorItem item{kConv};
  item.tensor = expected.tensor();
  const auto compared = CompareTensors(item, *MakeTensor<double>({2}, {1, 2}),
                                       {.may_convert = true});
  ASSERT_THAT(compared, IsOk());
  EXPECT_TRUE(compared->is_equal());
}

TEST(CompareTest, OtherShapesAndTypesAreErrorsThatNameBoth) {
  EXPECT_THAT(CompareWithBounds(Floats({1, 2}), Floats({1}), {}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("conv: is float32 (1,), expected float32 "
                                  "(2,)")));
  EXPECT_THAT(
      CompareWithBounds(Floats({1}), MakeTensor<double>({1}, {1}), {}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("float64")));
}

void Put(TensorCollector* collector, const std::string& name,
         const NDArray& tensor) {
  const TensorKey key{name};
  TensorItem item{key};
  item.tensor = tensor.tensor();
  EXPECT_THAT(collector->Consume(item), IsOk());
}

TEST(CompareTest, WhatOnlyOneSourceHasIsSkippedWithItsReason) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  Put(&reference, "y", Floats({1}));
  Put(&reference, "w", Floats({1}));
  Put(&candidate, "z", Floats({1}));
  Put(&candidate, "w", Floats({1, 2}));
  Put(&candidate, "x", Floats({1}));
  const auto compared = CompareSources(reference, candidate);
  ASSERT_THAT(compared, IsOk());
  ASSERT_EQ(compared->tensors.size(), 1U);
  EXPECT_EQ(compared->tensors[0].key.node, "x");
  ASSERT_EQ(compared->skipped.size(), 3U);
  EXPECT_EQ(compared->skipped[0].why, "the candidate does not have it");
  EXPECT_THAT(compared->skipped[1].why, HasSubstr("expected float32 (1,)"));
  EXPECT_EQ(compared->skipped[2].key.node, "z");
  EXPECT_EQ(compared->skipped[2].why, "the reference does not have it");
}

TEST(CompareTest, NamesOfAMapWinOverEqualOnes) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  Put(&reference, "y", Floats({2}));
  Put(&candidate, "x", Floats({2}));
  Put(&candidate, "z", Floats({1}));
  SourceOptions options;
  options.names = {{"x", "z"}, {"y", "x"}};
  const auto compared = CompareSources(reference, candidate, options);
  ASSERT_THAT(compared, IsOk());
  ASSERT_EQ(compared->tensors.size(), 2U);
  EXPECT_EQ(compared->CountOf(Verdict::kPass), 2U);
  EXPECT_EQ(compared->tensors[0].candidate.Name(), "z");
  EXPECT_EQ(compared->tensors[0].paired_by, PairedBy::kMap);
}

TEST(CompareTest, WhatAMapGivesAwayIsNotPairedByItsName) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  Put(&reference, "y", Floats({2}));
  Put(&candidate, "x", Floats({2}));
  SourceOptions options;
  options.names = {{"y", "x"}};
  const auto compared = CompareSources(reference, candidate, options);
  ASSERT_THAT(compared, IsOk());
  ASSERT_EQ(compared->tensors.size(), 1U);
  EXPECT_EQ(compared->tensors[0].key.Name(), "y");
  ASSERT_EQ(compared->skipped.size(), 1U);
  EXPECT_EQ(compared->skipped[0].key.Name(), "x");
}

TEST(CompareTest, AMapWithANameThatIsNotThereIsAnError) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  Put(&candidate, "x", Floats({1}));
  SourceOptions options;
  options.names = {{"x", "z"}};
  EXPECT_THAT(CompareSources(reference, candidate, options),
              FailsWith(absl::StatusCode::kNotFound,
                        HasSubstr("the candidate has no tensor of that name")));
}

TEST(CompareTest, WhatHasNoPartnerIsPairedFuzzilyIfThatIsAskedFor) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "/conv/Relu_output_0", Floats({1}));
  Put(&candidate, "conv_relu:0", Floats({1}));
  SourceOptions options;
  options.pair_fuzzily = true;
  const auto compared = CompareSources(reference, candidate, options);
  ASSERT_THAT(compared, IsOk());
  ASSERT_EQ(compared->tensors.size(), 1U);
  EXPECT_EQ(compared->tensors[0].paired_by, PairedBy::kSpelling);
  EXPECT_TRUE(compared->skipped.empty());
}

void PutHash(TensorCollector* collector, const std::string& name,
             uint64_t value) {
  const TensorKey key{name};
  TensorItem item{key};
  item.why_absent = "only its hash was recorded";
  item.hash = TensorHash{HashKind::kXxh3, value};
  EXPECT_THAT(collector->Consume(item), IsOk());
}

TEST(CompareTest, WhereOnlyHashesAreKnownTheyAreCompared) {
  TensorCollector reference("a"), candidate("b");
  PutHash(&reference, "x", 1);
  PutHash(&reference, "y", 2);
  PutHash(&candidate, "x", 1);
  PutHash(&candidate, "y", 3);
  const auto compared = CompareSources(reference, candidate);
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->equal_hashes, 1U);
  ASSERT_EQ(compared->skipped.size(), 1U);
  EXPECT_TRUE(compared->skipped[0].is_difference());
  EXPECT_THAT(compared->skipped[0].why, HasSubstr("they differ"));
}

void PutWithHash(TensorCollector* collector, const std::string& name,
                 const NDArray& tensor) {
  const TensorKey key{name};
  TensorItem item{key};
  item.tensor = tensor.tensor();
  item.hash =
      TensorHash{HashKind::kXxh3, HashBytes(tensor.data(), tensor.bytes())};
  EXPECT_THAT(collector->Consume(item), IsOk());
}

TEST(CompareTest, AWrongTensorThatIsAnotherOneIsAStaleCopy) {
  TensorCollector reference("a"), candidate("b");
  PutWithHash(&reference, "x", Floats({1, 2}));
  PutWithHash(&reference, "y", Floats({3, 4}));
  PutWithHash(&candidate, "x", Floats({1, 2}));
  PutWithHash(&candidate, "y", Floats({1, 2}));
  const auto compared = CompareSources(reference, candidate);
  ASSERT_THAT(compared, IsOk());
  ASSERT_TRUE(compared->tensors[1].details.has_value());
  const FailurePattern& found = compared->tensors[1].details->patterns.at(0);
  EXPECT_EQ(NameOf(found.shape), "stale-copy");
  EXPECT_THAT(found.words, HasSubstr("the reference's x"));
}

TEST(CompareTest, ComparingNothingIsAnError) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  EXPECT_THAT(CompareSources(reference, candidate),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("a and b: there is nothing to compare")));
}

// Says what it is told to, and counts how often it works bounds out.
class ToldBounds : public BoundSource {
 public:
  ToldBounds(bool is_sure, std::vector<double> bounds)
      : is_sure_(is_sure), bounds_(std::move(bounds)) {}

  absl::StatusOr<bool> IsProvablyWithin(
      const DLTensor&, const UnboundedLimit& unbounded) override {
    ++asked;
    limit = unbounded;
    return is_sure_;
  }
  absl::StatusOr<BoundSpans> All() override {
    ++worked_out;
    return BoundSpans{bounds_, bounds_};
  }

  int asked = 0;
  int worked_out = 0;
  UnboundedLimit limit;  // As the last question gave it.

 private:
  const bool is_sure_;
  const std::vector<double> bounds_;
};

absl::StatusOr<TensorComparison> CompareWithSource(
    const std::vector<float>& expected, const std::vector<float>& actual,
    ToldBounds* source) {
  const NDArray reference = Floats(expected);
  TensorItem item{kConv};
  item.tensor = reference.tensor();
  item.bound_source = source;
  return CompareTensors(item, *Floats(actual));
}

TEST(CompareTest, BoundsAreNotWorkedOutWhereTheDifferenceIsSurelyWithin) {
  ToldBounds source(true, {1e-3, 1e-3});
  const auto compared = CompareWithSource({1, 2}, {1.000001F, 2}, &source);
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(source.worked_out, 0);
  EXPECT_TRUE(compared->is_surely_within);
  EXPECT_EQ(compared->verdict(), Verdict::kPass);
  EXPECT_EQ(ErrorOverBound(*compared), 1);
  EXPECT_TRUE(std::isinf(source.limit.absolute));
}

// Bounds of elements that cancel out may be larger than the tolerance, which
// says nothing as long as they are few.
TEST(CompareTest, AFewElementsBeyondTheToleranceMustHaveAKnownBound) {
  ToldBounds source(true, {});
  const auto compared =
      CompareWithSource({100, 1e-3F}, {100, 1.1e-3F}, &source);
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->metrics.outside, 1);
  EXPECT_TRUE(compared->is_surely_within);
  const Tolerance usual = ToleranceOf({Rule::Kind::kByType}, kFloat32);
  EXPECT_EQ(source.limit.absolute, usual.absolute);
  EXPECT_EQ(source.limit.relative, usual.relative);
}

TEST(CompareTest, BoundsAreWorkedOutWhereNothingIsSure) {
  ToldBounds source(false, {1e-7, 1e-7});
  const auto compared = CompareWithSource({1, 2}, {1.000001F, 2}, &source);
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(source.worked_out, 1);
  EXPECT_EQ(compared->verdict(), Verdict::kError);
}

TEST(CompareTest, BoundsAreWorkedOutWhereMoreThanTheElementsCounts) {
  // All is a little too large by one factor, or far off.
  for (const float factor : {1.00001F, 1.5F}) {
    ToldBounds source(true, {1, 1});
    const auto compared =
        CompareWithSource({1, 2}, {factor, 2 * factor}, &source);
    ASSERT_THAT(compared, IsOk());
    EXPECT_EQ(source.asked, 0);
    EXPECT_EQ(source.worked_out, 1);
  }
}

TEST(CompareTest, EqualTensorsNeedNoBounds) {
  ToldBounds source(true, {1, 1});
  ASSERT_THAT(CompareWithSource({1, 2}, {1, 2}, &source), IsOk());
  EXPECT_EQ(source.asked + source.worked_out, 0);
}

}  // namespace
}  // namespace nodewise
