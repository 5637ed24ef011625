#pragma once

// What drops elements at random while a network is trained. Each class is its
// operator's primary attributes.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// y = x where the network is not trained; then the mask is all ones. Training
// is refused.
struct Dropout6 {
  bool is_test = false;  // False: trained.
  float ratio = 0.5f;
};

// y = x; the mask is all ones.
struct Dropout7 {
  float ratio = 0.5f;
};

// y = x, and the mask is all true, unless input 2 says that the network is
// trained: then elements are dropped at random (nodewise/ops/random.h).
struct Dropout {
  std::optional<int64_t> seed;
};

}  // namespace nodewise::ops
