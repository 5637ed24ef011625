// Gradients of whole drawn networks, of all operators: with bodies, several
// types and sizes that are not always known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/network_draw.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/precision/raise_opset.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

// Runs a gradient where its network runs; all cotangents are ones.
void ExpectRuns(const OperatorCase& drawn, const GradientNetwork& gradient,
                uint64_t number) {
  Choices choices(RandomSource(number, "inputs"));
  auto inputs = DrawInputs(drawn.configuration, &choices);
  ASSERT_THAT(inputs, IsOk());
  const auto made = Interpret(*drawn.network, *inputs);
  if (!made.ok()) return;
  for (const size_t output : gradient.outputs) {
    const NDArray& y = (*made)[output];
    inputs->push_back(*NDArray::Empty(y.shape(), y.dtype(), kCpu));
    const std::vector<double> ones(static_cast<size_t>(CountOf(y)), 1);
    StoreDoubles(ones.data(), 0, CountOf(y), inputs->back());
  }
  const auto gradients = Interpret(gradient.network, *inputs);
  ASSERT_THAT(gradients, IsOk()) << ToString(drawn);
  for (size_t i = 0; i < gradients->size(); ++i) {
    const NDArray& x = (*inputs)[gradient.inputs[i]];
    EXPECT_EQ((*gradients)[i].shape(), x.shape());
    EXPECT_TRUE((*gradients)[i].dtype() == x.dtype());
  }
}

// What has no gradient yet, or none for this use of it, or sizes that are not
// known, is said; so is what cannot be raised to a newer opset.
bool HasReason(const Network& network, const absl::Status& status) {
  constexpr int kRaisedTo = 16;
  return absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status) ||
         (network.opset() < kRaisedTo && !InOpset(network, kRaisedTo).ok());
}

TEST(DrawnGradientTest, EachNetworkHasAValidGradientOrAReason) {
  constexpr uint64_t kNetworks = 3000;
  constexpr int kLeastWithBodies = 50;
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (HasSpace(*row)) rows.push_back(row);
  }
  const auto source = NetworkSource(ScopeOf(rows));
  std::map<std::string, int> with;
  for (uint64_t number = 0; number < kNetworks; ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto drawn = DrawNumber(*source, 1, number, &choices, &refused);
    ASSERT_THAT(drawn, IsOk());
    const Network& network = *drawn->network;
    const std::vector<size_t> floats = FloatInputs(network);
    bool has_floats = false;
    for (const ValueId id : network.outputs()) {
      has_floats = has_floats || IsFloat(network.value(id).type.dtype);
    }
    if (floats.empty() || !has_floats) continue;
    const auto gradient = GradientOf(network, floats);
    if (!gradient.ok()) {
      EXPECT_TRUE(HasReason(network, gradient.status())) << gradient.status();
      continue;
    }
    EXPECT_THAT(ToStatus(Verify(gradient->network.data())), IsOk());
    ExpectRuns(*drawn, *gradient, number);
    for (const OperationId id : network.order()) {
      ++with[std::string(network.operation(id).kind())];
    }
  }
  for (const char* kind : {"If", "Loop", "Scan"}) {
    EXPECT_GE(with[kind], kLeastWithBodies) << kind;
  }
}

}  // namespace
}  // namespace nodewise
