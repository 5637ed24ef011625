#include "nodewise/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/resize_taps.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

using ops::AspectRatio;
using ops::CoordinateRule;
using ops::Interpolation;
using ops::NearestRule;
template <>
struct Words<NearestRule> {
  static constexpr std::pair<NearestRule, std::string_view> kAll[] = {
      {NearestRule::kPreferFloor, "round_prefer_floor"},
      {NearestRule::kPreferCeil, "round_prefer_ceil"},
      {NearestRule::kFloor, "floor"},
      {NearestRule::kCeil, "ceil"}};
};
template <>
struct Words<CoordinateRule> {
  static constexpr std::pair<CoordinateRule, std::string_view> kAll[] = {
      {CoordinateRule::kHalfPixel, "half_pixel"},
      {CoordinateRule::kHalfPixelSymmetric, "half_pixel_symmetric"},
      {CoordinateRule::kPytorchHalfPixel, "pytorch_half_pixel"},
      {CoordinateRule::kAlignCorners, "align_corners"},
      {CoordinateRule::kAsymmetric, "asymmetric"},
      {CoordinateRule::kTfHalfPixelForNn, "tf_half_pixel_for_nn"},
      {CoordinateRule::kTfCropAndResize, "tf_crop_and_resize"}};
};
template <>
struct Words<AspectRatio> {
  static constexpr std::pair<AspectRatio, std::string_view> kAll[] = {
      {AspectRatio::kStretch, "stretch"},
      {AspectRatio::kNotLarger, "not_larger"},
      {AspectRatio::kNotSmaller, "not_smaller"}};
};

namespace {

// Returns the length of a side; kInvalidArgument if it is impossible.
absl::StatusOr<int64_t> LengthOf(double length) {
  constexpr double kMost = 0x1p62;
  if (length >= 0 && length < kMost) return static_cast<int64_t>(length);
  return absl::InvalidArgumentError(
      fmt::format("makes a side of {:g} elements", length));
}

// Calculates a side as exporters and shape inference do: the product is a
// float, so that 0.7 of 10 is 7.
absl::StatusOr<ResizedSide> ScaledSide(int64_t size, double scale,
                                       double share) {
  if (!(scale > 0)) {
    return absl::InvalidArgumentError(
        fmt::format("a scale of {:g}, expected one above 0", scale));
  }
  ResizedSide side;
  side.in = size;
  side.scale = scale;
  const float length = static_cast<float>(size) * static_cast<float>(share) *
                       static_cast<float>(scale);
  side.length = static_cast<double>(length);
  NODEWISE_ASSIGN_OR_RETURN(side.out, LengthOf(std::floor(side.length)));
  return side;
}

ResizedSide SameSide(int64_t size) {
  ResizedSide side;
  side.in = side.out = size;
  side.length = static_cast<double>(size);
  return side;
}

// Sides by scales alone: Upsample, and Resize in opset 10.
absl::StatusOr<std::vector<ResizedSide>> ScaledSides(
    absl::Span<const int64_t> shape, absl::Span<const double> numbers) {
  if (numbers.size() != shape.size()) {
    return InputError(1, fmt::format("has {} scales for {} sides",
                                     numbers.size(), shape.size()));
  }
  std::vector<ResizedSide> sides;
  for (size_t i = 0; i < shape.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(sides.emplace_back(),
                              ScaledSide(shape[i], numbers[i], 1));
  }
  return sides;
}

absl::StatusOr<OutputInfos> InferScaled(const Inputs& in) {
  const DLDataType dtype = in.type(0).dtype;
  const auto rank = RankOf(in);
  if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
  const NDArray* const scales = in[1].constant;
  if (scales == nullptr) return OneOutput(dtype, UnknownShape(*rank));
  const std::vector<double> numbers = ToDoubles(*scales);
  if (numbers.size() != static_cast<size_t>(*rank)) {
    return InputError(
        1, fmt::format("has {} scales for {} sides", numbers.size(), *rank));
  }
  Shape shape = *in.type(0).shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_known()) {
      if (numbers[i] != 1) shape[i] = Dim();
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const ResizedSide side,
                              ScaledSide(shape[i].size(), numbers[i], 1));
    shape[i] = side.out;
  }
  NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
  return OneOutput(dtype, std::move(shape));
}

ResizeRule RuleOfScales(Interpolation mode) {
  ResizeRule rule;
  rule.mode = mode;
  rule.nearest = std::nullopt;
  rule.coordinates = CoordinateRule::kAsymmetric;
  return rule;
}

absl::Status EvaluateScaled(Interpolation mode, EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides,
                            ScaledSides(args.shape(0), ToDoubles(args.in(1))));
  return ResizeSides(RuleOfScales(mode), sides, args);
}

std::vector<ops::SideTaps> TapsOfSides(const ResizeRule& rule,
                                       const std::vector<ResizedSide>& sides) {
  std::vector<ops::SideTaps> taps;
  for (const ResizedSide& side : sides) taps.push_back(MakeTaps(rule, side));
  return taps;
}

// The scales were an attribute until opset 9.
template <typename Class>
struct Scaled : Class {
  using Class::mode;
  static constexpr auto Fields() {
    return FieldList(Field<&Class::mode>("mode"));
  }

  absl::Status Check(const Inputs& in) const {
    if (mode == Interpolation::kCubic) {
      return AttributeError("mode", "is cubic, which came with opset 11");
    }
    return All(RequireType(in, 1, kFloat32), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferScaled(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateScaled(mode, args);
  }
};

// antialias, axes and keep_aspect_ratio_policy came with opset 18.
struct Resize : ops::Resize {
  static constexpr auto Fields() {
    return FieldList(
        Field<&Resize::antialias>("antialias"), Field<&Resize::axes>("axes"),
        Field<&Resize::coordinate_transformation_mode>(
            "coordinate_transformation_mode"),
        Field<&Resize::cubic_coeff_a>("cubic_coeff_a"),
        Field<&Resize::exclude_outside>("exclude_outside"),
        Field<&Resize::extrapolation_value>("extrapolation_value"),
        Field<&Resize::keep_aspect_ratio_policy>("keep_aspect_ratio_policy"),
        Field<&Resize::mode>("mode"),
        Field<&Resize::nearest_mode>("nearest_mode"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 1), RequireType(in, 2, kFloat32),
               RequireType(in, 3, kInt64), RequireRank(in, 1, 1),
               RequireRank(in, 2, 1), RequireRank(in, 3, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const;
  ResizeRule Rule() const {
    ResizeRule rule;
    rule.mode = mode;
    rule.nearest = nearest_mode;
    rule.coordinates = coordinate_transformation_mode;
    rule.cubic_coeff_a = static_cast<double>(cubic_coeff_a);
    rule.exclude_outside = exclude_outside;
    rule.antialias = antialias;
    rule.extrapolation_value = static_cast<double>(extrapolation_value);
    return rule;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    ops::ResizeTargets given;
    if (args.has(1)) given.roi = ToDoubles(args.in(1));
    if (args.has(2)) given.scales = ToDoubles(args.in(2));
    if (args.has(3)) {
      NODEWISE_ASSIGN_OR_RETURN(given.sizes, args.Ints(3));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, Sides(args.shape(0), given));
    return ResizeSides(Rule(), sides, args);
  }
  absl::StatusOr<std::vector<ResizedSide>> Sides(
      absl::Span<const int64_t> shape, const ops::ResizeTargets& given) const;

 private:
  absl::StatusOr<std::vector<int>> AllAxes(int rank) const;
  absl::Status SizedSides(absl::Span<const int> all,
                          const ops::ResizeTargets& given,
                          std::vector<ResizedSide>* sides) const;
};

absl::StatusOr<std::vector<int>> Resize::AllAxes(int rank) const {
  if (axes.has_value()) return Axes(*axes, rank);
  std::vector<int> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

absl::Status Resize::SizedSides(absl::Span<const int> all,
                                const ops::ResizeTargets& given,
                                std::vector<ResizedSide>* sides) const {
  double scale = 0;
  const bool is_smaller = keep_aspect_ratio_policy == AspectRatio::kNotLarger;
  for (size_t i = 0; i < all.size(); ++i) {
    ResizedSide& side = (*sides)[static_cast<size_t>(all[i])];
    side.out = given.sizes[i];
    if (side.out < 0) {
      return InputError(3, fmt::format("has a size of {}", side.out));
    }
    side.length = static_cast<double>(side.out);
    side.scale =
        side.length / static_cast<double>(std::max<int64_t>(side.in, 1));
    const bool is_first = i == 0;
    if (is_first || (side.scale < scale) == is_smaller) scale = side.scale;
  }
  if (keep_aspect_ratio_policy == AspectRatio::kStretch) {
    return absl::OkStatus();
  }
  for (const int axis : all) {
    ResizedSide& side = (*sides)[static_cast<size_t>(axis)];
    side.scale = scale;
    side.length = scale * static_cast<double>(side.in);
    NODEWISE_ASSIGN_OR_RETURN(side.out,
                              LengthOf(std::floor(side.length + 0.5)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ResizedSide>> Resize::Sides(
    absl::Span<const int64_t> shape, const ops::ResizeTargets& given) const {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> all,
                            AllAxes(static_cast<int>(shape.size())));
  if (given.scales.empty() == given.sizes.empty() && !all.empty()) {
    return absl::InvalidArgumentError(
        "needs either scales or sizes, and not both");
  }
  const size_t count =
      given.sizes.empty() ? given.scales.size() : given.sizes.size();
  if (count != all.size()) {
    return InputError(
        given.sizes.empty() ? 2 : 3,
        fmt::format("has {} numbers for {} axes", count, all.size()));
  }
  const bool crops =
      coordinate_transformation_mode == CoordinateRule::kTfCropAndResize;
  if (crops && given.roi.size() != 2 * all.size()) {
    return InputError(1, fmt::format("has {} numbers for {} axes",
                                     given.roi.size(), all.size()));
  }
  std::vector<ResizedSide> sides;
  for (const int64_t size : shape) sides.push_back(SameSide(size));
  for (size_t i = 0; i < all.size(); ++i) {
    ResizedSide& side = sides[static_cast<size_t>(all[i])];
    const double begin = crops ? given.roi[i] : 0;
    const double end = crops ? given.roi[i + all.size()] : 1;
    if (given.sizes.empty()) {
      const auto scaled = ScaledSide(side.in, given.scales[i], end - begin);
      if (!scaled.ok()) {
        return InputError(2, std::string(MessageOf(scaled.status())));
      }
      side = *scaled;
    }
    side.roi_begin = begin;
    side.roi_end = end;
  }
  if (!given.sizes.empty()) {
    NODEWISE_RETURN_IF_ERROR(SizedSides(all, given, &sides));
  }
  return sides;
}

absl::StatusOr<OutputInfos> Resize::Infer(const Inputs& in) const {
  const DLDataType dtype = in.type(0).dtype;
  const auto rank = RankOf(in);
  if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
  Shape shape = *in.type(0).shape;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> all, AllAxes(*rank));
  const auto sizes = ShapeFromInput(in, 3);
  const bool crops =
      coordinate_transformation_mode == CoordinateRule::kTfCropAndResize;
  const bool is_plain =
      keep_aspect_ratio_policy == AspectRatio::kStretch && !crops;
  // Sizes are the answer, even if those of the data are not known.
  if (is_plain && sizes.has_value() && sizes->size() == all.size() &&
      !all.empty()) {
    for (size_t i = 0; i < all.size(); ++i) {
      shape[static_cast<size_t>(all[i])] = (*sizes)[i];
    }
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    return OneOutput(dtype, std::move(shape));
  }
  ops::ResizeTargets given;
  bool is_known = true;
  if (in[1].constant != nullptr) given.roi = ToDoubles(*in[1].constant);
  if (in[2].constant != nullptr) given.scales = ToDoubles(*in[2].constant);
  if (const auto ints = in.Ints(3)) given.sizes = *ints;
  is_known &= !crops || in[1].constant != nullptr;
  is_known &= !in.has(2) || in[2].constant != nullptr;
  is_known &= !in.has(3) || in.Ints(3).has_value();
  std::vector<int64_t> known;
  for (const Dim& side : shape) {
    known.push_back(side.is_known() ? side.size() : 1);
  }
  if (!is_known) {
    for (const int axis : all) shape[static_cast<size_t>(axis)] = Dim();
    return OneOutput(dtype, std::move(shape));
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, Sides(known, given));
  // With a ratio kept, all sides depend on all.
  const bool is_static = in.type(0).is_static();
  for (const int axis : all) {
    const auto at = static_cast<size_t>(axis);
    const bool is_told = is_static || (shape[at].is_known() && is_plain);
    const bool stays = is_plain && sides[at].scale == 1;
    if (is_told) {
      shape[at] = sides[at].out;
    } else if (!stays) {
      shape[at] = Dim();
    }
  }
  NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
  return OneOutput(dtype, std::move(shape));
}

constexpr OperatorDef kResizeRows[] = {
    Row<ops::Upsample, Scaled<ops::Upsample>>({.name = "Upsample",
                                               .since = 7,
                                               .inputs = {"X", "scales"},
                                               .outputs = {"Y"},
                                               .moved = {{"scales", 1, 9}},
                                               .bound = kSum}),
    Row<ops::Resize10, Scaled<ops::Resize10>>({.name = "Resize",
                                               .since = 10,
                                               .inputs = {"X", "scales"},
                                               .outputs = {"Y"},
                                               .bound = kSum}),
    Row<ops::Resize, Resize>({.name = "Resize",
                              .since = 11,
                              .inputs = {"X", Optional("roi"),
                                         Optional("scales"), Optional("sizes")},
                              .outputs = {"Y"},
                              .bound = kSum}),
};

}  // namespace

namespace ops {

absl::StatusOr<std::vector<SideTaps>> TapsOf(const Resize& op,
                                             absl::Span<const int64_t> shape,
                                             const ResizeTargets& targets) {
  nodewise::Resize rules;
  static_cast<Resize&>(rules) = op;
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, rules.Sides(shape, targets));
  return TapsOfSides(rules.Rule(), sides);
}

absl::StatusOr<std::vector<SideTaps>> TapsOfScales(
    Interpolation mode, absl::Span<const int64_t> shape,
    absl::Span<const double> scales) {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, ScaledSides(shape, scales));
  return TapsOfSides(RuleOfScales(mode), sides);
}

}  // namespace ops

absl::Span<const OperatorDef> ResizeOperators() { return kResizeRows; }

}  // namespace nodewise
