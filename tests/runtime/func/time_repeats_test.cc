#include "nodewise/func/time_repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/support/machine.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::DoubleEq;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls that take as long as the test says, and what was asked of them.
class Calls {
 public:
  explicit Calls(int64_t ns_per_call) : ns_per_call_(ns_per_call) {}

  std::vector<double> Time(const RepeatOptions& options) {
    const auto seconds = TimeRepeats(
        options,
        [&](int64_t number) -> absl::StatusOr<int64_t> {
          asked.push_back(number);
          return number * ns_per_call_;
        },
        [&] {
          prepared_before.push_back(asked.size());
          return absl::OkStatus();
        });
    EXPECT_THAT(seconds, IsOk());
    return seconds.value_or(std::vector<double>());
  }

  std::vector<int64_t> asked;
  std::vector<size_t> prepared_before;

 private:
  int64_t ns_per_call_;
};

TEST(TimeRepeatsTest, FirstCallIsNotTimedAndEachRepeatIsAMean) {
  Calls calls(2'000);
  RepeatOptions options;
  options.number = 5;
  options.repeat = 3;
  EXPECT_THAT(calls.Time(options),
              ElementsAre(DoubleEq(2e-6), DoubleEq(2e-6), DoubleEq(2e-6)));
  EXPECT_THAT(calls.asked, ElementsAre(1, 5, 5, 5));
}

TEST(TimeRepeatsTest, PreparationComesBeforeEachRepeat) {
  Calls calls(1'000'000);
  RepeatOptions options;
  options.number = 1;
  options.repeat = 3;
  options.min_repeat_ms = 2;
  calls.Time(options);
  // The second batch makes the first repeat long enough.
  EXPECT_THAT(calls.asked, ElementsAre(1, 1, 3, 3, 3));
  EXPECT_THAT(calls.prepared_before, ElementsAre(1, 3, 4));
}

TEST(TimeRepeatsTest, NumberGrowsUntilARepeatIsLongEnough) {
  Calls calls(100'000);
  RepeatOptions options;
  options.number = 2;
  options.repeat = 2;
  options.min_repeat_ms = 10;
  EXPECT_THAT(calls.Time(options), Each(DoubleEq(1e-4)));
  EXPECT_GE(calls.asked.back(), 100);
  EXPECT_EQ(calls.asked.back(), calls.asked[calls.asked.size() - 2]);
}

TEST(TimeRepeatsTest, CallsThatTakeNoTimeAreGivenUp) {
  Calls calls(0);
  RepeatOptions options;
  options.number = 1;
  options.min_repeat_ms = 1;
  options.limit_zero_time_iterations = 3;
  EXPECT_THAT(calls.Time(options), ElementsAre(0));
  EXPECT_EQ(calls.asked.size(), 5);
}

TEST(TimeRepeatsTest, RestsAfterEverySoManyRepeats) {
  Calls calls(1);
  RepeatOptions options;
  options.repeat = 4;
  options.cooldown_interval_ms = 5;
  options.repeats_to_cooldown = 2;
  const int64_t start = ClockNanoseconds();
  calls.Time(options);
  EXPECT_GE(ClockNanoseconds() - start, 10'000'000);
}

TEST(TimeRepeatsTest, FailureOfACallIsTheResult) {
  const auto seconds = TimeRepeats(
      {},
      [](int64_t) { return absl::StatusOr<int64_t>(absl::AbortedError("x")); },
      [] { return absl::OkStatus(); });
  EXPECT_THAT(seconds, FailsWith(StatusCode::kAborted, "x"));
}

// number, repeat, min_repeat_ms, limit, cooldown, repeats_to_cooldown.
std::vector<int> Taken(std::vector<int64_t> numbers) {
  std::vector<TVMValue> values(numbers.size());
  const std::vector<int> codes(numbers.size(), kTVMArgInt);
  for (size_t i = 0; i < numbers.size(); ++i) values[i].v_int64 = numbers[i];
  const auto options = TakeRepeatOptions(PackedArgs(
      values.data(), codes.data(), static_cast<int>(numbers.size())));
  if (!options.ok()) return {};
  return {options->number,
          options->repeat,
          options->min_repeat_ms,
          options->limit_zero_time_iterations,
          options->cooldown_interval_ms,
          options->repeats_to_cooldown};
}

TEST(TakeRepeatOptionsTest, ArgumentsOfEveryTvmAreKnownByTheirNumber) {
  EXPECT_THAT(Taken({7, 8, 9}), ElementsAre(7, 8, 9, 100, 0, 1));
  EXPECT_THAT(Taken({7, 8, 9, 10, 11}), ElementsAre(7, 8, 9, 100, 10, 11));
  EXPECT_THAT(Taken({7, 8, 9, 10, 11, 12}), ElementsAre(7, 8, 9, 10, 11, 12));
  EXPECT_THAT(Taken({7, 8, 9, 10}), ElementsAre());
  EXPECT_THAT(Taken({1LL << 40, 8, 9}), ElementsAre());
}

TEST(CheckRepeatOptionsTest, OptionsOutOfRangeAreNamed) {
  RepeatOptions options;
  EXPECT_THAT(CheckRepeatOptions(options), IsOk());
  options.number = 0;
  EXPECT_THAT(CheckRepeatOptions(options),
              FailsWith(StatusCode::kInvalidArgument,
                        "number is 0, expected at least 1"));
  options.number = 1;
  options.repeat = kMostRepeats + 1;
  EXPECT_THAT(CheckRepeatOptions(options),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("repeat is 1000001, expected 1 to 1000000")));
}

}  // namespace
}  // namespace nodewise
