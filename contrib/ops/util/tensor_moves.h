#pragma once

// What operators share that move elements and calculate with shapes.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/shape_rules.h"

namespace nodewise {

// The elements of a small integer input as far as they are known, to be passed
// on. REQUIRES (of all that are passed on): the output has input i's type.
std::optional<Shape> KnownElements(const Inputs& in, size_t i = 0);
// One output; its elements are dropped where they are too many, or where the
// rank is not 0 or 1.
OutputInfos OneOutput(DLDataType dtype, std::optional<Shape> shape,
                      std::optional<Shape> elements = std::nullopt);
// The rank of an input, or none.
std::optional<int> RankOf(const Inputs& in, size_t i = 0);
// The one integer that a constant of one element holds, or none; numbers with a
// fraction are cut off.
std::optional<int64_t> OneInt(const Inputs& in, size_t i);
// The same for a number.
std::optional<double> OneNumber(const Inputs& in, size_t i);
// What both say of one side; kInvalidArgument if they differ.
absl::StatusOr<Dim> UniteDims(const Dim& a, const Dim& b);
// kInvalidArgument if a side is below 0, or known ones multiply beyond what can
// be counted.
absl::Status CheckShape(const Shape& shape);

// Output 0 is input 0 under the shape that is inferred.
absl::Status ViewAsInferred(EvalArgs& args);

// How two tensors are walked side by side: `sides` of the walk, and how many
// elements lie from one to the next in each. Strides may be 0 or negative.
struct StridedCopy {
  std::vector<int64_t> sides;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t from = 0;  // The first elements.
  int64_t to = 0;
};
// Copies elements of this many bytes (1, 2, 4 or 8). REQUIRES: all that is
// walked over lies inside the two.
void CopyStrided(const StridedCopy& plan, size_t element_bytes,
                 const void* from, void* to);
inline void CopyStrided(const StridedCopy& plan, const NDArray& from,
                        const NDArray& to) {
  CopyStrided(plan, ElementBytes(from.dtype()), from.data(), to.data());
}
// Copies a compact tensor into a new one of the same bytes.
void CopyAll(const NDArray& from, const NDArray& to);
// Every element is the one at `value`.
void FillWith(const NDArray& to, const void* value);

// An index that may count from the end; kInvalidArgument if it is outside.
absl::StatusOr<int64_t> IndexInside(int64_t index, int64_t size);
// The indices of an int32 or int64 input, all of them inside.
absl::StatusOr<std::vector<int64_t>> IndicesInside(const EvalArgs& args,
                                                   size_t i, int64_t size);

// Sides before `axis`, at it and behind it, multiplied.
struct AxisSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisSplit SplitAt(absl::Span<const int64_t> shape, int axis);

}  // namespace nodewise
