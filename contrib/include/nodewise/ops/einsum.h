#pragma once

#include <string>

namespace nodewise::ops {

// Sums of products over the sides that an equation names: "ij,jk->ik" is the
// matrix product.
struct Einsum {
  std::string equation;  // Required.
};

}  // namespace nodewise::ops
