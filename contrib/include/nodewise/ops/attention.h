#pragma once

// Attention, and places of tokens as angles. Each class is its operator's
// primary attributes.

#include <cstdint>
#include <optional>

#include "nodewise/ndarray/dtype.h"

namespace nodewise::ops {

// Y = softmax(scale * Q K^T + mask) V for each head, with keys and values of
// earlier calls in front. A query that sees no key gives 0. A query's place
// among the keys is behind those of earlier calls, or, where only a part of
// them is valid, with the other queries at the end of that part.
struct Attention23 {
  bool is_causal = false;  // True: no query sees keys behind its place.
  // Needed if Q, K and V have rank 3, where the heads stand side by side.
  int64_t kv_num_heads = 0;
  int64_t q_num_heads = 0;
  // What output 3 is: the scores as they are (0), with softcap (1), with the
  // mask added (2), or after the softmax (3).
  int64_t qk_matmul_output_mode = 0;
  std::optional<float> scale;  // None: 1 / sqrt(head size).
  float softcap = 0;           // Limits scores to +- softcap; 0: does not.
  // Ignored: the softmax is always calculated in double.
  std::optional<DLDataType> softmax_precision;
};

// From opset 25 on a query may see only the keys near to its place.
struct Attention : Attention23 {
  int64_t left_window_size = -1;   // Keys before it; -1: all.
  int64_t right_window_size = -1;  // Keys behind it; -1: all.
};

// Turns pairs of elements of every head by an angle that depends on the place.
struct RotaryEmbedding {
  bool interleaved = false;          // True: the two of a pair are neighbours.
  int64_t num_heads = 0;             // Needed if X has no side of heads.
  int64_t rotary_embedding_dim = 0;  // Elements that turn. 0: all of a head.
};

}  // namespace nodewise::ops
