#pragma once

// Normalization over the sides that an attribute names. Each class is its
// operator's primary attributes.

#include <cstdint>
#include <vector>

#include "nodewise/ndarray/dtype.h"

namespace nodewise::ops {

// Y = (X - mean) / sqrt(variance + epsilon) * Scale + B, over the sides from
// `axis` on together.
struct LayerNormalization {
  int64_t axis = -1;
  float epsilon = 1e-5f;
  // The type of the outputs Mean and InvStdDev, and what a kernel calculates
  // in; here that is double all the same.
  DLDataType stash_type = kFloat32;
};

// Y = X / sqrt(mean of X^2 + epsilon) * scale, over the sides from `axis` on
// together.
struct RMSNormalization {
  int64_t axis = -1;
  float epsilon = 1e-5f;
  // What a kernel calculates in, by ONNX's number. Here it is double always,
  // and the bounds know what a kernel may do.
  int64_t stash_type = 1;
};

// x / norm along one side; 0 where the norm is 0.
struct LpNormalization {
  int64_t axis = -1;
  int64_t p = 2;  // The norm: 1 is the sum of sizes, 2 the length.
};

// (X - mean) / deviation over the sides that are named.
struct MeanVarianceNormalization {
  std::vector<int64_t> axes = {0, 2, 3};  // Empty: all.
};

}  // namespace nodewise::ops
