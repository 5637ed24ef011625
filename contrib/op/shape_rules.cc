#include "nodewise/op/shape_rules.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status Require(const Inputs& in, size_t i, bool (*is_right)(DLDataType),
                     const char* expected) {
  if (!in.has(i) || !in.type(i).has_dtype() || is_right(in.type(i).dtype)) {
    return absl::OkStatus();
  }
  return InputError(
      i, std::string(MessageOf(RefuseType(in.type(i).dtype, expected))));
}

bool IsNumber(DLDataType dtype) { return IsFloat(dtype) || IsInteger(dtype); }
bool IsIndex(DLDataType dtype) { return dtype == kInt32 || dtype == kInt64; }

absl::Status CheckList(const char* name, absl::Span<const int64_t> list,
                       size_t expected, int64_t least) {
  if (list.size() != expected) {
    return AttributeError(name, fmt::format("has {} numbers, expected {}",
                                            list.size(), expected));
  }
  // Calculations with larger ones overflow.
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t number : list) {
    if (number >= least && number <= kMost) continue;
    return AttributeError(
        name, fmt::format("has {}, expected {} to 2^31", number, least));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InputError(size_t i, const std::string& message) {
  return absl::InvalidArgumentError(fmt::format("input {}: {}", i, message));
}

absl::Status AttributeError(const char* attribute, const std::string& message) {
  return absl::InvalidArgumentError(
      fmt::format("attribute {}: {}", attribute, message));
}

absl::Status RequireFloat(const Inputs& in, size_t i) {
  return Require(in, i, &IsFloat, "a float of 16 to 64 bits or bfloat16");
}
absl::Status RequireInteger(const Inputs& in, size_t i) {
  return Require(in, i, &IsInteger, "an integer of 8 to 64 bits");
}
absl::Status RequireNumber(const Inputs& in, size_t i) {
  return Require(in, i, &IsNumber, "a number");
}
absl::Status RequireBool(const Inputs& in, size_t i) {
  return Require(in, i, &IsBool, "bool");
}
absl::Status RequireIndex(const Inputs& in, size_t i) {
  return Require(in, i, &IsIndex, "int32 or int64");
}

absl::Status RequireType(const Inputs& in, size_t i, DLDataType dtype) {
  if (!in.has(i) || !in.type(i).has_dtype() || in.type(i).dtype == dtype) {
    return absl::OkStatus();
  }
  return InputError(i, std::string(MessageOf(RefuseType(
                           in.type(i).dtype, ToString(dtype).c_str()))));
}

absl::Status RequireSameType(const Inputs& in, size_t first) {
  std::optional<size_t> known;
  for (size_t i = first; i < in.size(); ++i) {
    if (!in.has(i) || !in.type(i).has_dtype()) continue;
    if (!known.has_value()) known = i;
    if (in.type(i).dtype == in.type(*known).dtype) continue;
    return InputError(i,
                      fmt::format("is of type {}, expected {} as input {} is",
                                  ToString(in.type(i).dtype),
                                  ToString(in.type(*known).dtype), *known));
  }
  return absl::OkStatus();
}

absl::Status RequireRank(const Inputs& in, size_t i, int least, int most) {
  if (!in.has(i) || !in.type(i).has_rank()) return absl::OkStatus();
  const int rank = in.type(i).rank();
  if (rank >= least && rank <= most) return absl::OkStatus();
  const std::string expected = least == most ? fmt::format("{}", least)
                               : most > 1000
                                   ? fmt::format("at least {}", least)
                                   : fmt::format("{} to {}", least, most);
  return InputError(i, fmt::format("has rank {}, expected {}", rank, expected));
}
absl::Status RequireRank(const Inputs& in, size_t i, int rank) {
  return RequireRank(in, i, rank, rank);
}

absl::Status RequireShape(const Inputs& in, size_t i, const Shape& expected) {
  NODEWISE_RETURN_IF_ERROR(
      RequireRank(in, i, static_cast<int>(expected.size())));
  if (!in.has(i) || !in.type(i).has_rank()) return absl::OkStatus();
  const Shape& found = *in.type(i).shape;
  for (size_t s = 0; s < expected.size(); ++s) {
    if (!found[s].is_known() || !expected[s].is_known() ||
        found[s].size() == expected[s].size()) {
      continue;
    }
    return InputError(i, fmt::format("is of shape {}, expected {}",
                                     ToString(found), ToString(expected)));
  }
  return absl::OkStatus();
}

Dim SideOf(const Inputs& in, size_t i, size_t side) {
  if (!in.has(i) || !in.type(i).has_rank()) return Dim();
  const Shape& shape = *in.type(i).shape;
  return side < shape.size() ? shape[side] : Dim();
}

absl::StatusOr<int> Axis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) {
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  return absl::InvalidArgumentError(
      fmt::format("axis {}, expected one of {} to {} (the rank is {})", axis,
                  -rank, rank - 1, rank));
}

absl::StatusOr<std::vector<int>> Axes(absl::Span<const int64_t> axes,
                                      int rank) {
  std::vector<int> all;
  for (const int64_t axis : axes) {
    NODEWISE_ASSIGN_OR_RETURN(const int from_front, Axis(axis, rank));
    if (std::find(all.begin(), all.end(), from_front) != all.end()) {
      return absl::InvalidArgumentError(
          fmt::format("axis {} comes twice", from_front));
    }
    all.push_back(from_front);
  }
  return all;
}

OutputInfos LikeInput(const Inputs& in, size_t i) { return {in.type(i)}; }

OutputInfos LikeInput(const Inputs& in, size_t i, DLDataType dtype) {
  TensorType type = in.type(i);
  type.dtype = dtype;
  return {std::move(type)};
}

absl::StatusOr<OutputInfos> BroadcastInputs(const Inputs& in) {
  DLDataType dtype{};
  for (size_t i = 0; i < in.size() && dtype.bits == 0; ++i) {
    if (in.has(i)) dtype = in.type(i).dtype;
  }
  return BroadcastInputs(in, dtype);
}

absl::StatusOr<OutputInfos> BroadcastInputs(const Inputs& in,
                                            DLDataType dtype) {
  TensorType type(dtype);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i)) continue;
    if (!in.type(i).has_rank()) return OutputInfos{type};
    shapes.push_back(*in.type(i).shape);
  }
  NODEWISE_ASSIGN_OR_RETURN(type.shape, BroadcastShapes(shapes));
  return OutputInfos{type};
}

std::optional<Shape> ShapeFromInput(const Inputs& in, size_t i) {
  if (const auto ints = in.Ints(i)) {
    Shape shape;
    // The smallest number would mean an unknown side.
    for (const int64_t size : *ints) {
      shape.emplace_back(std::max(size, -INT64_MAX));
    }
    return shape;
  }
  if (in[i].elements != nullptr) return *in[i].elements;
  const TensorType& type = in.type(i);
  if (!type.has_rank() || type.rank() != 1) return std::nullopt;
  // A shape tensor of arbitrary length is not a shape.
  constexpr int64_t kMostRank = 64;
  const Dim& rank = (*type.shape)[0];
  if (!rank.is_known() || rank.size() > kMostRank) return std::nullopt;
  return UnknownShape(static_cast<int>(rank.size()));
}

Shape UnknownShape(int rank) { return Shape(static_cast<size_t>(rank)); }

Dim Times(const Dim& a, const Dim& b) {
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  int64_t product = 0;
  if (!a.is_known() || !b.is_known() ||
      __builtin_mul_overflow(a.size(), b.size(), &product)) {
    return Dim();
  }
  return product;
}

Dim Plus(const Dim& a, const Dim& b) {
  if (a == Dim(0)) return b;
  if (b == Dim(0)) return a;
  int64_t sum = 0;
  if (!a.is_known() || !b.is_known() ||
      __builtin_add_overflow(a.size(), b.size(), &sum)) {
    return Dim();
  }
  return sum;
}

Dim ProductOf(const Shape& shape, size_t first, size_t last) {
  Dim product = 1;
  for (size_t i = first; i < last; ++i) product = Times(product, shape[i]);
  return product;
}

absl::StatusOr<Window> ResolveWindow(const WindowAttributes& attributes,
                                     int spatial) {
  const auto sides = static_cast<size_t>(spatial);
  Window window{attributes.kernel_shape, attributes.strides,
                attributes.dilations, attributes.pads};
  if (window.strides.empty()) window.strides.assign(sides, 1);
  if (window.dilations.empty()) window.dilations.assign(sides, 1);
  if (window.pads.empty() || attributes.auto_pad != Padding::kNotset) {
    window.pads.assign(2 * sides, 0);
  }
  NODEWISE_RETURN_IF_ERROR(CheckList("kernel_shape", window.kernel, sides, 1));
  NODEWISE_RETURN_IF_ERROR(CheckList("strides", window.strides, sides, 1));
  NODEWISE_RETURN_IF_ERROR(CheckList("dilations", window.dilations, sides, 1));
  NODEWISE_RETURN_IF_ERROR(CheckList("pads", window.pads, 2 * sides, 0));
  return window;
}

void PadSame(Padding auto_pad, int side, int64_t size, Window* window) {
  if (auto_pad != Padding::kSameUpper && auto_pad != Padding::kSameLower) {
    return;
  }
  const auto s = static_cast<size_t>(side);
  const int64_t reach = (window->kernel[s] - 1) * window->dilations[s] + 1;
  const int64_t count = (size + window->strides[s] - 1) / window->strides[s];
  const int64_t total =
      std::max<int64_t>((count - 1) * window->strides[s] + reach - size, 0);
  const int64_t small = total / 2;
  const size_t end = s + window->kernel.size();
  const bool upper = auto_pad == Padding::kSameUpper;
  window->pads[s] = upper ? small : total - small;
  window->pads[end] = upper ? total - small : small;
}

absl::StatusOr<int64_t> WindowCount(const Window& window, int side,
                                    int64_t size, bool ceil_mode) {
  const auto s = static_cast<size_t>(side);
  const size_t end = s + window.kernel.size();
  const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
  const int64_t room = size + window.pads[s] + window.pads[end] - reach;
  if (room < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "spatial side {} of {} with its padding is shorter than the window of "
        "{}",
        side, size, reach));
  }
  const int64_t stride = window.strides[s];
  int64_t count = room / stride + 1;
  // A last window that begins in the padding at the end does not count.
  if (ceil_mode && room % stride != 0 &&
      count * stride < size + window.pads[s]) {
    ++count;
  }
  return count;
}

}  // namespace nodewise
