#pragma once

#include <string_view>
#include <utility>

#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/op/op_row.h"
#include "nodewise/ops/resize.h"

// What Resize shares with the operators that sample grids.

namespace nodewise {

template <>
struct Words<ops::Interpolation> {
  static constexpr std::pair<ops::Interpolation, std::string_view> kAll[] = {
      {ops::Interpolation::kNearest, "nearest"},
      {ops::Interpolation::kLinear, "linear"},
      {ops::Interpolation::kCubic, "cubic"}};
};

// Sets the weights of the four elements around a place, `ratio` after the
// second.
void CubicWeights(double ratio, double a, double weights[4]);

}  // namespace nodewise
