#include "contrib/lower/tensor_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contrib/lower/fusion.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

NDArray Ones(const std::vector<int64_t>& shape) {
  const std::vector<float> ones(static_cast<size_t>(*NumElements(shape)), 1);
  return MakeTensor<float>(shape, ones);
}

// Convolutions gain, Neg does not care, and Abs wants plain tensors.
LayoutPreference Example(const Network& network, OperationId id) {
  const std::string_view kind = network.operation(id).kind();
  if (kind == "Conv") return LayoutPreference::kChannelsLast;
  return kind == "Abs" ? LayoutPreference::kPlain : LayoutPreference::kAny;
}

// The names of the tensors that have their channels last, in their order.
std::vector<std::string> ChosenIn(const Network& network) {
  const auto chosen = ChooseChannelsLast(
      network, FindRegions(network, /*fuse=*/false), &Example);
  std::vector<std::string> names;
  for (const auto& value : network.data().values) {
    if (value.has_value() && chosen[Index(value->id)]) {
      names.push_back(value->name);
    }
  }
  return names;
}

ValueId Conv(NetBuilder* b, ValueId x, const std::string& name) {
  const ValueId w = b->Const("", Ones({4, 4, 1, 1}));
  return b->Op("Conv", {x, w}, {}, {name})[0];
}

TEST(TensorLayoutsTest, TensorsAroundWhatGainsAreChosenButNotThoseOutside) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 3, 2});
  b.Out({Conv(&b, Conv(&b, x, "a"), "y")});
  EXPECT_THAT(ChosenIn(b.net), ElementsAre("a"));
}

TEST(TensorLayoutsTest, WhatDoesNotCareHandsThemOn) {
  NetBuilder b;
  const ValueId a = Conv(&b, b.In("x", {1, 4, 3, 2}), "a");
  const ValueId n = b.Op("Neg", {a}, {}, {"n"})[0];
  const ValueId m = b.Op("Neg", {n}, {}, {"m"})[0];
  b.Out({Conv(&b, m, "y")});
  EXPECT_THAT(ChosenIn(b.net), ElementsAre("a", "n", "m"));
}

TEST(TensorLayoutsTest, WhatMakesAnOutputOfTheNetworkTakesPlainTensors) {
  NetBuilder b;
  const ValueId a = Conv(&b, b.In("x", {1, 4, 3, 2}), "a");
  const ValueId n = b.Op("Neg", {a}, {}, {"n"})[0];
  b.Out(b.Op("Neg", {n}, {}, {"y"}));
  EXPECT_THAT(ChosenIn(b.net), IsEmpty());
}

TEST(TensorLayoutsTest, WhatWantsPlainTensorsGetsThemPlain) {
  NetBuilder b;
  const ValueId a = Conv(&b, b.In("x", {1, 4, 3, 2}), "a");
  const ValueId c = Conv(&b, a, "c");
  const ValueId p = b.Op("Abs", {c}, {}, {"p"})[0];
  b.Out({Conv(&b, p, "y")});
  EXPECT_THAT(ChosenIn(b.net), ElementsAre("a"));
}

TEST(TensorLayoutsTest, NothingIsChosenWhereNothingGains) {
  NetBuilder b;
  const ValueId n = b.Op("Neg", {b.In("x", {1, 4, 3, 2})}, {}, {"n"})[0];
  const ValueId m = b.Op("Neg", {n}, {}, {"m"})[0];
  b.Out(b.Op("Neg", {m}, {}, {"y"}));
  EXPECT_THAT(ChosenIn(b.net), IsEmpty());
}

TEST(TensorLayoutsTest, TensorsThatAreTheSameInBothLayoutsStay) {
  NetBuilder b;
  const ValueId a = Conv(&b, b.In("x", {1, 4, 1, 1}), "a");
  b.Out({Conv(&b, a, "y")});
  EXPECT_THAT(ChosenIn(b.net), IsEmpty());
}

// Names that the network has already are not taken twice.
TEST(TensorLayoutsTest, ANameThatIsTakenIsNotAnObstacle) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 3, 2});
  const ValueId a = Conv(&b, x, "a");
  const ValueId taken = Conv(&b, a, "a.channels_last");
  b.Out({Conv(&b, taken, "y")});
  LowerOptions options;
  options.preference_of = &Example;
  options.operators = AllOperators();
  ExpectAsInterpreted(b.net, {Ones({1, 4, 3, 2})}, options);
}

}  // namespace
}  // namespace nodewise
