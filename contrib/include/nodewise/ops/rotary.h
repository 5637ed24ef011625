#pragma once

// Places of tokens as angles. Each class is its operator's primary attributes.

#include <cstdint>

namespace nodewise::ops {

// Turns pairs of elements of every head by an angle that depends on the place.
struct RotaryEmbedding {
  bool interleaved = false;          // True: the two of a pair are neighbours.
  int64_t num_heads = 0;             // Needed if X has no side of heads.
  int64_t rotary_embedding_dim = 0;  // Elements that turn. 0: all of a head.
};

}  // namespace nodewise::ops
