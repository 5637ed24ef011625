#pragma once

#include <cstdint>
#include <vector>

namespace nodewise::ops {

// Adds the columns that a window saw back into an image, where they were. The
// sizes of image and window are inputs.
struct Col2Im {
  // By spatial side; empty: 1 each.
  std::vector<int64_t> dilations;
  // The pads at the beginnings, then at the ends; empty: 0 each.
  std::vector<int64_t> pads;
  std::vector<int64_t> strides;  // Empty: 1 each.
};

}  // namespace nodewise::ops
