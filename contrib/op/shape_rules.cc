// Rules that the operators share: what types and shapes they take, axes, sides
// that are known in part, and the windows of convolutions and pools. Nothing
// here refuses what is not known yet; evaluation asks again when everything
// is.

#include "nodewise/op/shape_rules.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool HasType(const Inputs& in, size_t i) {
  return in.has(i) && in.type(i).has_dtype();
}

bool HasRank(const Inputs& in, size_t i) {
  return in.has(i) && in.type(i).has_rank();
}

absl::Status WrongType(const Inputs& in, size_t i, std::string_view expected) {
  return InvalidArgument("input {}: is of type {}, expected {}", i,
                         ToString(in.type(i).dtype), expected);
}

bool IsNumber(DLDataType dtype) { return IsFloat(dtype) || IsInteger(dtype); }
bool IsIndex(DLDataType dtype) { return dtype == kInt32 || dtype == kInt64; }

// A neutral side leaves the other one as it is, known or not. A result that
// would overflow is unknown.
template <typename Overflows>
Dim Combined(const Dim& a, const Dim& b, int64_t neutral, Overflows overflows) {
  if (a == Dim(neutral)) return b;
  if (b == Dim(neutral)) return a;
  int64_t combined = 0;
  if (!a.is_known() || !b.is_known() ||
      overflows(a.size(), b.size(), &combined)) {
    return Dim();
  }
  return combined;
}

}  // namespace

absl::Status CheckList(const char* name, absl::Span<const int64_t> list,
                       size_t expected, int64_t least) {
  if (list.size() != expected) {
    return InvalidArgument("attribute {}: has {} numbers, expected {}", name,
                           list.size(), expected);
  }
  // Sides that are calculated with larger numbers could overflow.
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t number : list) {
    if (number >= least && number <= kMost) continue;
    return InvalidArgument("attribute {}: has {}, expected {} to 2^31", name,
                           number, least);
  }
  return absl::OkStatus();
}

absl::Status InputError(size_t i, const std::string& message) {
  return InvalidArgument("input {}: {}", i, message);
}

absl::Status AttributeError(const char* attribute, const std::string& message) {
  return InvalidArgument("attribute {}: {}", attribute, message);
}

absl::Status RequireType(const Inputs& in, size_t i,
                         bool (*is_right)(DLDataType), const char* expected) {
  if (!HasType(in, i) || is_right(in.type(i).dtype)) return absl::OkStatus();
  return WrongType(in, i, expected);
}
absl::Status RequireFloat(const Inputs& in, size_t i) {
  return RequireType(in, i, &IsFloat, "a float of 16 to 64 bits or bfloat16");
}
absl::Status RequireInteger(const Inputs& in, size_t i) {
  return RequireType(in, i, &IsInteger, "an integer of 8 to 64 bits");
}
absl::Status RequireNumber(const Inputs& in, size_t i) {
  return RequireType(in, i, &IsNumber, "a number");
}
absl::Status RequireBool(const Inputs& in, size_t i) {
  return RequireType(in, i, &IsBool, "bool");
}
absl::Status RequireIndex(const Inputs& in, size_t i) {
  return RequireType(in, i, &IsIndex, "int32 or int64");
}

absl::Status RequireType(const Inputs& in, size_t i, DLDataType dtype) {
  if (!HasType(in, i) || in.type(i).dtype == dtype) return absl::OkStatus();
  return WrongType(in, i, ToString(dtype));
}

// The message names the first input whose type is known, which need not be the
// first.
absl::Status RequireSameType(const Inputs& in, size_t first) {
  std::optional<size_t> known;
  for (size_t i = first; i < in.size(); ++i) {
    if (!HasType(in, i)) continue;
    if (!known.has_value()) known = i;
    if (in.type(i).dtype == in.type(*known).dtype) continue;
    return InvalidArgument(
        "input {}: is of type {}, expected {} as input {} is", i,
        ToString(in.type(i).dtype), ToString(in.type(*known).dtype), *known);
  }
  return absl::OkStatus();
}

// A `most` beyond any rank means that there is no upper end.
absl::Status RequireRank(const Inputs& in, size_t i, int least, int most) {
  if (!HasRank(in, i)) return absl::OkStatus();
  const int rank = in.type(i).rank();
  if (rank >= least && rank <= most) return absl::OkStatus();
  const std::string expected = least == most ? fmt::format("{}", least)
                               : most > 1000
                                   ? fmt::format("at least {}", least)
                                   : fmt::format("{} to {}", least, most);
  return InvalidArgument("input {}: has rank {}, expected {}", i, rank,
                         expected);
}
absl::Status RequireRank(const Inputs& in, size_t i, int rank) {
  return RequireRank(in, i, rank, rank);
}

// A side that is not known, of the input or of `expected`, may be anything.
absl::Status RequireShape(const Inputs& in, size_t i, const Shape& expected) {
  NODEWISE_RETURN_IF_ERROR(
      RequireRank(in, i, static_cast<int>(expected.size())));
  if (!HasRank(in, i)) return absl::OkStatus();
  const Shape& found = *in.type(i).shape;
  for (size_t s = 0; s < expected.size(); ++s) {
    if (!found[s].is_known() || !expected[s].is_known() ||
        found[s].size() == expected[s].size()) {
      continue;
    }
    return InvalidArgument("input {}: is of shape {}, expected {}", i,
                           ToString(found), ToString(expected));
  }
  return absl::OkStatus();
}

Dim SideOf(const Inputs& in, size_t i, size_t side) {
  if (!HasRank(in, i)) return Dim();
  const Shape& shape = *in.type(i).shape;
  return side < shape.size() ? shape[side] : Dim();
}

absl::StatusOr<int> Axis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) {
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  return InvalidArgument("axis {}, expected one of {} to {} (the rank is {})",
                         axis, -rank, rank - 1, rank);
}

// Lists of axes are short, so that looking for one twice needs no set.
absl::StatusOr<std::vector<int>> Axes(absl::Span<const int64_t> axes,
                                      int rank) {
  std::vector<int> all;
  for (const int64_t axis : axes) {
    NODEWISE_ASSIGN_OR_RETURN(const int from_front, Axis(axis, rank));
    if (std::ranges::find(all, from_front) != all.end()) {
      return InvalidArgument("axis {} comes twice", from_front);
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

// One input of unknown rank may have any number of sides, so the rank of the
// result is not known, either.
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

// Three sources, from the best to the least: numbers that are all known,
// elements that are known in part, and the length alone, which is the rank.
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
  return Combined(a, b, 1, [](int64_t x, int64_t y, int64_t* product) {
    return __builtin_mul_overflow(x, y, product);
  });
}

Dim Plus(const Dim& a, const Dim& b) {
  return Combined(a, b, 0, [](int64_t x, int64_t y, int64_t* sum) {
    return __builtin_add_overflow(x, y, sum);
  });
}

Dim ProductOf(const Shape& shape, size_t first, size_t last) {
  Dim product = 1;
  for (size_t i = first; i < last; ++i) product = Times(product, shape[i]);
  return product;
}

// With auto_pad the attribute `pads` counts for nothing; PadSame() works the
// pads out when the sizes are known.
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

// There is one window for each stride of the input, regardless of its size. An
// odd element of padding goes to the end for SAME_UPPER, to the beginning for
// SAME_LOWER.
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

// The first window begins at the padding's first element, and each next one a
// stride further on, as long as all of it has room.
absl::StatusOr<int64_t> WindowCount(const Window& window, int side,
                                    int64_t size, bool ceil_mode) {
  const auto s = static_cast<size_t>(side);
  const size_t end = s + window.kernel.size();
  const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
  const int64_t room = size + window.pads[s] + window.pads[end] - reach;
  if (room < 0) {
    return InvalidArgument(
        "spatial side {} of {} with its padding is shorter than the window of "
        "{}",
        side, size, reach);
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
