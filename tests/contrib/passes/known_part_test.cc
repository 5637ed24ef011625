#include "nodewise/passes/known_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "tests/contrib/onnx/opaque_models.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(KnownPartTest, WhatDependsOnOpaqueOperationsIsLeftOut) {
  const Network network = ImportWhole(MagicModel().Bytes()).value();
  EXPECT_EQ(TextOf(OpaqueOperators(network)), "vendor.ops.Magic: 1 operation");
  const KnownPart part = KnownPartOf(network).value();
  ASSERT_EQ(part.missing.size(), 1);
  EXPECT_EQ(part.missing[0].name, "y");
  EXPECT_THAT(part.missing[0].because, ElementsAre("magic"));
  EXPECT_THAT(part.ends, ElementsAre("a"));
  std::vector<std::string> outputs;
  for (const ValueId id : part.network.outputs()) {
    outputs.push_back(part.network.value(id).name);
  }
  EXPECT_THAT(outputs, ElementsAre("z", "a"));
  EXPECT_EQ(part.network.order().size(), 2);
  EXPECT_THAT(Interpret(part.network, {Floats({1, -3})}), IsOk());
}

TEST(KnownPartTest, WithoutAnythingLeftItFails) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y");
  Vendor(builder.Node("Magic", {"x"}, {"y"}, "magic"));
  EXPECT_THAT(KnownPartOf(ImportWhole(builder.Bytes()).value()),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("everything depends on opaque operations "
                                  "(magic)")));
}

TEST(KnownPartTest, ANetworkWithoutThemStaysAsItIs) {
  const Network network = ImportWhole(NegModel().Bytes()).value();
  const KnownPart part = KnownPartOf(network).value();
  EXPECT_TRUE(part.missing.empty());
  EXPECT_EQ(NetworkToText(part.network.data()), NetworkToText(network.data()));
}

}  // namespace
}  // namespace nodewise
