#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "nodewise/align/build_network.h"
#include "nodewise/interp/interpreter.h"
#include "tests/contrib/repro/repro_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(GuardedBuildTest, ANodeThatCrashesIsAnErrorThatNamesIt) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId w = b.Const("w", Floats({1, 2}));
  const ValueId y = b.Op("Mul", {x, w}, {}, {"y"}, "scale")[0];
  b.Out({b.Op("Relu", {y}, {}, {"z"}, "bend")[0]});
  Lowered lowered = Lower(b.net, "net", kPlain).value();
  const auto target = GraphTarget::FromArtefact(
                          "old build",
                          {std::move(lowered.graph),
                           MakeRef<SpoilingLibrary>(ReferenceFunctions(), "",
                                                    [](auto) { std::abort(); }),
                           Params{std::move(lowered.params)}},
                          {kCpu})
                          .value();
  const auto network = NetworkOfBuild(target);
  ASSERT_THAT(network, IsOk());
  const auto made = Interpret(*network, {Floats({3, 4})});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(std::string(made.status().message()),
              testing::AllOf(HasSubstr("old build"), HasSubstr("scale"),
                             HasSubstr("SIGABRT")));
}

}  // namespace
}  // namespace nodewise
