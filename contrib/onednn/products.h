#pragma once

// Products of matrices.

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

// The sizes of a product, with as many sides each.
struct MatMulSizes {
  Sizes left;
  Sizes right;
  Sizes output;
  // All but the last two sides of the left are rows of one matrix.
  bool is_folded = false;
};
// NumPy's rules for inputs `left` and `right`; folded, if it can be.
MatMulSizes SizesOfMatMul(const Call& call, size_t left, size_t right,
                          bool may_fold);

absl::Status BuildMatMul(ProgramBuilder& program);
absl::Status BuildGemm(ProgramBuilder& program);

}  // namespace nodewise::onednn
