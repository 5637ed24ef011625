#include "nodewise/ops/layout.h"

#include <algorithm>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Numbers and names that a product of sides consists of. A side that is known
// by its name only can still be cancelled against the same name, so that -1 in
// a target shape keeps a batch size that is not known yet.
struct SideProduct {
  int64_t number = 1;
  std::vector<std::string> names;
  bool is_unknown = false;  // A side without a name is in it.

  void Multiply(const Dim& side) {
    if (side.is_known()) {
      is_unknown |= __builtin_mul_overflow(number, side.size(), &number);
    } else if (side.name().empty()) {
      is_unknown = true;
    } else {
      names.push_back(side.name());
    }
  }
};

// Returns what -1 stands for, given the remaining sides of data and target.
absl::StatusOr<Dim> MissingSide(SideProduct data, const SideProduct& target) {
  for (const std::string& name : target.names) {
    const auto found = std::find(data.names.begin(), data.names.end(), name);
    if (found == data.names.end()) return Dim();
    data.names.erase(found);
  }
  if (data.is_unknown || target.is_unknown) return Dim();
  if (target.number == 0) {
    return InvalidArgument(
        "-1 may be anything where the other sides multiply to 0");
  }
  // A single name that is left is the side, unless a number is left beside it.
  if (!data.names.empty()) {
    const bool is_side = data.names.size() == 1 && data.number == target.number;
    return is_side ? Dim::Named(data.names[0]) : Dim();
  }
  if (data.number % target.number != 0) {
    return InvalidArgument("{} elements do not divide by the other sides' {}",
                           data.number, target.number);
  }
  return data.number / target.number;
}

absl::Status CheckTarget(const Inputs& in) {
  return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1));
}

// The axes may be one number of rank 0, too.
absl::Status CheckAxes(const Inputs& in) {
  return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1));
}

// Until opset 5 the shape was an attribute; allowzero came with 14.
struct Reshape : ops::Reshape {
  static constexpr auto Fields() {
    return FieldList(Field<&Reshape::allowzero>("allowzero"));
  }

  absl::Status Check(const Inputs& in) const { return CheckTarget(in); }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    std::optional<Shape> shape = ShapeFromInput(in, 1);
    if (!shape.has_value()) return OfInputType(in);
    const auto resolved = Resolve(in.type(0), *std::move(shape));
    if (!resolved.ok()) return AtInput(1, resolved.status());
    return OfInputType(in, *resolved, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }

 private:
  // Returns the target shape with the sides that -1 and 0 stand for.
  absl::StatusOr<Shape> Resolve(const TensorType& data, Shape shape) const {
    // The place of -1, of which there is at most one.
    std::optional<size_t> missing;
    bool has_zero = false;
    for (size_t i = 0; i < shape.size(); ++i) {
      has_zero |= shape[i] == Dim(0);
      if (!shape[i].is_known() || shape[i].size() >= 0) continue;
      if (shape[i].size() != -1 || missing.has_value()) {
        return InvalidArgument(
            "is {}, expected no more than one -1 and nothing below",
            ToString(shape));
      }
      missing = i;
    }
    // Beside a side that is really 0, any size would do for -1.
    if (missing.has_value() && has_zero && allowzero) {
      return InvalidArgument("has -1 and 0, allowzero being set");
    }
    std::vector<bool> is_kept(
        std::max(shape.size(), data.has_rank() ? data.shape->size() : 0));
    NODEWISE_RETURN_IF_ERROR(CopySides(data, &shape, &is_kept));
    // Sides that 0 stands for are on both sides of the equation, so they are
    // left out of it: they may be unknown.
    SideProduct from;
    SideProduct to;
    from.is_unknown = !data.has_rank();
    for (size_t i = 0; data.has_rank() && i < data.shape->size(); ++i) {
      if (!is_kept[i]) from.Multiply((*data.shape)[i]);
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!is_kept[i] && i != missing) to.Multiply(shape[i]);
    }
    if (missing.has_value()) {
      // A side that is kept may be 0, and then anything fits.
      for (size_t i = 0; i < is_kept.size(); ++i) {
        if (is_kept[i] && shape[i] == Dim(0)) to.number = 0;
      }
      NODEWISE_ASSIGN_OR_RETURN(shape[*missing], MissingSide(from, to));
    } else if (!from.is_unknown && !to.is_unknown && from.names.empty() &&
               to.names.empty() && from.number != to.number) {
      return InvalidArgument("is {}, which does not hold the data's shape {}",
                             ToString(shape), ToString(*data.shape));
    }
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    return shape;
  }
  // `is_kept` marks the sides of the data that a 0 in the target stands for.
  absl::Status CopySides(const TensorType& data, Shape* shape,
                         std::vector<bool>* is_kept) const {
    for (size_t i = 0; i < shape->size(); ++i) {
      if ((*shape)[i] != Dim(0) || allowzero) continue;
      (*shape)[i] = Dim();
      if (!data.has_rank()) continue;
      if (i >= data.shape->size()) {
        return InvalidArgument("0 at {}, but the data has rank {}", i,
                               data.rank());
      }
      (*shape)[i] = (*data.shape)[i];
      (*is_kept)[i] = true;
    }
    return absl::OkStatus();
  }
};

// An axis that is the rank itself is allowed: then the second side is an empty
// product.
struct Flatten : WithAxis<ops::Flatten> {
  absl::Status Check(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value() || axis == *rank) return absl::OkStatus();
    return RequireAxis(in, axis);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in, UnknownShape(2));
    const Shape& sides = *in.type(0).shape;
    const auto at = static_cast<size_t>(axis < 0 ? axis + *rank : axis);
    return OfInputType(
        in, Shape{ProductOf(sides, 0, at), ProductOf(sides, at, sides.size())});
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }
};

// Squeeze and Unsqueeze, like Reshape, only give the data other sides: the
// result shares the memory of the input (ViewAsInferred). Until opset 13 the
// axes were an attribute of both.
struct Squeeze : ops::Squeeze {
  absl::Status Check(const Inputs& in) const { return CheckAxes(in); }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    const Shape& sides = *in.type(0).shape;
    std::vector<bool> goes(sides.size());
    if (in.has(1)) {
      const auto axes = in.Ints(1);
      if (!axes.has_value()) return OfInputType(in, WithUnknownAxes(in));
      NODEWISE_ASSIGN_OR_RETURN(const auto all, Axes(*axes, *rank));
      for (const int axis : all) goes[static_cast<size_t>(axis)] = true;
    } else {
      // Even the rank is open as long as a side may turn out to be 1.
      for (size_t i = 0; i < sides.size(); ++i) {
        if (!sides[i].is_known()) return OfInputType(in);
        goes[i] = sides[i] == Dim(1);
      }
    }
    Shape rest;
    for (size_t i = 0; i < sides.size(); ++i) {
      if (!goes[i]) {
        rest.push_back(sides[i]);
      } else if (sides[i].is_known() && sides[i] != Dim(1)) {
        return WrongInput(0, "side {} is {}, expected 1", i, sides[i].size());
      }
    }
    return OfInputType(in, rest, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }

 private:
  // Even axes that are not known say how many sides are left, if their number
  // is known.
  static std::optional<Shape> WithUnknownAxes(const Inputs& in) {
    const Dim count = SideOf(in, 1, 0);
    const int rank = in.type(0).rank();
    if (!count.is_known() || count.size() > rank) return std::nullopt;
    return UnknownShape(rank - static_cast<int>(count.size()));
  }
};

// The axes are those of the result, so they are counted in its rank.
struct Unsqueeze : ops::Unsqueeze {
  absl::Status Check(const Inputs& in) const { return CheckAxes(in); }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    const auto axes = in.Ints(1);
    const Dim count = axes.has_value() ? Dim(static_cast<int64_t>(axes->size()))
                                       : SideOf(in, 1, 0);
    // Far beyond any model, and small enough for an int.
    constexpr int64_t kMostRank = 64;
    if (!rank.has_value() || !count.is_known()) return OfInputType(in);
    if (*rank + count.size() > kMostRank) {
      return WrongInput(1, "makes rank {}, expected {} at most",
                        *rank + count.size(), kMostRank);
    }
    const int after = *rank + static_cast<int>(count.size());
    if (!axes.has_value()) return OfInputType(in, UnknownShape(after));
    NODEWISE_ASSIGN_OR_RETURN(const auto all, Axes(*axes, after));
    Shape sides;
    auto next = in.type(0).shape->begin();
    for (int i = 0; i < after; ++i) {
      // The sides of the data fill the places that the axes leave.
      const bool is_new = std::ranges::find(all, i) != all.end();
      sides.push_back(is_new ? Dim(1) : *next++);
    }
    return OfInputType(in, sides, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }
};

struct Identity : ops::Identity {
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return OfInputType(in, in.type(0).shape, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
};

struct Expand : ops::Expand {
  absl::Status Check(const Inputs& in) const { return CheckTarget(in); }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto target = ShapeFromInput(in, 1);
    if (!in.type(0).has_rank() || !target.has_value()) return OfInputType(in);
    const Shape shapes[] = {*in.type(0).shape, *target};
    // Both shapes are repeated over each other, as by NumPy.
    NODEWISE_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(shapes));
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    std::optional<Shape> elements = Elements(in, shape);
    return OfInputType(in, std::move(shape), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const absl::Span<const int64_t> from = args.shape(0);
    const auto to = y.shape();
    // The input has the last sides of the output; a stride of 0 repeats it
    // along the others, and where its own side is 1.
    const size_t skipped = to.size() - from.size();
    const std::vector<int64_t> strides = StridesOf(from);
    StridedCopy plan{
        {to.begin(), to.end()}, std::vector<int64_t>(to.size()), StridesOf(to)};
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != 1) plan.from_strides[skipped + i] = strides[i];
    }
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }

 private:
  // A list that is repeated to a known length is still known.
  static std::optional<Shape> Elements(const Inputs& in, const Shape& shape) {
    auto known = KnownElements(in);
    if (!known.has_value() || shape.size() > 1) return std::nullopt;
    if (shape.empty()) return known;
    if (!shape[0].is_known()) return std::nullopt;
    const auto count = static_cast<size_t>(shape[0].size());
    if (count == known->size()) return known;
    if (known->size() != 1 || count > kMostElements) return std::nullopt;
    return Shape(count, (*known)[0]);
  }
};

// `start` and `end` came with opset 15. The elements of the output are passed
// on as far as they are known, with the names of those that are not: all
// calculations with shapes begin here.
struct ShapeOf : ops::Shape {
  using Shape = nodewise::Shape;
  static constexpr auto Fields() {
    return FieldList(Field<&ShapeOf::start>("start"),
                     Field<&ShapeOf::end>("end"));
  }

  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    if (!in.type(0).has_rank()) return OneOutput(kInt64, UnknownShape(1));
    const Shape& sides = *in.type(0).shape;
    const int64_t rank = in.type(0).rank();
    const auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    // An end in front of the start makes an empty list.
    const int64_t first = clamp(start);
    const int64_t last = std::max(first, clamp(end.value_or(rank)));
    return OneOutput(kInt64, Shape{last - first},
                     Shape(sides.begin() + first, sides.begin() + last));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto rank = static_cast<int64_t>(args.shape(0).size());
    // How many sides are copied is known from the output, so only the start is
    // calculated again.
    const int64_t from = start < 0 ? start + rank : start;
    const int64_t first = std::clamp<int64_t>(from, 0, rank);
    const auto sides = args.shape(0).subspan(static_cast<size_t>(first));
    std::copy_n(sides.begin(), CountOf(y), y.As<int64_t>());
    return absl::OkStatus();
  }
};

struct Size : ops::Size {
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    if (!in.type(0).has_rank()) return OneOutput(kInt64, Shape());
    const Shape& sides = *in.type(0).shape;
    return OneOutput(kInt64, Shape(), Shape{ProductOf(sides, 0, sides.size())});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    *y.As<int64_t>() = CountOf(args.in(0));
    return absl::OkStatus();
  }
};

struct Cut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Starts and ends count from the end if they are below 0, and are moved inside
// where they are beyond; backwards the element before the first one is an end.
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
        return WrongInput(i, "has {} elements, expected {}", length.size(),
                          expected.size());
      }
    }
    const auto steps = in.Ints(4);
    if (steps.has_value() && std::count(steps->begin(), steps->end(), 0) > 0) {
      return InputError(4, "has a step of 0");
    }
    return absl::OkStatus();
  }
  // Each axis is cut by itself, as far as its numbers are known. The elements
  // of a list, which are sides of a shape as a rule, are cut in the same way.
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    const auto starts = PlacesOf(in, 1);
    const auto ends = PlacesOf(in, 2);
    NODEWISE_ASSIGN_OR_RETURN(const auto axes, AxesOf(in, *rank));
    if (!starts.has_value() || !ends.has_value() || !axes.has_value() ||
        axes->size() != starts->size() || ends->size() != starts->size()) {
      return OfInputType(in, UnknownShape(*rank));
    }
    // Steps that are not known leave the side unknown.
    Shape steps(starts->size(), Dim(1));
    if (in.has(4)) {
      steps = PlacesOf(in, 4).value_or(Shape(starts->size()));
      steps.resize(starts->size());
    }
    Shape sides = *in.type(0).shape;
    std::optional<Shape> elements = KnownElements(in);
    // An axis that comes twice has been refused by Axes().
    for (size_t i = 0; i < starts->size(); ++i) {
      Dim& side = sides[static_cast<size_t>((*axes)[i])];
      const Dim& start = (*starts)[i];
      const Dim& end = (*ends)[i];
      if (elements.has_value())
        elements = CutElements(*elements, start, end, steps[i]);
      side = SideAfter(side, start, end, steps[i]);
    }
    return OfInputType(in, std::move(sides), std::move(elements));
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
    // The output is filled from its beginning; in the input each axis begins at
    // its cut and goes on by its step, backwards too.
    StridedCopy plan{
        {y.shape().begin(), y.shape().end()}, strides, StridesOf(y.shape())};
    for (size_t i = 0; i < starts.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const size_t at, FrontAxis(shape, axes[i]));
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
        return WrongInput(1, "has {} elements, but the rank is {}",
                          count.size(), rank);
      }
      axes.resize(static_cast<size_t>(count.size()));
      std::iota(axes.begin(), axes.end(), 0);
    }
    auto all = Axes(axes, rank);
    if (!all.ok()) return AtInput(3, all.status());
    return *std::move(all);
  }

  // Returns how long a side is after the cut, as far as that follows from what
  // is known: a name stays where the whole side does.
  static Dim SideAfter(const Dim& side, const Dim& start, const Dim& end,
                       const Dim& step) {
    // This, and all above, stands for "to the end" where the side is not known.
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
    return RequireAxis(in, axis);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    TensorType type = in.type(0);
    if (num_outputs.has_value() &&
        *num_outputs != static_cast<int64_t>(count)) {
      return WrongAttribute("num_outputs", "is {}, but there are {} outputs",
                            *num_outputs, count);
    }
    if (!type.has_rank()) return OutputInfos(count, type);
    NODEWISE_ASSIGN_OR_RETURN(const int front, Axis(axis, type.rank()));
    const auto at = static_cast<size_t>(front);
    NODEWISE_ASSIGN_OR_RETURN(const Shape parts,
                              Parts(in, (*type.shape)[at], count));
    OutputInfos infos;
    const std::optional<Shape> elements = KnownElements(in);
    // Where the elements of the next part begin; -1 behind a part whose length
    // is not known.
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
    NODEWISE_ASSIGN_OR_RETURN(const size_t at, FrontAxis(args.shape(0), axis));
    const std::vector<int64_t> strides = StridesOf(args.shape(0));
    int64_t begin = 0;
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      // MakeOutput() has the words for a type that is not known.
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
                              size_t count) const {
    if (!in.has(1)) return EqualParts(side, count);
    std::optional<Shape> parts = ShapeFromInput(in, 1);
    if (!parts.has_value()) return Shape(count);
    if (parts->size() != count) {
      return WrongInput(1, "has {} lengths for {} outputs", parts->size(),
                        count);
    }
    // The lengths that are known must fit into the side, and fill it if all
    // are.
    int64_t sum = 0;
    bool is_known = side.is_known();
    for (const Dim& part : *parts) {
      is_known &= part.is_known();
      if (!part.is_known()) continue;
      if (part.size() < 0 || __builtin_add_overflow(sum, part.size(), &sum)) {
        return WrongInput(1, "has a length of {}", part.size());
      }
    }
    if (side.is_known() &&
        (sum > side.size() || (is_known && sum < side.size()))) {
      return WrongInput(
          1, "has lengths of {} together, expected {} as the side has", sum,
          side.size());
    }
    return *std::move(parts);
  }
  // Only with num_outputs may the last part be shorter than the others.
  absl::StatusOr<Shape> EqualParts(const Dim& side, size_t count) const {
    Shape parts(count);
    if (count == 1) parts[0] = side;
    if (!side.is_known()) return parts;
    const auto n = static_cast<int64_t>(count);
    // Rounded up, so that only the last part can be shorter.
    const int64_t part = (side.size() + n - 1) / n;
    const int64_t last = side.size() - part * (n - 1);
    const bool is_even = part * n == side.size();
    if (last < 0 || (!is_even && !num_outputs.has_value())) {
      return InvalidArgument("a side of {} does not split into {} parts",
                             side.size(), n);
    }
    parts.assign(count, Dim(part));
    parts.back() = last;
    return parts;
  }
};

// Inputs are copied one after the other, each with its own strides on the one
// side and those of the output on the other.
struct Concat : ops::Concat {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Concat::axis>("axis"));
  }

  // The row alone would allow no input at all.
  absl::Status Check(const Inputs& in) const {
    if (in.size() == 0) return InvalidArgument("has no inputs");
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in.has(i)) return InputError(i, "is not given");
      const auto rank = RankOf(in, i);
      if (!rank.has_value()) continue;
      NODEWISE_RETURN_IF_ERROR(AtInput(i, Axis(axis, *rank).status()));
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
    // The first shape that is known is the pattern for all; its side at the
    // axis is added up anew.
    (*shape)[at] = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(Add(in, i, at, &*shape));
    }
    NODEWISE_RETURN_IF_ERROR(CheckShape(*shape));
    return OneOutput(dtype, std::move(shape), Elements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const size_t at, FrontAxis(y.shape(), axis));
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
  // Adds side `at` of an input, and learns the other sides from it.
  static absl::Status Add(const Inputs& in, size_t i, size_t at, Shape* sum) {
    if (!in.type(i).has_rank()) {
      (*sum)[at] = Dim();
      return absl::OkStatus();
    }
    const Shape& sides = *in.type(i).shape;
    if (sides.size() != sum->size()) {
      return WrongInput(i, "has rank {}, expected {}", sides.size(),
                        sum->size());
    }
    for (size_t k = 0; k < sides.size(); ++k) {
      if (k == at) {
        (*sum)[k] = Plus((*sum)[k], sides[k]);
        continue;
      }
      const auto both = UniteDims((*sum)[k], sides[k]);
      if (!both.ok()) {
        return WrongInput(i, "side {} is {}, expected {}", k, sides[k].size(),
                          (*sum)[k].size());
      }
      (*sum)[k] = *both;
    }
    return absl::OkStatus();
  }

  // Joins the elements of lists; those of a list that has none are unknown, as
  // long as its length is not.
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

// A list stays as it is, so that its elements can be passed on. CopyStrided()
// walks both tensors in tiles where their last sides differ.
struct Transpose : ops::Transpose {
  static constexpr auto Fields() {
    return FieldList(Field<&Transpose::perm>("perm"));
  }

  absl::Status Check(const Inputs& in) const {
    const auto rank = RankOf(in);
    const int expected = rank.value_or(static_cast<int>(perm.size()));
    if (perm.empty()) return absl::OkStatus();
    if (static_cast<int>(perm.size()) != expected) {
      return WrongAttribute("perm", "has {} axes, expected {}", perm.size(),
                            expected);
    }
    std::vector<bool> is_there(perm.size());
    for (const int64_t axis : perm) {
      if (axis < 0 || axis >= expected || is_there[static_cast<size_t>(axis)]) {
        return WrongAttribute("perm",
                              "has axis {}, expected each of 0 to {} once",
                              axis, expected - 1);
      }
      is_there[static_cast<size_t>(axis)] = true;
    }
    return absl::OkStatus();
  }
  OutputInfos Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) {
      if (perm.empty()) return OfInputType(in);
      return OfInputType(in, Shape(perm.size()));
    }
    Shape sides;
    for (const size_t axis : Order(static_cast<size_t>(*rank))) {
      sides.push_back((*in.type(0).shape)[axis]);
    }
    return OfInputType(in, std::move(sides), KnownElements(in));
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

constexpr OperatorDef kLayoutRows[] = {
    Row<ops::Reshape, Reshape>({.name = "Reshape",
                                .since = 1,
                                .inputs = {"data", "shape"},
                                .outputs = {"reshaped"},
                                .moved = {{"shape", 1, 5}}}),
    Row<ops::Flatten, Flatten>("Flatten", 1, {"input"}, {"output"}),
    Row<ops::Squeeze, Squeeze>({.name = "Squeeze",
                                .since = 1,
                                .inputs = {"data", Optional("axes")},
                                .outputs = {"squeezed"},
                                .moved = {{"axes", 1, 13}}}),
    Row<ops::Unsqueeze, Unsqueeze>({.name = "Unsqueeze",
                                    .since = 1,
                                    .inputs = {"data", "axes"},
                                    .outputs = {"expanded"},
                                    .moved = {{"axes", 1, 13}}}),
    Row<ops::Identity, Identity>("Identity", 1, {"input"}, {"output"}),
    Row<ops::Expand, Expand>("Expand", 8, {"input", "shape"}, {"output"}),
    Row<ops::Shape, ShapeOf>("Shape", 1, {"data"}, {"shape"}),
    Row<ops::Size, Size>("Size", 1, {"data"}, {"size"}),
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
    Row<ops::Concat, Concat>("Concat", 4, {Variadic("inputs")},
                             {"concat_result"}),
    Row<ops::Transpose, Transpose>("Transpose", 1, {"data"}, {"transposed"}),
};

}  // namespace

absl::Span<const OperatorDef> LayoutOperators() { return kLayoutRows; }

}  // namespace nodewise
