#pragma once

// A network's gradient beside a central difference.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/contrib/lab/gradient/double_case.h"

namespace nodewise {

using NDArrays = std::vector<NDArray>;

inline constexpr double kStep = 1e-4;
// A difference that is off may have a small kink in between; no wrong gradient
// becomes right nearer by.
inline constexpr double kSmallStep = 1e-6;
inline constexpr double kTolerance = 1e-5;
// A difference over twice the step tells how far the first one is off, and
// whether there is a kink in between.
inline constexpr double kMostCurved = 1e-4;

inline double Dot(const NDArray& a, const NDArray& b) {
  double sum = 0;
  for (int64_t i = 0; i < CountOf(a); ++i) {
    sum += a.As<double>()[i] * b.As<double>()[i];
  }
  return sum;
}

inline double SizeOf(const NDArray& a, const NDArray& b) {
  double sum = 0;
  for (int64_t i = 0; i < CountOf(a); ++i) {
    sum += std::fabs(a.As<double>()[i] * b.As<double>()[i]);
  }
  return sum;
}

inline bool IsFinite(const NDArrays& tensors) {
  for (const NDArray& tensor : tensors) {
    if (!IsFloat(tensor.dtype())) continue;
    for (const double x : ToDoubles(tensor)) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

// One network, its gradient, and a point at which both are looked at.
class Point {
 public:
  Point(const Network& network, const GradientNetwork& gradient,
        RandomSource* random)
      : forward_(network), gradient_(gradient), random_(*random) {}

  // Returns what differs, "" for nothing, and none if nothing can be told here:
  // the operator refuses, or there is a kink.
  std::optional<std::string> Differs(const NDArrays& inputs) {
    auto at = forward_.Run(inputs);
    if (!at.ok() || !IsFinite(*at)) return std::nullopt;
    NDArrays all = inputs;
    NDArrays cotangents;
    // What is as small beside the outputs is lost in their roundings.
    double size = 1e-6;
    for (const size_t output : gradient_.outputs) {
      if ((*at)[output].dtype() != kFloat64) return std::nullopt;
      cotangents.push_back(Direction((*at)[output].shape()));
      size += 1e-3 * SizeOf((*at)[output], cotangents.back());
    }
    all.insert(all.end(), cotangents.begin(), cotangents.end());
    auto gradients = Interpret(gradient_.network, all);
    if (!gradients.ok()) return std::string(gradients.status().message());
    NDArrays directions;
    double expected = 0;
    for (size_t i = 0; i < gradients->size(); ++i) {
      const NDArray& each = (*gradients)[i];
      if (each.shape() != inputs[gradient_.inputs[i]].shape()) {
        return fmt::format("gradient {} has another shape", i);
      }
      directions.push_back(Direction(each.shape()));
      expected += Dot(each, directions[i]);
      size += SizeOf(each, directions[i]);
    }
    std::string differs;
    for (const double step : {kStep, kSmallStep}) {
      const auto near = Difference(inputs, cotangents, directions, step);
      const auto far = Difference(inputs, cotangents, directions, 2 * step);
      if (!near.has_value() || !far.has_value()) return std::nullopt;
      const double most = std::max(size, std::fabs(*near));
      const double curved = std::fabs(*near - *far);
      if (!(curved <= kMostCurved * most)) return std::nullopt;
      if (std::fabs(expected - *near) <= kTolerance * most + curved) return "";
      differs =
          fmt::format("gradient {}, central difference {}", expected, *near);
    }
    return differs;
  }

 private:
  NDArray Direction(absl::Span<const int64_t> shape) {
    NDArray tensor = *NDArray::Empty(shape, kFloat64, kCpu);
    for (int64_t i = 0; i < CountOf(tensor); ++i) {
      tensor.As<double>()[i] =
          static_cast<double>(random_.Next() >> 11) * 0x1p-52 - 1;
    }
    return tensor;
  }

  // (f(x + h e) - f(x - h e)) / 2h, weighted.
  std::optional<double> Difference(const NDArrays& inputs,
                                   const NDArrays& cotangents,
                                   const NDArrays& directions, double step) {
    double sum = 0;
    for (const double sign : {1.0, -1.0}) {
      NDArrays moved = inputs;
      for (size_t i = 0; i < directions.size(); ++i) {
        NDArray& x = moved[gradient_.inputs[i]];
        x = InDouble(x);
        for (int64_t k = 0; k < CountOf(x); ++k) {
          x.As<double>()[k] += sign * step * directions[i].As<double>()[k];
        }
      }
      const auto outputs = forward_.Run(std::move(moved));
      if (!outputs.ok() || !IsFinite(*outputs)) return std::nullopt;
      for (size_t i = 0; i < cotangents.size(); ++i) {
        const NDArray& y = (*outputs)[gradient_.outputs[i]];
        if (y.shape() != cotangents[i].shape()) return std::nullopt;
        sum += sign * Dot(y, cotangents[i]);
      }
    }
    return sum / (2 * step);
  }

  const Interpreter forward_;
  const GradientNetwork& gradient_;
  RandomSource& random_;
};

}  // namespace nodewise
