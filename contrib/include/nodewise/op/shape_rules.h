#pragma once

// Rules for types and shapes that many operators share; for the files of
// operators.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/attribute_types.h"
#include "nodewise/op/op_row.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// Restrictions. A type or shape that is not known yet passes; the message
// begins with the input: "input 1: is of type int64, expected a float ...".
absl::Status RequireFloat(const Inputs& in, size_t i);
absl::Status RequireInteger(const Inputs& in, size_t i);
absl::Status RequireNumber(const Inputs& in, size_t i);  // Float or integer.
absl::Status RequireBool(const Inputs& in, size_t i);
absl::Status RequireType(const Inputs& in, size_t i, DLDataType dtype);
// Requires a type for which is_right() is true, which `expected` says in words.
absl::Status RequireType(const Inputs& in, size_t i,
                         bool (*is_right)(DLDataType), const char* expected);
// int32 or int64.
absl::Status RequireIndex(const Inputs& in, size_t i);
// All given inputs from `first` on have one element type.
absl::Status RequireSameType(const Inputs& in, size_t first = 0);
absl::Status RequireRank(const Inputs& in, size_t i, int least, int most);
absl::Status RequireRank(const Inputs& in, size_t i, int rank);
// Requires this rank, and equal sides where both are known.
absl::Status RequireShape(const Inputs& in, size_t i, const Shape& expected);
// kInvalidArgument "input 1: MESSAGE".
absl::Status InputError(size_t i, const std::string& message);
absl::Status AttributeError(const char* attribute, const std::string& message);
// Requires an attribute with so many numbers, each of them `least` to 2^31.
absl::Status CheckList(const char* name, absl::Span<const int64_t> list,
                       size_t expected, int64_t least);

// Returns the first error.
template <typename... Statuses>
absl::Status All(Statuses... statuses) {
  absl::Status first;
  ((first.ok() ? void(first = std::move(statuses)) : void()), ...);
  return first;
}

// Returns the axis counted from the front; kInvalidArgument if it is not in
// [-rank, rank).
absl::StatusOr<int> Axis(int64_t axis, int rank);
// Returns the axes counted from the front, in the order given; kInvalidArgument
// for one that comes twice.
absl::StatusOr<std::vector<int>> Axes(absl::Span<const int64_t> axes, int rank);

// Inference. Returns a side of input `i`; unknown if the input or its rank is.
Dim SideOf(const Inputs& in, size_t i, size_t side);
// Returns the type of input `i`, unchanged.
OutputInfos LikeInput(const Inputs& in, size_t i = 0);
// Returns input `i`'s shape with another element type.
OutputInfos LikeInput(const Inputs& in, size_t i, DLDataType dtype);
// Returns the shape of all inputs broadcast, with input 0's element type unless
// one is given.
absl::StatusOr<OutputInfos> BroadcastInputs(const Inputs& in);
absl::StatusOr<OutputInfos> BroadcastInputs(const Inputs& in, DLDataType dtype);
// Returns the shape that a shape tensor (input `i`) holds: sides as far as they
// are known, or no rank if not even their number is. Constant values below 0
// are left to the caller.
std::optional<Shape> ShapeFromInput(const Inputs& in, size_t i);
// Returns a shape of this rank with all sides unknown.
Shape UnknownShape(int rank);
// Calculate with sides; the result is unknown where one of them is.
Dim Times(const Dim& a, const Dim& b);
Dim Plus(const Dim& a, const Dim& b);
// Product of sides [first, last).
Dim ProductOf(const Shape& shape, size_t first, size_t last);

// Windows that slide over the spatial sides, of convolutions and pools.
using ops::Padding;
template <>
struct Words<Padding> {
  static constexpr std::pair<Padding, std::string_view> kAll[] = {
      {Padding::kNotset, "NOTSET"},
      {Padding::kSameUpper, "SAME_UPPER"},
      {Padding::kSameLower, "SAME_LOWER"},
      {Padding::kValid, "VALID"}};
};
struct Window {
  std::vector<int64_t> kernel;   // By spatial side.
  std::vector<int64_t> strides;  // Never empty once resolved.
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // Begins, then ends.
};
// The attributes of a window, resolved with defaults for `spatial` sides.
// kInvalidArgument for lists of the wrong length and numbers below 1 (pads: 0).
struct WindowAttributes {
  Padding auto_pad = Padding::kNotset;
  std::vector<int64_t> kernel_shape;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;
  bool ceil_mode = false;
};
absl::StatusOr<Window> ResolveWindow(const WindowAttributes& attributes,
                                     int spatial);
// Fills in the pads of SAME_* for a side of this size.
void PadSame(Padding auto_pad, int side, int64_t size, Window* window);
// Returns how often the window fits; kInvalidArgument if it never does.
absl::StatusOr<int64_t> WindowCount(const Window& window, int side,
                                    int64_t size, bool ceil_mode);

}  // namespace nodewise
