#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

void DrawTranspose(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  if (draw.Often(80)) draw.Attr("perm", draw.Order(shape.size()));
  draw.Input(draw.Any(), shape);
}

// Joins and parts neighbouring sides.
void DrawReshape(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  const bool has_empty =
      std::find(shape.begin(), shape.end(), 0) != shape.end();
  const bool takes_zeros = draw.opset() >= 14 && draw.Often(20);
  Ints target;
  int64_t joined = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    // 0 stands for the side of the data at the same place.
    if (joined == 1 && target.size() == i && !takes_zeros && !has_empty &&
        draw.Often(15)) {
      target.push_back(0);
      continue;
    }
    joined *= shape[i];
    if (draw.Often(60)) target.push_back(std::exchange(joined, 1));
    if (draw.Often(10)) target.push_back(1);
  }
  if (joined != 1 || target.empty()) target.push_back(joined);
  if (!has_empty && draw.Often(30)) {
    target[draw.choices()->UpTo(target.size() - 1)] = -1;
  }
  if (takes_zeros || (has_empty && draw.opset() >= 14)) {
    draw.Attr("allowzero", 1);
  } else if (draw.opset() >= 14 && draw.Often(20)) {
    draw.Attr("allowzero", 0);
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(target);
}

void DrawConcat(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 4);
  const int64_t axis = draw.opset() >= 11 ? draw.SignedAxis(shape.size())
                                          : draw.Axis(shape.size());
  const DLDataType dtype = draw.Any();
  draw.Attr("axis", axis);
  const auto rank = static_cast<int64_t>(shape.size());
  for (int64_t i = draw.Between(1, 4); i > 0; --i) {
    const Choices::Group group(draw.choices());
    shape[static_cast<size_t>((axis + rank) % rank)] = draw.Side(17, true);
    draw.Input(dtype, shape);
  }
}

// Where a cut begins or ends: inside most of the time, else beyond.
int64_t DrawPlace(ConfigurationDraw& draw, int64_t side) {
  if (draw.Often(70)) return draw.Between(0, side);
  return draw.Between(-side - 2, side + 2);
}

// Starts, ends and axes were attributes below opset 10, which had no steps.
void DrawSlice(ConfigurationDraw& draw) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const Ints shape = draw.Sides(1, 4);
  const bool has_steps = draw.opset() >= 10 && draw.Often(60);
  Ints axes = draw.SignedAxes(shape.size(), false, 10);
  const bool has_axes = has_steps || draw.Often(80);
  if (!has_axes) {
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  }
  Ints starts;
  Ints ends;
  Ints steps;
  for (const int64_t axis : axes) {
    const Choices::Group group(draw.choices());
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t side = shape[static_cast<size_t>((axis + rank) % rank)];
    steps.push_back(has_steps ? draw.One<int64_t>({1, 1, 2, 3, -1, -2, 7}) : 1);
    starts.push_back(DrawPlace(draw, side));
    const int64_t far = steps.back() < 0 ? -kFar : kFar;
    ends.push_back(draw.Often(40) ? DrawPlace(draw, side)
                                  : draw.One({far, side, far, -side - 1}));
    if (steps.back() < 0 && draw.Often(60)) {
      starts.back() = draw.One({kFar, side - 1, int64_t{-1}});
    }
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(starts);
  draw.Ints(ends);
  if (has_axes) {
    draw.Ints(axes);
  }
  if (has_steps) draw.Ints(steps);
}

// The lengths were an attribute below opset 13; from 18 on their number is one.
void DrawSplit(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = 0;
  if (draw.Often(75)) {
    axis = draw.opset() >= 11 ? draw.SignedAxis(shape.size())
                              : draw.Axis(shape.size());
    draw.Attr("axis", axis);
  }
  int64_t& side = shape[static_cast<size_t>((axis + rank) % rank)];
  const int64_t count = draw.Between(1, 4);
  draw.Outputs(static_cast<size_t>(count));
  const bool is_told = draw.Often();
  Ints lengths;
  const int64_t each = draw.Side(9);
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(is_told ? draw.Between(0, 5) : each);
  }
  if (!is_told && draw.opset() >= 18) {
    draw.Attr("num_outputs", count);
    lengths.back() -= draw.Between(0, each - 1);  // The last may be shorter.
  }
  side = 0;
  for (const int64_t length : lengths) side += length;
  draw.Input(draw.Any(), shape);
  if (is_told) draw.Ints(lengths);
}

// Pads and the value were attributes below opset 11; axes came with 18.
void DrawPad(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<std::string> modes = {"constant", "reflect", "edge"};
  if (draw.opset() >= 19) modes.emplace_back("wrap");
  const std::string mode = draw.One(modes);
  if (mode != "constant" || draw.Often()) draw.Attr("mode", mode);
  const bool has_axes = draw.opset() >= 18 && draw.Often(40);
  Ints axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  if (has_axes) axes = draw.SignedAxes(shape.size());
  Ints pads(2 * axes.size());
  for (size_t i = 0; i < pads.size(); ++i) {
    const int64_t axis = axes[i % axes.size()];
    const int64_t side = shape[static_cast<size_t>((axis + rank) % rank)];
    int64_t most = 4;
    if (mode == "reflect") most = std::min(most, side - 1);
    if (mode == "wrap") most = std::min(most, side);
    pads[i] = draw.Between(0, most);
    if (mode == "constant" && draw.Often(10))
      pads[i] = -draw.Between(0, side / 2);
  }
  const DLDataType dtype = draw.opset() < 11 ? draw.Float() : draw.Any();
  draw.Input(dtype, shape);
  draw.Ints(pads);
  if (mode == "constant" && draw.Often()) {
    draw.Weight(draw.opset() < 11 ? kFloat32 : dtype, {});
  } else {
    draw.NoInput();
  }
  if (has_axes) draw.Ints(axes);
}

void DrawTile(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  Ints repeats;
  for (size_t i = 0; i < shape.size(); ++i) {
    repeats.push_back(draw.Often(3) ? 0 : draw.Between(1, 3));
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(repeats);
}

// Sides of 1 of either are repeated.
void DrawExpand(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 4);
  draw.Input(draw.Any(), draw.PartOf(shape));
  draw.Ints(draw.Often(20) ? draw.PartOf(shape) : shape);
}

void DrawSqueeze(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 5);
  const bool has_axes = draw.Often(70);
  const Ints axes = draw.SignedAxes(shape.size(), false);
  const auto rank = static_cast<int64_t>(shape.size());
  for (const int64_t axis : axes) {
    shape[static_cast<size_t>((axis + rank) % rank)] = 1;
  }
  draw.Input(draw.Any(), shape);
  if (has_axes) draw.Ints(axes);
}

void DrawUnsqueeze(ConfigurationDraw& draw) {
  const Ints all = draw.Sides(1, 6);
  const Ints axes = draw.SignedAxes(all.size());
  const Ints shape(all.begin() + static_cast<ptrdiff_t>(axes.size()),
                   all.end());
  draw.Input(draw.Any(), shape);
  draw.Ints(axes);
}

void DrawFlatten(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 5);
  const auto rank = static_cast<int64_t>(shape.size());
  if (draw.Often(75)) {
    const bool is_negative = draw.opset() >= 11 && draw.Often(30);
    draw.Attr("axis",
              is_negative ? -draw.Between(1, rank) : draw.Between(0, rank));
  }
  draw.Input(draw.Any(), shape);
}

void DrawShape(ConfigurationDraw& draw) {
  if (draw.opset() >= 15 && draw.Often())
    draw.Attr("start", draw.Between(-6, 6));
  if (draw.opset() >= 15 && draw.Often()) draw.Attr("end", draw.Between(-6, 6));
  draw.Input(draw.Any(), draw.Sides(0, 5));
}

void DrawDepth(ConfigurationDraw& draw) {
  const int64_t block = draw.Between(1, 3);
  const bool is_to_space = draw.Is("DepthToSpace");
  draw.Attr("blocksize", block);
  const int least = is_to_space ? 11 : 28;
  if (draw.opset() >= least) draw.MaybeWord("mode", {"DCR", "CRD"});
  const Ints sides = draw.Sides(4, 4);
  draw.Input(
      draw.Any(),
      is_to_space
          ? Ints{sides[0], sides[1] * block * block, sides[2], sides[3]}
          : Ints{sides[0], sides[1], sides[2] * block, sides[3] * block});
}

void DrawCenterCropPad(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  size_t count = shape.size();
  if (draw.Often()) {
    const Ints axes = draw.SignedAxes(shape.size());
    draw.Attr("axes", axes);
    count = axes.size();
  }
  Ints sides;
  for (size_t i = 0; i < count; ++i) sides.push_back(draw.Side(9));
  draw.Input(draw.Any(), shape);
  if (draw.Often(20)) {
    draw.Numbers(kInt32, {static_cast<int64_t>(count)},
                 {sides.begin(), sides.end()});
  } else {
    draw.Ints(sides);
  }
}

constexpr OperatorSpace kShapeSpaces[] = {
    {"CenterCropPad", &DrawCenterCropPad},
    {"Concat", &DrawConcat},
    {"DepthToSpace", &DrawDepth},
    {"Expand", &DrawExpand},
    {"Flatten", &DrawFlatten},
    {"Pad", &DrawPad},
    {"Reshape", &DrawReshape},
    {"Shape", &DrawShape},
    {"Slice", &DrawSlice},
    {"SpaceToDepth", &DrawDepth},
    {"Split", &DrawSplit},
    {"Squeeze", &DrawSqueeze},
    {"Tile", &DrawTile},
    {"Transpose", &DrawTranspose},
    {"Unsqueeze", &DrawUnsqueeze},
};

}  // namespace

absl::Span<const OperatorSpace> ShapeSpaces() { return kShapeSpaces; }

}  // namespace nodewise
