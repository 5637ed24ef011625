#pragma once

// Helpers of operators that move elements and calculate with shapes, and the
// rows, rules and loops that all of their files use.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

// For functions that make rows that differ in few fields only.
using Params = RowList<Param, 16>;

// Returns the elements of a small integer input as far as they are known, to be
// passed on. REQUIRES: an output that they are passed to has input i's type.
std::optional<Shape> KnownElements(const Inputs& in, size_t i = 0);
// Describes one output; its elements are dropped if there are too many, or if
// the rank is not 0 or 1.
OutputInfos OneOutput(DLDataType dtype, std::optional<Shape> shape,
                      std::optional<Shape> elements = std::nullopt);
// Describes one output of input 0's type.
OutputInfos OfInputType(const Inputs& in,
                        std::optional<Shape> shape = std::nullopt,
                        std::optional<Shape> elements = std::nullopt);
// Returns the rank of an input, or none.
std::optional<int> RankOf(const Inputs& in, size_t i = 0);
// Returns the integer that a constant of one element holds, or none; fractions
// are cut off.
std::optional<int64_t> OneInt(const Inputs& in, size_t i);
// Returns the axes counted from the front, or all if there are none.
absl::StatusOr<std::vector<int>> AxesOrAll(
    const std::optional<std::vector<int64_t>>& axes, int rank);
// Returns the number that a constant of one element holds, or none.
std::optional<double> OneNumber(const Inputs& in, size_t i);
// Returns what both know about one side; kInvalidArgument if they differ.
absl::StatusOr<Dim> UniteDims(const Dim& a, const Dim& b);
// Returns an error as one of input `i`, kInvalidArgument.
absl::Status AtInput(size_t i, const absl::Status& status);
// Describes an output of known rank; fails if it is too large, as CheckShape().
absl::StatusOr<OutputInfos> CheckedOutput(
    DLDataType dtype, Shape shape,
    std::optional<Shape> elements = std::nullopt);
// Fails with kInvalidArgument if a side is below 0, or the product of the known
// ones is too large to count.
absl::Status CheckShape(const Shape& shape);

// Makes output 0 a view of input 0 with the inferred shape.
absl::Status ViewAsInferred(EvalArgs& args);

// How two tensors are walked together: `sides` of the walk, and the strides of
// both in elements. Strides may be 0 or negative.
struct StridedCopy {
  std::vector<int64_t> sides;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t from = 0;  // The first element.
  int64_t to = 0;
};
// Copies elements of one type. REQUIRES: all elements visited lie inside the
// two.
void CopyStrided(const StridedCopy& plan, const NDArray& from,
                 const NDArray& to);
// For operators that only move elements: calls f(from, to) with the data of
// both as pointers to a type of the elements' size.
template <typename F>
absl::Status MoveElements(const NDArray& from, const NDArray& to, F f) {
  return WithSize(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    f(const_cast<const T*>(from.As<T>()), to.As<T>());
  });
}
// Copies a compact tensor into a new one of the same bytes.
void CopyAll(const NDArray& from, const NDArray& to);
// Sets every element to the one at `value`.
void FillWith(const NDArray& to, const void* value);

// Returns an index counted from the front, given one that may count from the
// end; kInvalidArgument if it is outside.
absl::StatusOr<int64_t> IndexInside(int64_t index, int64_t size);
// Returns the indices of an int32 or int64 input, all of them inside.
absl::StatusOr<std::vector<int64_t>> IndicesInside(const EvalArgs& args,
                                                   size_t i, int64_t size);

// The products of the sides before an axis, at it and after it.
struct AxisSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  size_t axis = 0;  // Counted from the front.
};
// REQUIRES: 0 <= axis < the number of sides.
AxisSplit SplitAt(absl::Span<const int64_t> shape, int axis);
// Returns an axis counted from the front, given one that may count from the
// end; kInvalidArgument if there is none.
absl::StatusOr<size_t> FrontAxis(absl::Span<const int64_t> shape, int64_t axis);
// Splits along such an axis.
absl::StatusOr<AxisSplit> SplitAlong(absl::Span<const int64_t> shape,
                                     int64_t axis);
// Without an axis the tensor is one list.
absl::StatusOr<AxisSplit> SplitAlong(const NDArray& tensor,
                                     const std::optional<int64_t>& axis);
// Fails with kInvalidArgument if an input of known rank has no such axis, once
// it has `more` sides.
absl::Status RequireAxis(const Inputs& in, int64_t axis, int more = 0);

// Rules of operators whose only attribute is an axis.
template <typename Class>
struct WithAxis : Class {
  static constexpr auto Fields() {
    return FieldList(Field<&Class::axis>("axis"));
  }
};

}  // namespace nodewise
