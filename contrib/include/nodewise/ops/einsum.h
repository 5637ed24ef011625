#pragma once

#include <string>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// Sums of products over the sides that an equation names: "ij,jk->ik" is the
// matrix product.
struct Einsum {
  Required<std::string> equation;
};

}  // namespace nodewise::ops
