#pragma once

// BatchNormalization: Y = (X - mean) / sqrt(var + epsilon) * scale + B. Each
// class is the operator's primary attributes in some opsets.

#include <cstdint>

namespace nodewise::ops {

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
