#include "nodewise/ops/reshape.h"

#include <algorithm>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Numbers and names that a product of sides consists of.
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
    return absl::InvalidArgumentError(
        "-1 may be anything where the other sides multiply to 0");
  }
  if (!data.names.empty()) {
    const bool is_side = data.names.size() == 1 && data.number == target.number;
    return is_side ? Dim::Named(data.names[0]) : Dim();
  }
  if (data.number % target.number != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} elements do not divide by the other sides' {}",
                    data.number, target.number));
  }
  return data.number / target.number;
}

// Until opset 5 the shape was an attribute; allowzero came with 14.
struct Reshape : ops::Reshape {
  static constexpr auto Fields() {
    return FieldList(Field<&Reshape::allowzero>("allowzero"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    std::optional<Shape> shape = ShapeFromInput(in, 1);
    if (!shape.has_value()) return OneOutput(dtype, std::nullopt);
    const auto resolved = Resolve(in.type(0), *std::move(shape));
    if (!resolved.ok()) {
      return InputError(1, std::string(MessageOf(resolved.status())));
    }
    return OneOutput(dtype, *resolved, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }

 private:
  absl::StatusOr<Shape> Resolve(const TensorType& data, Shape shape) const;
  // Takes over the sides that 0 stands for. `is_kept`: the sides of the data
  // that are.
  absl::Status CopySides(const TensorType& data, Shape* shape,
                         std::vector<bool>* is_kept) const;
};

absl::Status Reshape::CopySides(const TensorType& data, Shape* shape,
                                std::vector<bool>* is_kept) const {
  for (size_t i = 0; i < shape->size(); ++i) {
    if ((*shape)[i] != Dim(0) || allowzero) continue;
    (*shape)[i] = Dim();
    if (!data.has_rank()) continue;
    if (i >= data.shape->size()) {
      return absl::InvalidArgumentError(
          fmt::format("0 at {}, but the data has rank {}", i, data.rank()));
    }
    (*shape)[i] = (*data.shape)[i];
    (*is_kept)[i] = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> Reshape::Resolve(const TensorType& data,
                                       Shape shape) const {
  std::optional<size_t> missing;
  bool has_zero = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    has_zero |= shape[i] == Dim(0);
    if (!shape[i].is_known() || shape[i].size() >= 0) continue;
    if (shape[i].size() != -1 || missing.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("is {}, expected no more than one -1 and nothing below",
                      ToString(shape)));
    }
    missing = i;
  }
  if (missing.has_value() && has_zero && allowzero) {
    return absl::InvalidArgumentError("has -1 and 0, allowzero being set");
  }
  std::vector<bool> is_kept(
      std::max(shape.size(), data.has_rank() ? data.shape->size() : 0));
  NODEWISE_RETURN_IF_ERROR(CopySides(data, &shape, &is_kept));
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
    return absl::InvalidArgumentError(
        fmt::format("is {}, which does not hold the data's shape {}",
                    ToString(shape), ToString(*data.shape)));
  }
  NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
  return shape;
}

struct Flatten : ops::Flatten {
  static constexpr auto Fields() {
    return FieldList(Field<&Flatten::axis>("axis"));
  }

  absl::Status Check(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value() || axis == *rank) return absl::OkStatus();
    return Axis(axis, *rank).status();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OneOutput(dtype, UnknownShape(2));
    const Shape& sides = *in.type(0).shape;
    const auto at = static_cast<size_t>(axis < 0 ? axis + *rank : axis);
    return OneOutput(dtype, Shape{ProductOf(sides, 0, at),
                                  ProductOf(sides, at, sides.size())});
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }
};

// Until opset 13 the axes were an attribute.
struct Squeeze : ops::Squeeze {
  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
    const Shape& sides = *in.type(0).shape;
    std::vector<bool> goes(sides.size());
    if (in.has(1)) {
      const auto axes = in.Ints(1);
      if (!axes.has_value()) return OneOutput(dtype, WithUnknownAxes(in));
      NODEWISE_ASSIGN_OR_RETURN(const auto all, Axes(*axes, *rank));
      for (const int axis : all) goes[static_cast<size_t>(axis)] = true;
    } else {
      for (size_t i = 0; i < sides.size(); ++i) {
        if (!sides[i].is_known()) return OneOutput(dtype, std::nullopt);
        goes[i] = sides[i] == Dim(1);
      }
    }
    Shape rest;
    for (size_t i = 0; i < sides.size(); ++i) {
      if (!goes[i]) {
        rest.push_back(sides[i]);
      } else if (sides[i].is_known() && sides[i] != Dim(1)) {
        return InputError(
            0, fmt::format("side {} is {}, expected 1", i, sides[i].size()));
      }
    }
    return OneOutput(dtype, rest, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }

 private:
  static std::optional<Shape> WithUnknownAxes(const Inputs& in) {
    const Dim count = SideOf(in, 1, 0);
    const int rank = in.type(0).rank();
    if (!count.is_known() || count.size() > rank) return std::nullopt;
    return UnknownShape(rank - static_cast<int>(count.size()));
  }
};

// Until opset 13 the axes were an attribute.
struct Unsqueeze : ops::Unsqueeze {
  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    const auto axes = in.Ints(1);
    const Dim count = axes.has_value() ? Dim(static_cast<int64_t>(axes->size()))
                                       : SideOf(in, 1, 0);
    constexpr int64_t kMostRank = 64;
    if (!rank.has_value() || !count.is_known()) {
      return OneOutput(dtype, std::nullopt);
    }
    if (*rank + count.size() > kMostRank) {
      return InputError(1, fmt::format("makes rank {}, expected {} at most",
                                       *rank + count.size(), kMostRank));
    }
    const int after = *rank + static_cast<int>(count.size());
    if (!axes.has_value()) return OneOutput(dtype, UnknownShape(after));
    NODEWISE_ASSIGN_OR_RETURN(const auto all, Axes(*axes, after));
    Shape sides(static_cast<size_t>(after));
    for (const int axis : all) sides[static_cast<size_t>(axis)] = 1;
    size_t next = 0;
    for (size_t i = 0; i < sides.size(); ++i) {
      const bool is_new =
          std::find(all.begin(), all.end(), static_cast<int>(i)) != all.end();
      if (!is_new) sides[i] = (*in.type(0).shape)[next++];
    }
    return OneOutput(dtype, sides, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const { return ViewAsInferred(args); }
};

struct Identity : ops::Identity {
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return OneOutput(in.type(0).dtype, in.type(0).shape, KnownElements(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
};

struct Expand : ops::Expand {
  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto target = ShapeFromInput(in, 1);
    if (!in.type(0).has_rank() || !target.has_value()) {
      return OneOutput(dtype, std::nullopt);
    }
    const Shape shapes[] = {*in.type(0).shape, *target};
    NODEWISE_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(shapes));
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    std::optional<Shape> elements = Elements(in, shape);
    return OneOutput(dtype, std::move(shape), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const absl::Span<const int64_t> from = args.shape(0);
    const size_t skipped = y.shape().size() - from.size();
    const std::vector<int64_t> strides = StridesOf(from);
    StridedCopy plan;
    plan.sides.assign(y.shape().begin(), y.shape().end());
    plan.to_strides = StridesOf(y.shape());
    plan.from_strides.assign(plan.sides.size(), 0);
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != 1) plan.from_strides[skipped + i] = strides[i];
    }
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }

 private:
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

// `start` and `end` came with opset 15.
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
    const int64_t first = clamp(start);
    const int64_t last = std::max(first, clamp(end.value_or(rank)));
    return OneOutput(kInt64, Shape{last - first},
                     Shape(sides.begin() + first, sides.begin() + last));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto rank = static_cast<int64_t>(args.shape(0).size());
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

constexpr OperatorDef kReshapeRows[] = {
    Row<ops::Reshape, Reshape>({.name = "Reshape",
                                .since = 1,
                                .inputs = {"data", "shape"},
                                .outputs = {"reshaped"},
                                .moved = {{"shape", 1, 5}}}),
    Row<ops::Flatten, Flatten>({.name = "Flatten",
                                .since = 1,
                                .inputs = {"input"},
                                .outputs = {"output"}}),
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
    Row<ops::Identity, Identity>({.name = "Identity",
                                  .since = 1,
                                  .inputs = {"input"},
                                  .outputs = {"output"}}),
    Row<ops::Expand, Expand>({.name = "Expand",
                              .since = 8,
                              .inputs = {"input", "shape"},
                              .outputs = {"output"}}),
    Row<ops::Shape, ShapeOf>({.name = "Shape",
                              .since = 1,
                              .inputs = {"data"},
                              .outputs = {"shape"}}),
    Row<ops::Size, Size>(
        {.name = "Size", .since = 1, .inputs = {"data"}, .outputs = {"size"}}),
};

}  // namespace

absl::Span<const OperatorDef> ReshapeOperators() { return kReshapeRows; }

}  // namespace nodewise
