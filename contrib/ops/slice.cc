#include "nodewise/ops/slice.h"

#include <algorithm>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// One side of a slice: `count` elements from `start` on.
struct Cut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

Cut CutOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  // Clamped steps still reach beyond the end, and do not overflow.
  step = std::clamp<int64_t>(step, -size - 1, size + 1);
  const int64_t low = step < 0 ? -1 : 0;
  const int64_t high = step < 0 ? size - 1 : size;
  const auto inside = [&](int64_t at, int64_t least) {
    return std::clamp(at < 0 ? at + size : at, least, std::max(least, high));
  };
  Cut cut{inside(start, 0), step, 0};
  const int64_t stop = inside(end, low);
  const int64_t way = step < 0 ? cut.start - stop : stop - cut.start;
  const int64_t stride = std::abs(step);
  if (way > 0 && size > 0) cut.count = (way + stride - 1) / stride;
  return cut;
}

// Starts, ends and axes were attributes until opset 10, which brought steps.
struct Slice : ops::Slice {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireSameType(in, 1), RequireIndex(in, 1)));
    for (size_t i = 1; i <= 4; ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 1));
      const Dim length = SideOf(in, i, 0);
      const Dim expected = SideOf(in, 1, 0);
      if (!UniteDims(length, expected).ok()) {
        return InputError(i, fmt::format("has {} elements, expected {}",
                                         length.size(), expected.size()));
      }
    }
    const auto steps = in.Ints(4);
    if (steps.has_value() && std::count(steps->begin(), steps->end(), 0) > 0) {
      return InputError(4, "has a step of 0");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
    const auto starts = PlacesOf(in, 1);
    const auto ends = PlacesOf(in, 2);
    const auto axes = AxesOf(in, *rank);
    if (!axes.ok()) return axes.status();
    if (!starts.has_value() || !ends.has_value() || !axes->has_value() ||
        (*axes)->size() != starts->size() || ends->size() != starts->size()) {
      return OneOutput(dtype, UnknownShape(*rank));
    }
    Shape steps(starts->size(), Dim(1));
    if (in.has(4)) {
      steps = PlacesOf(in, 4).value_or(Shape(starts->size()));
      steps.resize(starts->size());
    }
    Shape sides = *in.type(0).shape;
    std::optional<Shape> elements = KnownElements(in);
    for (size_t i = 0; i < starts->size(); ++i) {
      Dim& side = sides[static_cast<size_t>((**axes)[i])];
      const Dim& start = (*starts)[i];
      const Dim& end = (*ends)[i];
      if (elements.has_value())
        elements = CutElements(*elements, start, end, steps[i]);
      side = SideAfter(side, start, end, steps[i]);
    }
    return OneOutput(dtype, std::move(sides), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto starts, args.Ints(1));
    NODEWISE_ASSIGN_OR_RETURN(const auto ends, args.Ints(2));
    std::vector<int64_t> axes(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (args.has(3)) {
      NODEWISE_ASSIGN_OR_RETURN(axes, args.Ints(3));
    }
    std::vector<int64_t> steps(starts.size(), 1);
    if (args.has(4)) {
      NODEWISE_ASSIGN_OR_RETURN(steps, args.Ints(4));
    }
    const absl::Span<const int64_t> shape = args.shape(0);
    const std::vector<int64_t> strides = StridesOf(shape);
    StridedCopy plan;
    plan.sides.assign(y.shape().begin(), y.shape().end());
    plan.from_strides = strides;
    plan.to_strides = StridesOf(y.shape());
    for (size_t i = 0; i < starts.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const int axis,
                                Axis(axes[i], static_cast<int>(shape.size())));
      const auto at = static_cast<size_t>(axis);
      const Cut cut = CutOf(starts[i], ends[i], steps[i], shape[at]);
      plan.from += cut.start * strides[at];
      plan.from_strides[at] = strides[at] * cut.step;
    }
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }

 private:
  // The numbers of an input as far as they are known. The lowest number would
  // mean "unknown"; its neighbour has the same effect.
  static std::optional<Shape> PlacesOf(const Inputs& in, size_t i) {
    const auto ints = in.Ints(i);
    if (!ints.has_value()) return ShapeFromInput(in, i);
    Shape places;
    for (const int64_t place : *ints) {
      places.emplace_back(std::max(place, INT64_MIN + 1));
    }
    return places;
  }

  // The axes, if they are known.
  static absl::StatusOr<std::optional<std::vector<int>>> AxesOf(
      const Inputs& in, int rank) {
    std::vector<int64_t> axes;
    if (in.has(3)) {
      const auto given = in.Ints(3);
      if (!given.has_value()) return std::nullopt;
      axes = *given;
    } else {
      const Dim count = SideOf(in, 1, 0);
      if (!count.is_known()) return std::nullopt;
      if (count.size() > rank) {
        return InputError(1, fmt::format("has {} elements, but the rank is "
                                         "{}",
                                         count.size(), rank));
      }
      axes.resize(static_cast<size_t>(count.size()));
      std::iota(axes.begin(), axes.end(), 0);
    }
    auto all = Axes(axes, rank);
    if (!all.ok()) return InputError(3, std::string(MessageOf(all.status())));
    return *std::move(all);
  }

  static Dim SideAfter(const Dim& side, const Dim& start, const Dim& end,
                       const Dim& step) {
    // What stands for "to the end" where the side is not known.
    constexpr int64_t kNoEnd = INT32_MAX;
    if (!start.is_known() || !step.is_known()) return Dim();
    const bool is_whole = start == Dim(0) && step == Dim(1);
    if (is_whole && (end == side && !side.name().empty())) return side;
    if (!end.is_known()) return Dim();
    if (side.is_known()) {
      return CutOf(start.size(), end.size(), step.size(), side.size()).count;
    }
    if (is_whole && end.size() >= kNoEnd) return side;
    return Dim();
  }

  static std::optional<Shape> CutElements(const Shape& elements,
                                          const Dim& start, const Dim& end,
                                          const Dim& step) {
    if (!start.is_known() || !end.is_known() || !step.is_known()) {
      return std::nullopt;
    }
    const Cut cut = CutOf(start.size(), end.size(), step.size(),
                          static_cast<int64_t>(elements.size()));
    Shape rest;
    for (int64_t i = 0; i < cut.count; ++i) {
      rest.push_back(elements[static_cast<size_t>(cut.start + i * cut.step)]);
    }
    return rest;
  }
};

// Until opset 13 the lengths were an attribute; num_outputs came with 18.
struct Split : ops::Split {
  static constexpr auto Fields() {
    return FieldList(Field<&Split::axis>("axis"),
                     Field<&Split::num_outputs>("num_outputs"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1)));
    if (in.has(1) && num_outputs.has_value()) {
      return AttributeError("num_outputs",
                            "is given together with the input split");
    }
    const auto rank = RankOf(in);
    return rank.has_value() ? Axis(axis, *rank).status() : absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    TensorType type = in.type(0);
    if (num_outputs.has_value() &&
        *num_outputs != static_cast<int64_t>(count)) {
      return AttributeError(
          "num_outputs",
          fmt::format("is {}, but there are {} outputs", *num_outputs, count));
    }
    if (!type.has_rank()) return OutputInfos(count, type);
    NODEWISE_ASSIGN_OR_RETURN(const int front, Axis(axis, type.rank()));
    const auto at = static_cast<size_t>(front);
    NODEWISE_ASSIGN_OR_RETURN(const Shape parts,
                              Parts(in, (*type.shape)[at], count));
    OutputInfos infos;
    const std::optional<Shape> elements = KnownElements(in);
    int64_t begin = 0;
    for (const Dim& part : parts) {
      Shape sides = *type.shape;
      sides[at] = part;
      std::optional<Shape> own;
      const auto room = elements.has_value() && begin >= 0
                            ? static_cast<int64_t>(elements->size()) - begin
                            : -1;
      if (part.is_known() && part.size() <= room) {
        own.emplace(elements->begin() + begin,
                    elements->begin() + begin + part.size());
        begin += part.size();
      } else {
        begin = -1;
      }
      infos.push_back(OneOutput(type.dtype, std::move(sides), own)[0]);
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const int front, Axis(axis, static_cast<int>(args.shape(0).size())));
    const auto at = static_cast<size_t>(front);
    const std::vector<int64_t> strides = StridesOf(args.shape(0));
    int64_t begin = 0;
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      if (!args.is_inferred(i)) return args.MakeOutput(i).status();
      const std::vector<int64_t> sides = *args.inferred(i).sizes();
      if (args.wants(i)) {
        NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(i));
        CopyStrided({sides, strides, StridesOf(sides), begin * strides[at], 0},
                    args.in(0), y);
      }
      begin += sides[at];
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Shape> Parts(const Inputs& in, const Dim& side,
                              size_t count) const;
  absl::StatusOr<Shape> EqualParts(const Dim& side, size_t count) const;
};

absl::StatusOr<Shape> Split::Parts(const Inputs& in, const Dim& side,
                                   size_t count) const {
  if (!in.has(1)) return EqualParts(side, count);
  std::optional<Shape> parts = ShapeFromInput(in, 1);
  if (!parts.has_value()) return Shape(count);
  if (parts->size() != count) {
    return InputError(
        1, fmt::format("has {} lengths for {} outputs", parts->size(), count));
  }
  int64_t sum = 0;
  bool is_known = side.is_known();
  for (const Dim& part : *parts) {
    is_known &= part.is_known();
    if (!part.is_known()) continue;
    if (part.size() < 0 || __builtin_add_overflow(sum, part.size(), &sum)) {
      return InputError(1, fmt::format("has a length of {}", part.size()));
    }
  }
  if (side.is_known() &&
      (sum > side.size() || (is_known && sum < side.size()))) {
    return InputError(1, fmt::format("has lengths of {} together, expected "
                                     "{} as the side has",
                                     sum, side.size()));
  }
  return *std::move(parts);
}

absl::StatusOr<Shape> Split::EqualParts(const Dim& side, size_t count) const {
  Shape parts(count);
  if (count == 1) parts[0] = side;
  if (!side.is_known()) return parts;
  const auto n = static_cast<int64_t>(count);
  const int64_t part = (side.size() + n - 1) / n;
  const int64_t last = side.size() - part * (n - 1);
  const bool is_even = part * n == side.size();
  if (last < 0 || (!is_even && !num_outputs.has_value())) {
    return absl::InvalidArgumentError(fmt::format(
        "a side of {} does not split into {} parts", side.size(), n));
  }
  parts.assign(count, Dim(part));
  parts.back() = last;
  return parts;
}

struct Concat : ops::Concat {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Concat::axis>("axis"));
  }

  absl::Status Check(const Inputs& in) const {
    if (in.size() == 0) return absl::InvalidArgumentError("has no inputs");
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in.has(i)) return InputError(i, "is not given");
      const auto rank = RankOf(in, i);
      if (rank.has_value() && !Axis(axis, *rank).ok()) {
        return InputError(i,
                          std::string(MessageOf(Axis(axis, *rank).status())));
      }
    }
    return RequireSameType(in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    DLDataType dtype{};
    std::optional<Shape> shape;
    for (size_t i = 0; i < in.size(); ++i) {
      if (dtype.bits == 0) dtype = in.type(i).dtype;
      if (!shape.has_value() && in.type(i).has_rank()) shape = in.type(i).shape;
    }
    if (!shape.has_value()) return OneOutput(dtype, std::nullopt);
    NODEWISE_ASSIGN_OR_RETURN(const int front,
                              Axis(axis, static_cast<int>(shape->size())));
    const auto at = static_cast<size_t>(front);
    (*shape)[at] = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(Add(in, i, at, &*shape));
    }
    NODEWISE_RETURN_IF_ERROR(CheckShape(*shape));
    return OneOutput(dtype, std::move(shape), Elements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const int front,
                              Axis(axis, static_cast<int>(y.shape().size())));
    const auto at = static_cast<size_t>(front);
    const std::vector<int64_t> strides = StridesOf(y.shape());
    int64_t begin = 0;
    for (size_t i = 0; i < args.num_inputs(); ++i) {
      const absl::Span<const int64_t> shape = args.shape(i);
      CopyStrided({{shape.begin(), shape.end()},
                   StridesOf(shape),
                   strides,
                   0,
                   begin * strides[at]},
                  args.in(i), y);
      begin += shape[at];
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Add(const Inputs& in, size_t i, size_t at, Shape* sum) {
    if (!in.type(i).has_rank()) {
      (*sum)[at] = Dim();
      return absl::OkStatus();
    }
    const Shape& sides = *in.type(i).shape;
    if (sides.size() != sum->size()) {
      return InputError(i, fmt::format("has rank {}, expected {}", sides.size(),
                                       sum->size()));
    }
    for (size_t k = 0; k < sides.size(); ++k) {
      if (k == at) {
        (*sum)[k] = Plus((*sum)[k], sides[k]);
        continue;
      }
      const auto both = UniteDims((*sum)[k], sides[k]);
      if (!both.ok()) {
        return InputError(i, fmt::format("side {} is {}, expected {}", k,
                                         sides[k].size(), (*sum)[k].size()));
      }
      (*sum)[k] = *both;
    }
    return absl::OkStatus();
  }

  static std::optional<Shape> Elements(const Inputs& in) {
    Shape all;
    bool is_any_known = false;
    for (size_t i = 0; i < in.size(); ++i) {
      const Dim side = SideOf(in, i, 0);
      if (RankOf(in, i) != 1 || !side.is_known() ||
          side.size() > static_cast<int64_t>(kMostElements - all.size())) {
        return std::nullopt;
      }
      is_any_known |= in[i].elements != nullptr;
      const Shape own = KnownElements(in, i).value_or(
          Shape(static_cast<size_t>(side.size())));
      all.insert(all.end(), own.begin(), own.end());
    }
    if (!is_any_known) return std::nullopt;
    return all;
  }
};

struct Transpose : ops::Transpose {
  static constexpr auto Fields() {
    return FieldList(Field<&Transpose::perm>("perm"));
  }

  absl::Status Check(const Inputs& in) const {
    const auto rank = RankOf(in);
    const int expected = rank.value_or(static_cast<int>(perm.size()));
    if (perm.empty()) return absl::OkStatus();
    if (static_cast<int>(perm.size()) != expected) {
      return AttributeError("perm", fmt::format("has {} axes, expected {}",
                                                perm.size(), expected));
    }
    std::vector<bool> is_there(perm.size());
    for (const int64_t axis : perm) {
      if (axis < 0 || axis >= expected || is_there[static_cast<size_t>(axis)]) {
        return AttributeError("perm",
                              fmt::format("has axis {}, expected each of 0 to "
                                          "{} once",
                                          axis, expected - 1));
      }
      is_there[static_cast<size_t>(axis)] = true;
    }
    return absl::OkStatus();
  }
  OutputInfos Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) {
      if (perm.empty()) return OneOutput(dtype, std::nullopt);
      return OneOutput(dtype, Shape(perm.size()));
    }
    Shape sides;
    for (const size_t axis : Order(static_cast<size_t>(*rank))) {
      sides.push_back((*in.type(0).shape)[axis]);
    }
    return OneOutput(dtype, std::move(sides), KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<int64_t> strides = StridesOf(args.shape(0));
    StridedCopy plan;
    for (const size_t axis : Order(strides.size())) {
      plan.sides.push_back(args.shape(0)[axis]);
      plan.from_strides.push_back(strides[axis]);
    }
    plan.to_strides = StridesOf(y.shape());
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }

 private:
  std::vector<size_t> Order(size_t rank) const {
    std::vector<size_t> order(rank);
    for (size_t i = 0; i < rank; ++i) {
      order[i] = perm.empty() ? rank - 1 - i : static_cast<size_t>(perm[i]);
    }
    return order;
  }
};

constexpr OperatorDef kSliceRows[] = {
    Row<ops::Slice, Slice>(
        {.name = "Slice",
         .since = 1,
         .inputs = {"data", "starts", "ends", Optional("axes"),
                    Optional("steps")},
         .outputs = {"output"},
         .moved = {{"starts", 1, 10}, {"ends", 2, 10}, {"axes", 3, 10}}}),
    Row<ops::Split, Split>({.name = "Split",
                            .since = 2,
                            .inputs = {"input", Optional("split")},
                            .outputs = {Variadic("outputs")},
                            .moved = {{"split", 1, 13}}}),
    Row<ops::Concat, Concat>({.name = "Concat",
                              .since = 4,
                              .inputs = {Variadic("inputs")},
                              .outputs = {"concat_result"}}),
    Row<ops::Transpose, Transpose>({.name = "Transpose",
                                    .since = 1,
                                    .inputs = {"data"},
                                    .outputs = {"transposed"}}),
};

}  // namespace

absl::Span<const OperatorDef> SliceOperators() { return kSliceRows; }

}  // namespace nodewise
