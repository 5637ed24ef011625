#include "contrib/ops/util/tensor_moves.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Leaves out sides of 1 and joins neighbours where both tensors continue; the
// last side comes last.
StridedCopy Joined(const StridedCopy& plan) {
  StridedCopy joined;
  joined.from = plan.from;
  joined.to = plan.to;
  for (size_t i = 0; i < plan.sides.size(); ++i) {
    const int64_t size = plan.sides[i];
    const int64_t from = plan.from_strides[i];
    const int64_t to = plan.to_strides[i];
    if (size == 1) continue;
    if (!joined.sides.empty() && joined.from_strides.back() == from * size &&
        joined.to_strides.back() == to * size) {
      joined.sides.back() *= size;
      joined.from_strides.back() = from;
      joined.to_strides.back() = to;
      continue;
    }
    joined.sides.push_back(size);
    joined.from_strides.push_back(from);
    joined.to_strides.push_back(to);
  }
  // CopyTyped() expects two sides at least.
  while (joined.sides.size() < 2) {
    joined.sides.insert(joined.sides.begin(), 1);
    joined.from_strides.insert(joined.from_strides.begin(), 0);
    joined.to_strides.insert(joined.to_strides.begin(), 0);
  }
  return joined;
}

// Where the input goes on along another side than the output does (a
// transposition), that side is put before the last one: the two are walked in
// tiles, so that neither side's cache lines are lost between visits.
void PutTileSideNext(StridedCopy* plan) {
  const size_t last = plan->sides.size() - 1;
  // Elements that lie beside each other in both are copied as they are.
  if (std::abs(plan->from_strides[last]) <= 1) return;
  for (size_t i = 0; i < last; ++i) {
    if (std::abs(plan->from_strides[i]) != 1) continue;
    std::swap(plan->sides[i], plan->sides[last - 1]);
    std::swap(plan->from_strides[i], plan->from_strides[last - 1]);
    std::swap(plan->to_strides[i], plan->to_strides[last - 1]);
    return;
  }
}

template <typename T>
void CopyRun(const T* from, int64_t from_step, T* to, int64_t to_step,
             int64_t n) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (to_step == 1 && from_step == 0) {
    std::fill(to, to + n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

// The two innermost sides, rows [begin, end) of the last but one.
template <typename T>
void CopyPlane(const StridedCopy& plan, const T* from, T* to, int64_t begin,
               int64_t end) {
  // In a tile of 32 by 32 elements of up to 8 bytes each line of the cache is
  // used to its end before it is given up, and both sides' lines fit into the
  // first cache.
  constexpr int64_t kTile = 32;
  const size_t last = plan.sides.size() - 1;
  const int64_t n = plan.sides[last];
  const int64_t from_step = plan.from_strides[last];
  const int64_t to_step = plan.to_strides[last];
  const int64_t from_row = plan.from_strides[last - 1];
  const int64_t to_row = plan.to_strides[last - 1];
  // Without tiles a row is copied from its begin to its end.
  const bool is_tiled = std::abs(from_row) == 1 && std::abs(from_step) > 1;
  const int64_t tile = is_tiled ? kTile : std::max<int64_t>(n, 1);
  const int64_t rows = is_tiled ? kTile : end - begin;
  for (int64_t row = begin; row < end; row += rows) {
    const int64_t row_end = std::min(end, row + rows);
    for (int64_t at = 0; at < n; at += tile) {
      const int64_t count = std::min(tile, n - at);
      for (int64_t r = row; r < row_end; ++r) {
        CopyRun(from + r * from_row + at * from_step, from_step,
                to + r * to_row + at * to_step, to_step, count);
      }
    }
  }
}

template <typename T>
void CopyTyped(const StridedCopy& plan, const T* from, T* to) {
  const size_t last = plan.sides.size() - 1;
  const int64_t rows = plan.sides[last - 1];
  const int64_t planes = Product(absl::MakeConstSpan(plan.sides.data(), last));
  // Rows of all planes are counted through, so that threads can share one
  // plane, too. A row takes about half a nanosecond for each element.
  const double work = 1 + 0.5 * static_cast<double>(plan.sides[last]);
  ParallelFor(planes, work, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      int64_t rest = row / rows;
      int64_t from_at = plan.from;
      int64_t to_at = plan.to;
      for (size_t side = last - 1; side-- > 0;) {
        const int64_t at = rest % plan.sides[side];
        rest /= plan.sides[side];
        from_at += at * plan.from_strides[side];
        to_at += at * plan.to_strides[side];
      }
      const int64_t first = row % rows;
      const int64_t count = std::min(rows - first, end - row);
      CopyPlane(plan, from + from_at, to + to_at, first, first + count);
      row += count;
    }
  });
}

}  // namespace

std::optional<Shape> KnownElements(const Inputs& in, size_t i) {
  if (in[i].elements == nullptr) return std::nullopt;
  return *in[i].elements;
}

OutputInfos OneOutput(DLDataType dtype, std::optional<Shape> shape,
                      std::optional<Shape> elements) {
  OutputInfo info;
  info.type.dtype = dtype;
  info.type.shape = std::move(shape);
  // Longer lists would make inference slow, and no shape is that long.
  if (elements.has_value() && elements->size() <= kMostElements &&
      info.type.has_rank() && info.type.rank() <= 1) {
    info.elements = std::move(elements);
  }
  return {std::move(info)};
}

OutputInfos OfInputType(const Inputs& in, std::optional<Shape> shape,
                        std::optional<Shape> elements) {
  return OneOutput(in.type(0).dtype, std::move(shape), std::move(elements));
}

std::optional<int> RankOf(const Inputs& in, size_t i) {
  if (!in.has(i) || !in.type(i).has_rank()) return std::nullopt;
  return in.type(i).rank();
}

absl::StatusOr<std::vector<int>> AxesOrAll(
    const std::optional<std::vector<int64_t>>& axes, int rank) {
  if (axes.has_value()) return Axes(*axes, rank);
  std::vector<int> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::optional<double> OneNumber(const Inputs& in, size_t i) {
  const NDArray* const constant = in[i].constant;
  if (constant == nullptr || CountOf(*constant) != 1) return std::nullopt;
  return ToDoubles(*constant)[0];
}

std::optional<int64_t> OneInt(const Inputs& in, size_t i) {
  if (const auto ints = in.Ints(i)) {
    // A list of integers with another length is not looked at as a float.
    if (ints->size() == 1) return (*ints)[0];
    return std::nullopt;
  }
  if (const auto number = OneNumber(in, i)) return FromDouble<int64_t>(*number);
  return std::nullopt;
}

// A size is known better than a name, and a name better than nothing. Two
// different names may still be one size, which is not an error.
absl::StatusOr<Dim> UniteDims(const Dim& a, const Dim& b) {
  if (!a.is_known() && !b.is_known()) return a.name().empty() ? b : a;
  if (!a.is_known()) return b;
  if (!b.is_known() || a == b) return a;
  return InvalidArgument("a side of {} against one of {}", a.size(), b.size());
}

absl::Status AtInput(size_t i, const absl::Status& status) {
  if (status.ok()) return status;
  return InputError(i, std::string(MessageOf(status)));
}

absl::Status CheckShape(const Shape& shape) {
  std::vector<int64_t> known;
  for (const Dim& side : shape) {
    if (side.is_known()) known.push_back(side.size());
  }
  // Sides that are not known are 1 at least, or make the tensor empty.
  return NumElements(known).status();
}

absl::StatusOr<OutputInfos> CheckedOutput(DLDataType dtype, Shape shape,
                                          std::optional<Shape> elements) {
  NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
  return OneOutput(dtype, std::move(shape), std::move(elements));
}

// MakeOutput() has the words for a type that is not known.
absl::Status ViewAsInferred(EvalArgs& args) {
  if (!args.is_inferred(0)) return args.MakeOutput(0).status();
  const auto sizes = *args.inferred(0).sizes();
  NODEWISE_ASSIGN_OR_RETURN(NDArray view,
                            args.in(0).View(sizes, args.dtype(0)));
  args.SetOutput(0, std::move(view));
  return absl::OkStatus();
}

void CopyStrided(const StridedCopy& plan, const NDArray& from,
                 const NDArray& to) {
  // Pointers of empty tensors may be null.
  if (Product(plan.sides) == 0) return;
  StridedCopy joined = Joined(plan);
  PutTileSideNext(&joined);
  (void)MoveElements(from, to, [&](const auto* source, auto* target) {
    CopyTyped(joined, source, target);
  });
}

void CopyAll(const NDArray& from, const NDArray& to) {
  // An empty tensor may have no memory at all.
  const size_t size = from.bytes();
  if (size > 0) std::memcpy(to.data(), from.data(), size);
}

void FillWith(const NDArray& to, const void* value) {
  (void)WithSize(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T element{};
    std::memcpy(&element, value, sizeof(element));
    T* const data = to.As<T>();
    std::fill(data, data + CountOf(to), element);
  });
}

absl::StatusOr<int64_t> IndexInside(int64_t index, int64_t size) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  return InvalidArgument("index {}, expected one of {} to {} (the side has {})",
                         index, -size, size - 1, size);
}

absl::StatusOr<std::vector<int64_t>> IndicesInside(const EvalArgs& args,
                                                   size_t i, int64_t size) {
  // Changed in place: there may be millions.
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> indices, args.Ints(i));
  for (int64_t& index : indices) {
    // The usual index is right as it is.
    if (index >= 0 && index < size) continue;
    const auto inside = IndexInside(index, size);
    if (!inside.ok()) return AtInput(i, inside.status());
    index = *inside;
  }
  return indices;
}

AxisSplit SplitAt(absl::Span<const int64_t> shape, int axis) {
  const auto at = static_cast<size_t>(axis);
  return {Product(shape.first(at)), shape[at], Product(shape.subspan(at + 1)),
          at};
}

absl::StatusOr<size_t> FrontAxis(absl::Span<const int64_t> shape,
                                 int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(const int front,
                            Axis(axis, static_cast<int>(shape.size())));
  return static_cast<size_t>(front);
}

absl::StatusOr<AxisSplit> SplitAlong(absl::Span<const int64_t> shape,
                                     int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t at, FrontAxis(shape, axis));
  return SplitAt(shape, static_cast<int>(at));
}

absl::StatusOr<AxisSplit> SplitAlong(const NDArray& tensor,
                                     const std::optional<int64_t>& axis) {
  if (axis.has_value()) return SplitAlong(tensor.shape(), *axis);
  return AxisSplit{1, CountOf(tensor), 1};
}

absl::Status RequireAxis(const Inputs& in, int64_t axis, int more) {
  const auto rank = RankOf(in);
  // A rank that is not known yet passes.
  if (!rank.has_value()) return absl::OkStatus();
  return Axis(axis, *rank + more).status();
}

}  // namespace nodewise
