#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/runner/network_runner.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// y = exp(float(nonzero(relu(x)))), x of 4 numbers.
Network PlacesNet() {
  NetBuilder b;
  const ValueId r = b.Op("Relu", {b.In("x", {4})}, {}, {"r"}, "relu")[0];
  const ValueId nz = b.Op("NonZero", {r}, {}, {"nz"}, "nz")[0];
  const ValueId f = b.Op("Cast", {nz}, {{"to", int64_t{1}}}, {"f"}, "cast")[0];
  b.Out({b.Op("Exp", {f}, {}, {"y"}, "exp")[0]});
  return b.net;
}

std::string TypeOf(const Network& network, const std::string& value) {
  return ToString(network.value(network.FindValue(value).value()).type);
}

Network SizedNet() {
  Network net = PlacesNet();
  const NamedTensor x{"x", Floats({1, -1, 2, 0})};
  EXPECT_THAT(FindSizes({&x, 1}, &net), IsOk());
  return net;
}

TEST(FindSizesTest, ARunTellsWhatInferenceCannot) {
  EXPECT_TRUE(HasOpenSizes(PlacesNet()));
  const Network net = SizedNet();
  EXPECT_FALSE(HasOpenSizes(net));
  EXPECT_EQ(TypeOf(net, "nz"), "int64[1, 2]");
  EXPECT_EQ(TypeOf(net, "y"), "float32[1, 2]");
  EXPECT_THAT(ToStatus(Verify(net.data())), IsOk());
}

TEST(FindSizesTest, OnlyWhatCannotBeInferredIsKeptAsFound) {
  const Network net = SizedNet();
  const auto found = [&](const std::string& value) {
    return net.value(net.FindValue(value).value()).found.has_value();
  };
  EXPECT_TRUE(found("nz"));
  EXPECT_FALSE(found("f"));
  EXPECT_FALSE(found("r"));
}

TEST(FindSizesTest, TheInterpreterTakesOtherInputsAllTheSame) {
  const Network net = SizedNet();
  const auto made = Interpret(net, {Floats({1, 1, 2, 0})});
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT((*made)[0].shape(), ElementsAre(1, 3));
}

TEST(FindSizesTest, TheyLastThroughTheText) {
  const Network net = SizedNet();
  const std::string text = NetworkToText(net.data());
  EXPECT_THAT(text, HasSubstr("\"nz\": int64[1, 2] found int64[1, 2] barrier"));
  const auto read =
      Network::FromData(ParseNetworkText(text, AllOperators(), "t").value());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(NetworkToText(read->data()), text);
}

TEST(FindSizesTest, WhatInferenceKnowsIsNotReplaced) {
  Network net = PlacesNet();
  const ValueId r = net.FindValue("r").value();
  EXPECT_THAT(net.SetFoundType(r, TensorType(kFloat32, {Dim(5)})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("r")));
  EXPECT_EQ(TypeOf(net, "r"), "float32[4]");
  EXPECT_THAT(net.SetFoundType(net.inputs()[0], TensorType(kFloat32, {Dim(4)})),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("is not made by an operation")));
}

TEST(FindSizesTest, AnInputThatIsMissingIsNamed) {
  Network net = PlacesNet();
  EXPECT_THAT(FindSizes({}, &net),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("input x: was not given")));
}

}  // namespace
}  // namespace nodewise
