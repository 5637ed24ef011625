// Backward primitives of oneDNN against gradient networks, with both of its
// versions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "tests/contrib/onednn/samples.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

constexpr int kDraws = 40;
constexpr double kTolerance = 2e-4;  // Relative to the largest element or 1.

// The call as a network of one operation whose inputs are all given.
Network NetworkOfCall(const CallCase& drawn) {
  const OperatorDef& def = drawn.call.op.def();
  Network network("call");
  EXPECT_THAT(network.SetOpset("", std::min(def.until - 1, kNewestOpset)),
              IsOk());
  NewOperation operation{drawn.call.op, {}};
  for (size_t i = 0; i < drawn.inputs.size(); ++i) {
    operation.inputs.push_back(
        drawn.inputs[i].defined()
            ? *network.AddInput("x" + std::to_string(i),
                                TensorType::From(*drawn.inputs[i]))
            : kNoValue);
  }
  const auto id = network.AddOperation(std::move(operation));
  EXPECT_THAT(id, IsOk());
  if (!id.ok()) return network;
  EXPECT_THAT(network.SetOutputs({network.operation(*id).outputs[0]}), IsOk());
  return network;
}

// Returns whether oneDNN has the gradients of the case, and compares them.
bool Agrees(const CallCase& drawn, RandomSource& random) {
  const Network network = NetworkOfCall(drawn);
  const std::vector<size_t> floats = FloatInputs(network);
  const auto gradient = GradientOf(network, floats);
  if (!gradient.ok()) return false;
  std::vector<NDArray> inputs;
  std::vector<size_t> slots;
  for (size_t i = 0; i < drawn.inputs.size(); ++i) {
    if (!drawn.inputs[i].defined()) continue;
    inputs.push_back(drawn.inputs[i]);
    slots.push_back(i);
  }
  const auto y = network.value(network.outputs()[0]).type;
  inputs.push_back(*RandomTensor(random, *y.sizes(), y.dtype));
  std::vector<size_t> wanted;
  for (const size_t i : floats) wanted.push_back(slots[i]);
  const auto found =
      RunOneDnnBackward({drawn.call.op, drawn.inputs, inputs.back(), wanted});
  if (!found.ok()) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented)
        << found.status();
    return false;
  }
  const auto expected = Interpret(gradient->network, inputs);
  EXPECT_THAT(expected, IsOk());
  if (!expected.ok()) return false;
  for (size_t i = 0; i < expected->size(); ++i) {
    const std::vector<double> a = ToDoubles((*expected)[i]);
    const std::vector<double> b = ToDoubles((*found)[i]);
    double largest = 1;
    for (const double x : a) largest = std::max(largest, std::fabs(x));
    for (size_t k = 0; k < a.size(); ++k) {
      EXPECT_NEAR(a[k], b[k], kTolerance * largest)
          << drawn.call.op.def().name << ", input " << wanted[i];
    }
  }
  return true;
}

TEST(OneDnnBackwardTest, EveryPrimitiveIsTheGradientOfItsOperator) {
  const std::vector<std::string_view> names = OneDnnBackwardOperators();
  std::set<std::string_view> tried;
  for (const OperatorSamples& samples : FloatSamples()) {
    const auto name =
        std::find(names.begin(), names.end(), std::string_view(samples.name));
    if (name == names.end()) continue;
    RandomSource random(7, samples.name);
    for (int i = 0; i < kDraws; ++i) {
      if (Agrees(samples.draw(random), random)) tried.insert(*name);
    }
  }
  // The other names have no samples: oneDNN has no such forward kernels, or
  // they are drawn as what is fused.
  EXPECT_GE(tried.size(), 12U);
}

TEST(OneDnnBackwardTest, WhatItDoesNotHaveIsRefused) {
  RandomSource random(1);
  const NDArray x = *RandomTensor(random, std::vector<int64_t>{2, 3}, kFloat32);
  const OpAttrs sin = OpSetup{"Sin", 13}.Make().value();
  const std::vector<NDArray> inputs = {x};
  const size_t wanted[] = {0};
  EXPECT_THAT(RunOneDnnBackward({sin, inputs, x, wanted}),
              FailsWith(absl::StatusCode::kUnimplemented,
                        testing::HasSubstr("no backward primitive for Sin")));
}

}  // namespace
}  // namespace nodewise
