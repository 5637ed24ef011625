#pragma once

// A layer that keeps a state of fixed size in place of all earlier tokens. The
// class is its operator's primary attributes.

#include <cstdint>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// What a step does to the state S before it adds what it writes: nothing,
// multiply it by a decay, write only what S does not give for the key yet, or
// both.
enum class UpdateRule { kLinear, kGated, kDelta, kGatedDelta };

// Attention without softmax: every step writes its value into a state for each
// head, under its key, and then reads the state with its query.
struct LinearAttention {
  // How kernels that work in chunks cut the steps; the result is the same.
  int64_t chunk_size = 64;
  Required<int64_t> kv_num_heads;
  Required<int64_t> q_num_heads;
  float scale = 0;  // 0: 1 / sqrt(key size).
  UpdateRule update_rule = UpdateRule::kGatedDelta;
};

}  // namespace nodewise::ops
