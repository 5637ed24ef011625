#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

using Ints = IntList;
using Floats = std::vector<float>;

// Which uses of some operators there are to draw from. What comes out need not
// be legal: the operators' own rules sort that out.
struct OperatorSpace {
  void (*draw)(ConfigurationDraw& draw);
  const char* operators;  // "Conv", or several: "ArgMax ArgMin".
};
// Returns the space of an operator; null if none of these is.
const OperatorSpace* FindSpace(absl::Span<const OperatorSpace> spaces,
                               std::string_view name);

// Returns the place of an axis that may be counted from the end.
inline size_t PlaceOf(int64_t axis, const Ints& shape) {
  const int64_t rank = std::ssize(shape);
  return static_cast<size_t>((axis + rank) % rank);
}

// Draws an axis and adds it as an attribute in so many of 100 cases, and leaves
// it out in the others; returns it, which is `usual` then.
inline int64_t AxisOr(int64_t usual, ConfigurationDraw& draw, size_t rank,
                      int percent) {
  if (!draw.Chance(percent)) return usual;
  const int64_t axis = draw.AxisOfOpset(rank);
  draw.Attr("axis", axis);
  return axis;
}

// Returns the tensor of an attribute; undefined if there is no memory for it.
NDArray AttrTensor(DLDataType dtype, const Ints& shape,
                   const std::vector<double>& numbers);

// One function for each file of spaces.
absl::Span<const OperatorSpace> ClassicSpaces();  // Those of ai.onnx.ml
absl::Span<const OperatorSpace> FillSpaces();     // Constant, Range, EyeLike
absl::Span<const OperatorSpace> RandomSpaces();   // RandomNormal, Bernoulli
absl::Span<const OperatorSpace> ImageSpaces();  // Resize, GridSample, RoiAlign
absl::Span<const OperatorSpace> MathSpaces();   // Einsum, DFT, Det
absl::Span<const OperatorSpace> MoveSpaces();   // Reshape, Slice, Gather
absl::Span<const OperatorSpace> PointwiseSpaces();  // Add, Cast, Where
absl::Span<const OperatorSpace> ProductSpaces();   // MatMul, and quantised ones
absl::Span<const OperatorSpace> ReduceSpaces();    // ReduceSum, TopK, norms
absl::Span<const OperatorSpace> SequenceSpaces();  // LSTM, Attention
absl::Span<const OperatorSpace> WindowSpaces();    // Conv, pools

}  // namespace nodewise
