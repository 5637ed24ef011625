#pragma once

// Random numbers. Each class is its operator's primary attributes.
//
// ONNX does not say which numbers are drawn, so these are nodewise's own: one
// seed gives the same numbers on every machine, and in every evaluation. No
// bounds are known of them, since another kernel draws others.

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/ndarray/dtype.h"

namespace nodewise::ops {

// Numbers of a bell curve around `mean`; `scale` is the standard deviation.
struct RandomNormal {
  DLDataType dtype = kFloat32;
  float mean = 0;
  float scale = 1;
  std::optional<float> seed;
  std::vector<int64_t> shape;  // Required.
};
// The output has the shape of the input, and without `dtype` its type too.
struct RandomNormalLike {
  std::optional<DLDataType> dtype;
  float mean = 0;
  float scale = 1;
  std::optional<float> seed;
};

// Numbers from `low` to `high`, each as likely as any other.
struct RandomUniform {
  DLDataType dtype = kFloat32;
  float high = 1;
  float low = 0;
  std::optional<float> seed;
  std::vector<int64_t> shape;  // Required.
};
struct RandomUniformLike {
  std::optional<DLDataType> dtype;
  float high = 1;
  float low = 0;
  std::optional<float> seed;
};

// 1 with the probability that the input gives for each element, else 0.
struct Bernoulli {
  std::optional<DLDataType> dtype;
  std::optional<float> seed;
};

// For each row of logarithms of probabilities, which need not add up to 1,
// `sample_size` of their indices.
struct Multinomial {
  DLDataType dtype{kDLInt, 32, 1};
  int64_t sample_size = 1;
  std::optional<float> seed;
};

}  // namespace nodewise::ops
