#include <gtest/gtest.h>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// OV-16.
TEST(ReferenceTargetTest, RunsEveryOperatorAndSaysWhatIsSlow) {
  Network net("net");
  const ValueId x =
      net.AddInput("x", TensorType(kFloat32, {Dim::Named("n")})).value();
  const ValueId r = net.Add(AllOperators(), ops::Relu{}, {x}, "r").value();
  ASSERT_THAT(net.SetTarget(&ReferenceTarget()), IsOk());
  const OperationId relu = net.value(r).producer;
  EXPECT_THAT(net.SupportBy(ReferenceTarget(), relu).penalties,
              ElementsAre(HasSubstr("its types are not all known")));
  ASSERT_THAT(net.BindDim("n", 3), IsOk());
  EXPECT_THAT(net.SupportBy(ReferenceTarget(), relu).penalties, IsEmpty());
}

}  // namespace
}  // namespace nodewise
