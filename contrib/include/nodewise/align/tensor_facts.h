#pragma once

#include <cstdint>
#include <vector>

#include "dlpack/dlpack.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// What is known of a tensor without its contents. Its shape and type are the
// same with each set of inputs.
struct TensorFacts {
  std::vector<int64_t> shape;
  DLDataType dtype{};
  std::vector<TensorStats> stats;  // By set of inputs.
};

}  // namespace nodewise
