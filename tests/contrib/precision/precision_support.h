#pragma once

// Networks whose precision tests lower, and what is made of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/ir/verifier.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/precision/precision.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {

inline NDArray RandomFloats(const std::string& name,
                            const std::vector<int64_t>& shape,
                            uint64_t seed = 1) {
  RandomSource source(seed, name);
  return RandomTensor(source, shape, kFloat32).value();
}

// x -> conv -> relu -> pool -> turn -> fc -> soft -> y, where conv has a bias.
inline Network SmallNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2, 6, 6});
  const ValueId w = b.Const("w", RandomFloats("w", {4, 2, 3, 3}));
  const ValueId bias = b.Const("b", RandomFloats("b", {4}));
  const ValueId conv = b.Op("Conv", {x, w, bias}, {}, {"c"}, "conv")[0];
  const ValueId relu = b.Op("Relu", {conv}, {}, {"r"}, "relu")[0];
  const ValueId pool = b.Op("MaxPool", {relu},
                            {{"kernel_shape", std::vector<int64_t>{2, 2}},
                             {"strides", std::vector<int64_t>{2, 2}}},
                            {"p"}, "pool")[0];
  const ValueId flat = b.Op("Flatten", {pool}, {}, {"f"}, "turn")[0];
  const ValueId v = b.Const("v", RandomFloats("v", {16, 3}));
  const ValueId fc = b.Op("MatMul", {flat, v}, {}, {"m"}, "fc")[0];
  b.Out({b.Op("Softmax", {fc}, {}, {"y"}, "soft")[0]});
  return std::move(b.net);
}

// Random inputs for a network whose sizes are all known.
inline Sample SampleOf(const Network& network, uint64_t seed = 1) {
  Sample sample;
  for (const ValueId id : network.inputs()) {
    const NetworkValue& input = network.value(id);
    RandomSource source(seed, input.name);
    sample.push_back(
        RandomTensor(source, *input.type.sizes(), input.type.dtype).value());
  }
  return sample;
}

inline PrecisionOptions Int8Of(const Network& network,
                               const std::vector<Sample>& samples) {
  PrecisionOptions options;
  options.precision = Precision::kInt8;
  const auto calibration = Calibrate(network, samples);
  EXPECT_THAT(calibration, IsOk());
  if (calibration.ok()) options.calibration = *calibration;
  return options;
}

// Lowers it and expects it to be valid.
inline PrecisionReport LowerTo(const PrecisionOptions& options,
                               Network& network) {
  const auto report = LowerPrecision(options, network);
  EXPECT_THAT(report, IsOk());
  for (const Finding& finding : Verify(network.data(), {})) {
    if (finding.severity == Severity::kError) ADD_FAILURE() << finding.found;
  }
  return report.ok() ? *report : PrecisionReport();
}

inline std::vector<std::string> KindsIn(const Network& network) {
  std::vector<std::string> kinds;
  for (const OperationId id : network.order()) {
    kinds.emplace_back(network.operation(id).kind());
  }
  return kinds;
}

inline std::vector<std::string> NamesOf(
    const std::vector<PrecisionReport::Change>& changes) {
  std::vector<std::string> names;
  for (const auto& change : changes) names.push_back(change.operation);
  return names;
}

// The error of the outputs against those of another network.
inline double ErrorOf(const Network& network, const Network& original,
                      const Sample& sample) {
  const auto found = Interpret(network, sample);
  const auto expected = Interpret(original, sample);
  EXPECT_THAT(found, IsOk());
  EXPECT_THAT(expected, IsOk());
  if (!found.ok() || !expected.ok()) return NAN;
  return OutputError({*expected}, {*found});
}

}  // namespace nodewise
