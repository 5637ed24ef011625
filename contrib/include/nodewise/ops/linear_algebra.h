#pragma once

// Sums of products, determinants and inverses of matrices. Each class is its
// operator's primary attributes.

#include <string>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// Sums of products over the sides that an equation names: "ij,jk->ik" is the
// matrix product.
struct Einsum {
  Required<std::string> equation;
};

// The determinants of the matrices in the last two sides.
struct Det {};

// The inverses of the matrices in the last two sides. An operator of
// onnxruntime's.
struct Inverse {};

}  // namespace nodewise::ops
