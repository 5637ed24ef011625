#pragma once

// Normalization by channel, side 1 of the input. Each class is its operator's
// primary attributes, some of them only in some opsets.

#include <cstdint>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// y = scale * (x - mean) / sqrt(variance + epsilon) + B, where each channel of
// each instance has its own mean and variance.
struct InstanceNormalization {
  float epsilon = 1e-5f;
};

// y = scale * (x - mean) / sqrt(variance + epsilon) + bias, where each group of
// channels of each instance has its own mean and variance, and each group its
// own scale and bias.
struct GroupNormalization18 {
  float epsilon = 1e-5f;
  Required<int64_t> num_groups;
};

// y = scale * (x - mean) / sqrt(variance + epsilon) + bias, where each group of
// channels of each instance has its own mean and variance, and each channel its
// own scale and bias.
struct GroupNormalization {
  float epsilon = 1e-5f;
  Required<int64_t> num_groups;
  // ONNX's number of the type that kernels calculate in; the bounds know it.
  int64_t stash_type = 1;
};

// y = x / (bias + alpha / size * s)^beta, where s is the sum of the squares of
// the elements at this place in `size` neighbouring channels.
struct LRN {
  float alpha = 1e-4f;
  float beta = 0.75f;
  float bias = 1;
  Required<int64_t> size = Required<int64_t>::Unset(1);
};

// BatchNormalization: Y = (X - mean) / sqrt(var + epsilon) * scale + B.
struct BatchNormAttributes {
  float epsilon = 1e-5f;
  float momentum = 0.9f;  // The share of the old statistics, in training.
};

// With the statistics that are given, or those of X itself in training.
struct BatchNormalization : BatchNormAttributes {
  bool training_mode = false;
};

// Opsets 9 to 13: more than one output means training.
struct BatchNormalization9 : BatchNormAttributes {};

// Opsets 7 and 8.
struct BatchNormalization7 : BatchNormAttributes {
  // False: each element of an instance has statistics of its own.
  bool spatial = true;
};

// Below opset 7 it trains unless it is told not to.
struct BatchNormalization1 : BatchNormAttributes {
  bool spatial = true;  // As in BatchNormalization7.
  int64_t is_test = 0;
};

}  // namespace nodewise::ops
