// What holds for all precisions.

#include "nodewise/precision/precision.h"

#include <iostream>

#include "nodewise/passes/quantization.h"
#include "tests/contrib/lower/random_network.h"
#include "tests/contrib/precision/precision_support.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr Precision kAllPrecisions[] = {Precision::kFloat16,
                                        Precision::kBfloat16, Precision::kInt8};

TEST(PrecisionTest, HaveNames) {
  for (const Precision precision : kAllPrecisions) {
    EXPECT_EQ(*ParsePrecision(std::string(ToString(precision))), precision);
  }
  EXPECT_THAT(ParsePrecision("fp8"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected fp16, bf16 or int8")));
}

TEST(PrecisionTest, WhatIsKeptIsLeftAlone) {
  for (const Precision precision : kAllPrecisions) {
    Network net = SmallNet();
    PrecisionOptions options = Int8Of(net, {SampleOf(net)});
    options.precision = precision;
    options.keep = "^(conv|fc)$";
    const PrecisionReport report = LowerTo(options, net);
    ASSERT_GE(report.left_alone.size(), 2);
    EXPECT_EQ(report.left_alone[0].operation, "conv");
    EXPECT_EQ(report.left_alone[0].reason, "is kept");
    EXPECT_THAT(net.FindValue("w"), IsOk());
  }
}

TEST(PrecisionTest, AnExpressionThatIsNoneIsRefused) {
  Network net = SmallNet();
  EXPECT_THAT(LowerPrecision({.keep = "("}, net),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("is not a regular expression")));
}

TEST(PrecisionTest, InputsAndOutputsKeepTheirNamesAndTypes) {
  for (const Precision precision : kAllPrecisions) {
    Network net = SmallNet();
    PrecisionOptions options = Int8Of(net, {SampleOf(net)});
    options.precision = precision;
    LowerTo(options, net);
    const NetworkValue& x = net.value(net.inputs()[0]);
    const NetworkValue& y = net.value(net.outputs()[0]);
    EXPECT_EQ(x.name, "x");
    EXPECT_TRUE(x.type.dtype == kFloat32);
    EXPECT_EQ(y.name, "y");
    EXPECT_TRUE(y.type.dtype == kFloat32);
  }
}

TEST(PrecisionTest, AnOldOpsetIsRaisedWhereThatChangesNothing) {
  Network net = SmallNet();
  NetBuilder b;
  EXPECT_THAT(b.net.SetOpset("", 14), IsOk());
  const ValueId x = b.In("x", {2});
  b.Out({b.Op("Relu", {x})[0]});
  EXPECT_THAT(b.net.SetOpset("", 9), IsOk());
  LowerTo({.precision = Precision::kBfloat16}, b.net);
  EXPECT_EQ(b.net.opset(), 13);
}

// Lowers the network and checks what must hold of any.
void CheckLowered(Precision precision, const Network& net,
                  const Sample& sample) {
  PrecisionOptions options{.precision = precision};
  options.calibration = Int8Of(net, {sample}).calibration;
  if (options.calibration.empty()) return;
  Network lowered = net;
  LowerTo(options, lowered);
  ExpectAsInterpreted(lowered, sample, kPlain);
  if (precision != Precision::kInt8) return;
  MergeQuantization(lowered);
  EXPECT_THAT(Interpret(lowered, sample), IsOk());
}

// GL-04
TEST(PrecisionTest, RandomNetworksRunInAllPrecisions) {
  const int networks = NumCases(40, 2'000);
  const uint64_t seed = FirstSeed();
  for (int i = 0; i < networks && !testing::Test::HasFailure(); ++i) {
    const RandomNetwork random(seed + static_cast<uint64_t>(i));
    for (const Precision precision : kAllPrecisions) {
      CheckLowered(precision, random.net(), random.inputs());
    }
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                  << " nodewise_ops_tests --gtest_filter=PrecisionTest.*";
  }
  std::cout << networks << " networks from NODEWISE_SEED=" << seed << '\n';
}

}  // namespace
}  // namespace nodewise
