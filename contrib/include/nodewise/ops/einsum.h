#pragma once

// Sums of products by an equation. The class is its operator's primary
// attributes.

#include <string>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// Sums of products over the sides that an equation names: "ij,jk->ik" is the
// matrix product.
struct Einsum {
  Required<std::string> equation;
};

}  // namespace nodewise::ops
