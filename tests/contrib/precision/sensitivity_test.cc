#include "nodewise/precision/sensitivity.h"

#include <algorithm>
#include <iostream>

#include "tests/contrib/precision/precision_support.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// A random network of layers of matrix products with residual sums, other
// functions between them, and several readers of many values.
class LayeredNetwork {
 public:
  explicit LayeredNetwork(uint64_t seed) : random_(seed, "layers") {
    values_ = {b_.In("x", {4, kWidth})};
    for (int i = 0; i < 5 + Below(6); ++i) AddLayer(i);
    b_.Out({values_.back()});
    b_.net.RemoveUnused();
    for (uint64_t i = 0; i < 3; ++i) {
      samples_.push_back(SampleOf(b_.net, seed + i));
    }
  }

  const Network& net() const { return b_.net; }
  const std::vector<Sample>& samples() const { return samples_; }
  int Below(int64_t end) {
    return static_cast<int>(random_.Between(0, end - 1));
  }

 private:
  static constexpr int64_t kWidth = 12;

  void AddLayer(int i) {
    const std::string name = std::to_string(i);
    const auto input = [&] {
      const size_t last = std::min<size_t>(values_.size(), 3);
      return values_[values_.size() - 1 -
                     static_cast<size_t>(Below(static_cast<int64_t>(last)))];
    };
    const ValueId w = b_.Const(
        "w" + name, RandomFloats("w" + name, {kWidth, kWidth}, random_.Next()));
    ValueId y =
        b_.Op("MatMul", {values_.back(), w}, {}, {}, "product" + name)[0];
    const char* const functions[] = {"Relu", "Tanh", "Sigmoid", "Neg"};
    if (Below(3) > 0) {
      y = b_.Op(functions[Below(4)], {y}, {}, {}, "function" + name)[0];
    }
    if (Below(2) == 0) {
      y = b_.Op("Add", {y, input()}, {}, {}, "sum" + name)[0];
    }
    values_.push_back(y);
  }

  RandomSource random_;
  NetBuilder b_;
  std::vector<ValueId> values_;
  std::vector<Sample> samples_;
};

// Makes the range of one lowered operation's result 16 times as narrow or as
// wide as it should be, and returns its name.
std::string SpoilOne(LayeredNetwork& random, PrecisionOptions* options) {
  const Network& net = random.net();
  Network lowered = net;
  const PrecisionReport report = LowerTo(*options, lowered);
  // A product's result that an activation alone reads is not quantised.
  std::vector<std::string> spoilable;
  for (const auto& change : report.changes) {
    const auto id = net.FindOperation(change.operation);
    const std::string& result = net.value(net.operation(*id).outputs[0]).name;
    if (lowered.FindValue(result + "_quantized").ok()) {
      spoilable.push_back(change.operation);
    }
  }
  const std::string name = spoilable[static_cast<size_t>(
      random.Below(static_cast<int64_t>(spoilable.size())))];
  const Operation& operation = net.operation(*net.FindOperation(name));
  const double factor = random.Below(2) == 0 ? 16 : 1.0 / 16;
  ValueRange& range =
      options->calibration.at(net.value(operation.outputs[0]).name);
  range = {range.low * factor, range.high * factor};
  return name;
}

// Returns the place of the spoilt operation in the ranking.
size_t PlaceOfSpoilt(uint64_t seed) {
  LayeredNetwork random(seed);
  PrecisionOptions options = Int8Of(random.net(), random.samples());
  const std::string spoilt = SpoilOne(random, &options);
  const auto found =
      MeasureSensitivity(random.net(), options, random.samples());
  EXPECT_THAT(found, IsOk());
  if (!found.ok()) return SIZE_MAX;
  const auto place =
      std::find_if(found->ranking.begin(), found->ranking.end(),
                   [&](const auto& each) { return each.operation == spoilt; });
  return static_cast<size_t>(place - found->ranking.begin());
}

TEST(SensitivityTest, ABadlyCalibratedOperatorIsAmongTheFirstThree) {
  // 19 of 20 must be; a few more cases tell more of the rate.
  const int cases = NumCases(20, 400);
  int found = 0;
  int first = 0;
  for (int i = 0; i < cases; ++i) {
    const size_t place = PlaceOfSpoilt(1000 + static_cast<uint64_t>(i));
    found += place < 3 ? 1 : 0;
    first += place == 0 ? 1 : 0;
  }
  std::cout << found << " of " << cases << " among the first three, " << first
            << " first\n";
  EXPECT_GE(found * 20, cases * 19);
}

TEST(SensitivityTest, TheCurveEndsWithNothingLowered) {
  const Network net = SmallNet();
  const std::vector<Sample> samples = {SampleOf(net)};
  const auto found = MeasureSensitivity(net, Int8Of(net, samples), samples);
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->ranking.size(), 5);
  ASSERT_EQ(found->curve.size(), 6);
  EXPECT_EQ(found->curve[5].kept, 5);
  EXPECT_EQ(found->curve[5].error, 0);
  EXPECT_GT(found->curve[0].error, 0);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_GE(found->ranking[i - 1].error, found->ranking[i].error);
  }
}

TEST(SensitivityTest, APointThatBecomesWorseAgainIsNotSuggested) {
  Sensitivity found;
  found.curve = {{0, 1.0}, {1, 0.9}, {2, 0.01}, {3, 0.5}, {5, 0.2}, {20, 0}};
  found.Suggest();
  EXPECT_EQ(found.suggested, 5);
  EXPECT_EQ(found.ErrorWith(2), 0.5);
  EXPECT_EQ(found.ErrorWith(5), 0.2);
}

TEST(SensitivityTest, OneBadOperatorIsSuggestedToBeKept) {
  const Network net = SmallNet();
  const std::vector<Sample> samples = {SampleOf(net)};
  PrecisionOptions options = Int8Of(net, samples);
  options.calibration["m"] = {-0.01, 0.01};
  const auto found = MeasureSensitivity(net, options, samples);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->suggested, 1);
  EXPECT_EQ(found->KeepExpression(), "^(fc)$");
  options.keep = found->KeepExpression("pool");
  EXPECT_EQ(options.keep, "pool|^(fc)$");
  Network lowered = net;
  LowerTo(options, lowered);
  EXPECT_LT(ErrorOf(lowered, net, samples[0]), 0.02);
}

TEST(SensitivityTest, NamesAreQuotedInTheExpression) {
  Sensitivity found;
  found.ranking = {{"a.b/c", "Conv", 1}, {"d|e", "Conv", 0.5}};
  found.suggested = 2;
  EXPECT_EQ(found.KeepExpression(), "^(a\\.b\\/c|d\\|e)$");
}

TEST(SensitivityTest, NoSampleIsAnError) {
  const Network net = SmallNet();
  EXPECT_THAT(MeasureSensitivity(net, {}, {}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected at least one")));
}

}  // namespace
}  // namespace nodewise
