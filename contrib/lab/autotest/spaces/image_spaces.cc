// Images made larger or smaller, sampled at places, and parts of them pooled.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Exact in binary: otherwise roundings decide which element is nearest.
constexpr std::initializer_list<double> kScales = {1,   2,     1.5, 3,
                                                   0.5, 0.625, 2.5, 0.75};

// A neighbour of weight 0 may be left out, or multiplied, which makes NaN of an
// infinity.
constexpr InputDomain kFiniteDomain = InputDomain::Within(-4, 4);

// Resize below opset 11 and Upsample, which have nothing but a mode and scales.
// Scales of Upsample are 1 or more: smaller ones are turned into such.
void DrawScaled(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const bool is_linear = draw.Chance();
  draw.AttrUnless("mode", is_linear ? "linear" : "nearest", "nearest");
  const bool only_grows = draw.Is("Upsample");
  std::vector<double> scales;
  for (size_t i = 0; i < shape.size(); ++i) {
    const double scale = draw.Chance() ? draw.One(kScales) : 1;
    scales.push_back(only_grows && scale < 1 ? 2 * scale + 1 : scale);
  }
  draw.Input(draw.Float(), shape, is_linear ? kFiniteDomain : InputDomain());
  draw.Numbers(kFloat32, {std::ssize(scales)}, scales, !draw.Chance(15));
}

// How places of the output are turned into places of the input. The ways came
// and went with versions.
std::string DrawCoordinates(ConfigurationDraw& draw) {
  std::vector<std::string> words = {"half_pixel", "pytorch_half_pixel",
                                    "align_corners", "asymmetric",
                                    "tf_crop_and_resize"};
  if (draw.opset() < 13) words.emplace_back("tf_half_pixel_for_nn");
  if (draw.opset() >= 19) words.emplace_back("half_pixel_symmetric");
  std::string word = draw.One(words);
  draw.AttrUnless("coordinate_transformation_mode", word, "half_pixel");
  return word;
}

// Draws the mode of interpolation, and returns the numbers that suit it.
InputDomain DrawInterpolation(ConfigurationDraw& draw) {
  const auto mode = draw.One<std::string>({"nearest", "linear", "cubic"});
  draw.AttrUnless("mode", mode, "nearest");
  if (mode == "nearest") {
    draw.MaybeWord("nearest_mode", {"round_prefer_floor", "round_prefer_ceil",
                                    "floor", "ceil"});
    return {};
  }
  if (mode == "cubic") draw.MaybeAttr<float>("cubic_coeff_a", {-0.75F, -0.5F});
  draw.Flag("exclude_outside");
  if (draw.opset() >= 18) draw.Flag("antialias");
  return kFiniteDomain;
}

// From opset 13 on what is not used is left out; before it is empty. There are
// either scales or sizes; both are drawn in any case, so that shrinking from
// one to the other moves no other choice.
void DrawResize11(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const bool crops = DrawCoordinates(draw) == "tf_crop_and_resize";
  const InputDomain domain = DrawInterpolation(draw);
  if (crops) draw.MaybeAttr<float>("extrapolation_value", {0, 1.5F});
  Ints axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (draw.opset() >= 18 && draw.Chance(30)) {
    axes = draw.SignedAxes(shape.size());
    draw.Attr("axes", axes);
  }
  const int64_t count = std::ssize(axes);
  const bool has_sizes = draw.Chance(40);
  if (has_sizes && draw.opset() >= 18) {
    draw.MaybeWord("keep_aspect_ratio_policy",
                   {"stretch", "not_larger", "not_smaller"});
  }
  std::vector<double> scales;
  Ints sizes;
  std::vector<double> box(2 * axes.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Choices::Group group(draw.choices());
    const int64_t side = shape[PlaceOf(axes[i], shape)];
    scales.push_back(draw.Chance(60) ? draw.One(kScales) : 1);
    // No side may become empty.
    if (std::floor(scales.back() * static_cast<double>(side)) < 1) {
      scales.back() = 1;
    }
    sizes.push_back(draw.Chance(60) ? draw.Side(9) : side);
    // All of the input, or somewhat less or more.
    box[i + axes.size()] = 1;
    if (!crops || !draw.Chance()) continue;
    box[i] = draw.One({0.25, 0.0, -0.25});
    box[i + axes.size()] = draw.One({1.0, 0.75, 1.25});
  }
  draw.Input(draw.Float(), shape, domain);
  const auto leave_out = [&draw] {
    draw.opset() < 13 ? draw.Numbers(kFloat32, {0}, {}) : draw.NoInput();
  };
  crops || draw.Chance(10) ? draw.Numbers(kFloat32, {2 * count}, box)
                           : leave_out();
  if (!has_sizes) {
    return draw.Numbers(kFloat32, {count}, scales, !draw.Chance(15));
  }
  leave_out();
  draw.Ints(sizes);
}

void DrawResize(ConfigurationDraw& draw) {
  if (draw.def().since < 11) return DrawScaled(draw);
  DrawResize11(draw);
}

// Places lie inside and outside of [-1, 1]. A version below 20 has planes
// alone, and other words for the modes.
void DrawGridSample(ConfigurationDraw& draw) {
  const bool is_new = draw.def().since >= 20;
  const size_t spatial =
      is_new ? static_cast<size_t>(draw.One<int64_t>({2, 2, 1, 3})) : 2;
  if (is_new) {
    // Only planes have a cubic way in every implementation.
    spatial == 2 ? draw.MaybeWord("mode", {"linear", "nearest", "cubic"})
                 : draw.MaybeWord("mode", {"linear", "nearest"});
  } else {
    draw.MaybeWord("mode", {"bilinear", "nearest", "bicubic"});
  }
  draw.MaybeWord("padding_mode", {"zeros", "border", "reflection"});
  draw.Flag("align_corners");
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 2);
  Ints x = {batch, draw.Between(1, 3)};
  Ints grid = {batch};
  // Each place of the output weighs neighbours in every channel.
  int64_t room = 128;
  for (size_t s = 0; s < spatial; ++s) {
    x.push_back(draw.Side(room));
    grid.push_back(draw.Side(room));
    room = std::max<int64_t>(room / std::max(x.back(), grid.back()), 1);
  }
  grid.push_back(static_cast<int64_t>(spatial));
  draw.Input(dtype, x, kFiniteDomain);
  draw.Input(dtype, grid, InputDomain::Within(-1.5, 1.5));
}

// The matrices move the places of a grid, whose size is the second input.
void DrawAffineGrid(ConfigurationDraw& draw) {
  const int64_t spatial = draw.Chance(30) ? 3 : 2;
  draw.Flag("align_corners");
  const int64_t batch = draw.Between(1, 3);
  draw.Input(draw.Float(), {batch, spatial, spatial + 1}, kFiniteDomain);
  Ints size = {batch, draw.Between(1, 3)};
  for (int64_t s = 0; s < spatial; ++s) size.push_back(draw.Side(9));
  draw.Ints(size);
}

// Boxes as corners, in quarters of an element; whole ones if `is_whole`. They
// lie inside of the image once they are scaled, and the second corner is not
// before the first.
std::vector<double> DrawBox(ConfigurationDraw& draw, const Ints& shape,
                            double scale, bool is_whole) {
  const Choices::Group group(draw.choices());
  const double unit = is_whole ? 1 : 0.25;
  double low[2];
  double high[2];
  for (const size_t s : {0, 1}) {
    const auto most =
        static_cast<int64_t>(static_cast<double>(shape[2 + s] - 1) / unit);
    const int64_t first = draw.Between(0, most);
    low[s] = unit * static_cast<double>(first) / scale;
    high[s] = unit * static_cast<double>(draw.Between(first, most)) / scale;
  }
  return {low[1], low[0], high[1], high[0]};
}

// MaxRoiPool has the image of a box as its first number, RoiAlign as an input
// of its own. The scale is a power of two, so that it adds no rounding.
void DrawRoi(ConfigurationDraw& draw) {
  const bool is_max = draw.Is("MaxRoiPool");
  const Ints shape = {draw.Between(1, 2), draw.Between(1, 3), draw.Side(16),
                      draw.Side(16)};
  double scale = 1;  // The attribute's default.
  if (draw.Chance()) {
    scale = draw.One({1.0, 0.5, 0.25});
    draw.Attr("spatial_scale", static_cast<float>(scale));
  }
  const DLDataType dtype = draw.Float();
  if (is_max) {
    draw.Attr("pooled_shape", Ints{draw.Between(1, 3), draw.Between(1, 3)});
  } else {
    draw.MaybeWord("mode", {"avg", "max"});
    draw.MaybeAttr<int64_t>("output_height", {1, 2, 3});
    draw.MaybeAttr<int64_t>("output_width", {1, 2, 3});
    draw.MaybeAttr<int64_t>("sampling_ratio", {2, 1, 3, 0});
    if (draw.def().since >= 16) {
      draw.MaybeWord("coordinate_transformation_mode",
                     {"half_pixel", "output_half_pixel"});
    }
  }
  const int64_t count = draw.Between(1, 4);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    if (is_max) {
      numbers.push_back(static_cast<double>(draw.Between(0, shape[0] - 1)));
    }
    const std::vector<double> box = DrawBox(draw, shape, scale, is_max);
    numbers.insert(numbers.end(), box.begin(), box.end());
  }
  draw.Input(dtype, shape, is_max ? InputDomain::WithoutNan() : kFiniteDomain);
  draw.Numbers(dtype, {count, is_max ? 5 : 4}, numbers, draw.Chance());
  if (!is_max) draw.Input(kInt64, {count}, InputDomain::Whole(0, shape[0] - 1));
}

constexpr OperatorSpace kImageSpaces[] = {{&DrawAffineGrid, "AffineGrid"},
                                          {&DrawGridSample, "GridSample"},
                                          {&DrawRoi, "MaxRoiPool RoiAlign"},
                                          {&DrawResize, "Resize"},
                                          {&DrawScaled, "Upsample"}};

}  // namespace

absl::Span<const OperatorSpace> ImageSpaces() { return kImageSpaces; }

}  // namespace nodewise
