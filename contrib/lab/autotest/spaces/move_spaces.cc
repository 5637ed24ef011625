// Operators that move elements: other shapes, other orders, parts, and elements
// that indices choose.

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

void DrawTranspose(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  if (draw.Chance(80)) draw.Attr("perm", draw.Order(shape.size()));
  draw.Input(draw.Any(), shape);
}

// Joins and parts neighbouring sides, so that the elements are as many in any
// case: `joined` is the product of the sides of the data that the target does
// not have yet. One side may be told as -1, and is worked out.
void DrawReshape(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  const bool has_empty = std::ranges::count(shape, 0) > 0;
  const bool takes_zeros = draw.opset() >= 14 && draw.Chance(20);
  Ints target;
  int64_t joined = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    // 0 stands for the side of the data at the same place.
    if (joined == 1 && target.size() == i && !takes_zeros && !has_empty &&
        draw.Chance(15)) {
      target.push_back(0);
      continue;
    }
    joined *= shape[i];
    if (draw.Chance(60)) target.push_back(std::exchange(joined, 1));
    if (draw.Chance(10)) target.push_back(1);
  }
  if (joined != 1 || target.empty()) target.push_back(joined);
  if (!has_empty && draw.Chance(30)) {
    target[draw.choices()->UpTo(target.size() - 1)] = -1;
  }
  if (draw.opset() >= 14) {
    draw.AttrUnless("allowzero", takes_zeros || has_empty, 0, 20);
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(target);
}

void DrawConcat(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 4);
  const int64_t axis = draw.AxisOfOpset(shape.size());
  const DLDataType dtype = draw.Any();
  draw.Attr("axis", axis);
  for (int64_t i = draw.Between(1, 4); i > 0; --i) {
    const Choices::Group group(draw.choices());
    shape[PlaceOf(axis, shape)] = draw.Side(17, true);
    draw.Input(dtype, shape);
  }
}

// Where a cut begins or ends: inside most of the time, else beyond, on either
// end.
int64_t DrawPlace(ConfigurationDraw& draw, int64_t side) {
  if (draw.Chance(70)) return draw.Between(0, side);
  return draw.Between(-side - 2, side + 2);
}

// Starts, ends and axes were attributes below opset 10, which had no steps.
// Most cuts go to the far end, which models write as the largest number there
// is; a cut that goes backwards begins at the last element most of the time, or
// it would rarely have any.
void DrawSlice(ConfigurationDraw& draw) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const Ints shape = draw.Sides(1, 4);
  const bool has_steps = draw.opset() >= 10 && draw.Chance(60);
  Ints axes = draw.SignedAxes(shape.size(), false, 10);
  const bool has_axes = has_steps || draw.Chance(80);
  if (!has_axes) std::iota(axes.begin(), axes.end(), 0);
  Ints starts;
  Ints ends;
  Ints steps;
  for (const int64_t axis : axes) {
    const Choices::Group group(draw.choices());
    const int64_t side = shape[PlaceOf(axis, shape)];
    steps.push_back(has_steps ? draw.One<int64_t>({1, 1, 2, 3, -1, -2, 7}) : 1);
    starts.push_back(DrawPlace(draw, side));
    const int64_t far = steps.back() < 0 ? -kFar : kFar;
    ends.push_back(draw.Chance(40) ? DrawPlace(draw, side)
                                   : draw.One({far, side, far, -side - 1}));
    if (steps.back() < 0 && draw.Chance(60)) {
      starts.back() = draw.One({kFar, side - 1, int64_t{-1}});
    }
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(starts);
  draw.Ints(ends);
  if (has_axes) draw.Ints(axes);
  if (has_steps) draw.Ints(steps);
}

// The lengths were an attribute below opset 13; from 18 on their number is one.
// The side is worked out last, so that the lengths add up to it.
void DrawSplit(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 4);
  const int64_t axis = AxisOr(0, draw, shape.size(), 75);
  const int64_t count = draw.Between(1, 4);
  draw.Outputs(static_cast<size_t>(count));
  const bool is_told = draw.Chance();
  Ints lengths;
  const int64_t each = draw.Side(9);
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(is_told ? draw.Between(0, 5) : each);
  }
  if (!is_told && draw.opset() >= 18) {
    draw.Attr("num_outputs", count);
    lengths.back() -= draw.Between(0, each - 1);  // The last may be shorter.
  }
  shape[PlaceOf(axis, shape)] =
      std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  draw.Input(draw.Any(), shape);
  if (is_told) draw.Ints(lengths);
}

// Pads and the value were attributes below opset 11; axes came with 18. A
// mirror needs a side longer than what it adds, and a wrap one as long; a
// constant may also cut, by half of the side at each end, so that something is
// left.
void DrawPad(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  std::vector<std::string> modes = {"constant", "reflect", "edge"};
  if (draw.opset() >= 19) modes.emplace_back("wrap");
  const std::string mode = draw.One(modes);
  draw.AttrUnless("mode", mode, "constant");
  const bool has_axes = draw.opset() >= 18 && draw.Chance(40);
  Ints axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (has_axes) axes = draw.SignedAxes(shape.size());
  Ints pads(2 * axes.size());
  for (size_t i = 0; i < pads.size(); ++i) {
    const int64_t side = shape[PlaceOf(axes[i % axes.size()], shape)];
    int64_t most = 4;
    if (mode == "reflect") most = std::min(most, side - 1);
    if (mode == "wrap") most = std::min(most, side);
    pads[i] = draw.Between(0, most);
    if (mode == "constant" && draw.Chance(10))
      pads[i] = -draw.Between(0, side / 2);
  }
  const DLDataType dtype = draw.opset() < 11 ? draw.Float() : draw.Any();
  draw.Input(dtype, shape);
  draw.Ints(pads);
  draw.WeightIf(mode == "constant" && draw.Chance(),
                draw.opset() < 11 ? kFloat32 : dtype, {});
  if (has_axes) draw.Ints(axes);
}

void DrawTile(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  Ints repeats;
  for (size_t i = 0; i < shape.size(); ++i) {
    repeats.push_back(draw.Chance(3) ? 0 : draw.Between(1, 3));
  }
  draw.Input(draw.Any(), shape);
  draw.Ints(repeats);
}

// Sides of 1 of either are repeated: the shape that is told may be the smaller
// one.
void DrawExpand(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 4);
  draw.Input(draw.Any(), draw.PartOf(shape));
  draw.Ints(draw.Chance(20) ? draw.PartOf(shape) : shape);
}

// Without axes all sides of 1 are left out.
void DrawSqueeze(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 5);
  const bool has_axes = draw.Chance(70);
  const Ints axes = draw.SignedAxes(shape.size(), false);
  for (const int64_t axis : axes) shape[PlaceOf(axis, shape)] = 1;
  draw.Input(draw.Any(), shape);
  if (has_axes) draw.Ints(axes);
}

// Axes count the sides of the result.
void DrawUnsqueeze(ConfigurationDraw& draw) {
  const Ints all = draw.Sides(1, 6);
  const Ints axes = draw.SignedAxes(all.size());
  const Ints shape(all.begin() + std::ssize(axes), all.end());
  draw.Input(draw.Any(), shape);
  draw.Ints(axes);
}

void DrawFlatten(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 5);
  const auto rank = std::ssize(shape);
  if (draw.Chance(75)) {
    const bool is_negative = draw.opset() >= 11 && draw.Chance(30);
    draw.Attr("axis",
              is_negative ? -draw.Between(1, rank) : draw.Between(0, rank));
  }
  draw.Input(draw.Any(), shape);
}

// Only a part of the shape from opset 15 on; starts and ends beyond it are
// legal.
void DrawShape(ConfigurationDraw& draw) {
  for (const char* name : {"start", "end"}) {
    if (draw.opset() >= 15 && draw.Chance()) {
      draw.Attr(name, draw.Between(-6, 6));
    }
  }
  draw.Input(draw.Any(), draw.Sides(0, 5));
}

// A side is a multiple of the block, or the channels of its square.
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
  if (draw.Chance()) {
    const Ints axes = draw.SignedAxes(shape.size());
    draw.Attr("axes", axes);
    count = axes.size();
  }
  Ints sides;
  for (size_t i = 0; i < count; ++i) sides.push_back(draw.Side(9));
  draw.Input(draw.Any(), shape);
  if (draw.Chance(20)) {
    draw.Numbers(kInt32, {static_cast<int64_t>(count)},
                 {sides.begin(), sides.end()});
  } else {
    draw.Ints(sides);
  }
}

// Negative indices came with opset 11.
InputDomain PlacesIn(const ConfigurationDraw& draw, int64_t side) {
  return InputDomain::Whole(draw.opset() >= 11 ? -side : 0, side - 1);
}

// Draws an axis, adds it unless it is 0 and left out, and returns it counted
// from the front.
size_t DrawAxisAttr(ConfigurationDraw& draw, const Ints& shape) {
  if (draw.Chance(25)) return 0;
  const int64_t axis = draw.AxisOfOpset(shape.size());
  draw.Attr("axis", axis);
  return PlaceOf(axis, shape);
}

// A shape no side of which is longer than the data's: indices may leave out the
// end of a side, and then the rest of the data is not read or written.
Ints Within(ConfigurationDraw& draw, const Ints& shape) {
  Ints part;
  for (const int64_t side : shape) {
    part.push_back(draw.Chance() ? draw.Between(1, side) : side);
  }
  return part;
}

void DrawGather(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape);
  draw.Input(draw.Any(), shape);
  const DLDataType of_index = draw.One({kInt64, kInt32});
  draw.Input(of_index, draw.Sides(0, 2), PlacesIn(draw, shape[axis]));
}

void DrawGatherElements(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape);
  Ints indices = Within(draw, shape);
  indices[axis] = draw.Side(9);
  draw.Input(draw.Any(), shape);
  draw.Input(draw.One({kInt64, kInt32}), indices, PlacesIn(draw, shape[axis]));
}

// An index names the first sides behind those of the batch. All its numbers
// have the range of the shortest of these sides, since an input has one domain.
void DrawGatherNd(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const auto rank = std::ssize(shape);
  int64_t batch = 0;
  if (draw.opset() >= 12 && draw.Chance()) {
    batch = draw.Between(0, rank - 1);
    draw.Attr("batch_dims", batch);
  }
  const int64_t depth = draw.Between(1, rank - batch);
  const auto first = shape.begin() + batch;
  Ints indices(shape.begin(), first);
  for (int64_t i = draw.Between(0, 2); i > 0; --i) {
    indices.push_back(draw.Side(5, true));
  }
  indices.push_back(depth);
  draw.Input(draw.Any(), shape);
  draw.Input(kInt64, indices,
             PlacesIn(draw, *std::min_element(first, first + depth)));
}

// Sums and products came with opset 16, extremes with 18.
std::string DrawReduction(ConfigurationDraw& draw) {
  if (draw.opset() < 16 || draw.Is("Scatter")) return "none";
  std::vector<std::string> words = {"none", "none", "add", "mul"};
  if (draw.opset() >= 18) words.insert(words.end(), {"max", "min"});
  std::string word = draw.One(words);
  draw.AttrUnless("reduction", word, "none", 20);
  return word;
}

// Which of NaN and another number is larger is not said.
InputDomain DomainOf(const std::string& reduction) {
  InputDomain domain;
  domain.may_be_nan = reduction != "max" && reduction != "min";
  return domain;
}

// Without a reduction no element may be named twice: which update wins is open.
// So all rows along the axis have the same places, each once; with one, indices
// are drawn as any others.
void DrawScatterElements(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape);
  const std::string reduction = DrawReduction(draw);
  const DLDataType dtype = reduction == "none" ? draw.Any() : draw.Number();
  const Ints indices = Within(draw, shape);
  draw.Input(dtype, shape, DomainOf(reduction));
  const DLDataType of_index = draw.One({kInt64, kInt32});
  if (reduction != "none") {
    draw.Input(of_index, indices, PlacesIn(draw, shape[axis]));
  } else {
    const Ints places = draw.Distinct(shape[axis], indices[axis]);
    const bool is_negative = draw.opset() >= 11 && draw.Chance(30);
    const int64_t inner =
        Product(absl::MakeConstSpan(indices).subspan(axis + 1));
    std::vector<double> numbers;
    for (int64_t i = 0; i < Product(indices); ++i) {
      const int64_t at = i / inner % indices[axis];
      const int64_t place = places[static_cast<size_t>(at)];
      numbers.push_back(static_cast<double>(
          is_negative && at % 2 == 0 ? place - shape[axis] : place));
    }
    draw.Numbers(of_index, indices, numbers, draw.Chance());
  }
  draw.Input(dtype, indices, DomainOf(reduction));
}

// Elements are drawn by their numbers, and their indices worked out from the
// last side to the first. One may come twice where updates are added up.
void DrawScatterNd(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const int64_t depth = draw.Between(1, std::ssize(shape));
  const Ints outer(shape.begin(), shape.begin() + depth);
  const int64_t count = Product(outer);
  const std::string reduction = DrawReduction(draw);
  const DLDataType dtype = reduction == "none" ? draw.Any() : draw.Number();
  Ints chosen = draw.Distinct(count, draw.Between(1, 8));
  if (reduction != "none" && draw.Chance()) chosen.push_back(chosen[0]);
  const bool is_negative = draw.Chance(30);
  std::vector<double> numbers;
  for (const int64_t element : chosen) {
    int64_t below = count;
    for (const int64_t side : outer) {
      below /= side;
      const int64_t place = element / below % side - (is_negative ? side : 0);
      numbers.push_back(static_cast<double>(place));
    }
  }
  const auto updated = std::ssize(chosen);
  Ints updates = {updated};
  updates.insert(updates.end(), shape.begin() + depth, shape.end());
  draw.Input(dtype, shape, DomainOf(reduction));
  draw.Numbers(kInt64, {updated, depth}, numbers, draw.Chance());
  draw.Input(dtype, updates, DomainOf(reduction));
}

// A cache in which an update is written from a place on, which may go on at the
// front if it is circular.
void DrawTensorScatter(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(3, 4, false);
  const auto rank = std::ssize(shape);
  int64_t axis = rank - 2;
  if (draw.Chance()) {
    axis = draw.Between(1, rank - 1);
    draw.Attr("axis", draw.Chance() ? axis : axis - rank);
  }
  const bool is_circular = draw.Chance();
  draw.AttrUnless("mode", is_circular ? "circular" : "linear", "linear");
  const DLDataType dtype = draw.Any();
  int64_t& side = shape[static_cast<size_t>(axis)];
  const int64_t cache = side;
  draw.Input(dtype, shape);
  side = draw.Between(1, cache);
  draw.Input(dtype, shape);
  if (draw.Chance(70)) {
    draw.Input(kInt64, {shape[0]},
               InputDomain::Whole(0, is_circular ? cache - 1 : cache - side));
  }
}

// Indices beyond the depth are off everywhere.
void DrawOneHot(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 3);
  const int64_t depth = draw.Side(9);
  if (draw.Chance(70)) draw.Attr("axis", draw.SignedAxis(shape.size() + 1));
  const DLDataType of_index = draw.Number();
  draw.Input(of_index, shape,
             InputDomain::Whole(draw.opset() >= 11 ? -depth - 1 : 0, depth));
  draw.Numbers(draw.Chance(70) ? kInt64 : draw.Number(),
               draw.Chance() ? Ints{} : Ints{1}, {static_cast<double>(depth)},
               !draw.Chance(15));
  draw.Weight(draw.Any(), {2});
}

// Without an axis the data is flat. There may be fewer conditions than places.
void DrawCompress(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  int64_t most = Product(shape);
  if (draw.Chance(60)) {
    const int64_t axis = draw.Axis(shape.size());
    most = shape[static_cast<size_t>(axis)];
    const bool is_negative = draw.opset() >= 11 && draw.Chance(30);
    draw.Attr("axis", is_negative ? axis - std::ssize(shape) : axis);
  }
  std::vector<double> chosen;
  for (int64_t i = draw.Between(1, std::min<int64_t>(most, 20)); i > 0; --i) {
    chosen.push_back(draw.Chance() ? 1 : 0);
  }
  draw.Input(draw.Any(), shape);
  draw.Numbers(kBool, {std::ssize(chosen)}, chosen, draw.Chance());
}

// One of the first two sides is time, and the other the batch.
void DrawReverseSequence(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(2, 4, false);
  const int64_t time = draw.Between(0, 1);
  if (time != 0 || draw.Chance()) {
    draw.Attr("batch_axis", 1 - time);
    draw.Attr("time_axis", time);
  }
  draw.Input(draw.Any(), shape);
  draw.Input(kInt64, {shape[static_cast<size_t>(1 - time)]},
             InputDomain::Whole(1, shape[static_cast<size_t>(time)]));
}

// Boxes may be degenerate, and the limits of overlap and score anything that is
// possible. The number of outputs depends on the scores.
void DrawNonMaxSuppression(ConfigurationDraw& draw) {
  const int64_t batches = draw.Between(1, 2);
  const int64_t boxes = draw.Side(9);
  draw.Flag("center_point_box");
  draw.Input(kFloat32, {batches, boxes, 4}, InputDomain::Within(0, 8));
  draw.Input(kFloat32, {batches, draw.Between(1, 3), boxes},
             InputDomain::Within(0, 1));
  if (draw.Chance(80)) {
    draw.Numbers(kInt64, draw.Chance() ? Ints{} : Ints{1},
                 {static_cast<double>(draw.Between(0, 5))}, draw.Chance());
  } else {
    draw.NoInput();
  }
  for (int i = 0; i < 2; ++i) {
    if (draw.Chance(60)) {
      draw.Weight(kFloat32, draw.Chance() ? Ints{} : Ints{1},
                  InputDomain::Within(0, 1));
    } else {
      draw.NoInput();
    }
  }
}

constexpr OperatorSpace kMoveSpaces[] = {
    {&DrawCenterCropPad, "CenterCropPad"},
    {&DrawCompress, "Compress"},
    {&DrawConcat, "Concat"},
    {&DrawDepth, "DepthToSpace SpaceToDepth"},
    {&DrawExpand, "Expand"},
    {&DrawFlatten, "Flatten"},
    {&DrawGather, "Gather"},
    {&DrawGatherElements, "GatherElements"},
    {&DrawGatherNd, "GatherND"},
    {&DrawNonMaxSuppression, "NonMaxSuppression"},
    {&DrawOneHot, "OneHot"},
    {&DrawPad, "Pad"},
    {&DrawReshape, "Reshape"},
    {&DrawReverseSequence, "ReverseSequence"},
    {&DrawScatterElements, "Scatter ScatterElements"},
    {&DrawScatterNd, "ScatterND"},
    {&DrawShape, "Shape"},
    {&DrawSlice, "Slice"},
    {&DrawSplit, "Split"},
    {&DrawSqueeze, "Squeeze"},
    {&DrawTensorScatter, "TensorScatter"},
    {&DrawTile, "Tile"},
    {&DrawTranspose, "Transpose"},
    {&DrawUnsqueeze, "Unsqueeze"}};

}  // namespace

absl::Span<const OperatorSpace> MoveSpaces() { return kMoveSpaces; }

}  // namespace nodewise
