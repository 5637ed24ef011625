#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// Negative indices came with opset 11.
InputDomain PlacesIn(const ConfigurationDraw& draw, int64_t side) {
  return InputDomain::Whole(draw.opset() >= 11 ? -side : 0, side - 1);
}

// Draws an axis, adds it unless it is 0 and left out, and returns it counted
// from the front.
size_t DrawAxisAttr(ConfigurationDraw& draw, size_t rank) {
  if (draw.Often(25)) return 0;
  const int64_t axis =
      draw.opset() >= 11 ? draw.SignedAxis(rank) : draw.Axis(rank);
  draw.Attr("axis", axis);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank)
                                      : axis);
}

// The product of the sides from this one on.
int64_t ProductOf(const Ints& shape, size_t first) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(first),
                         shape.end(), int64_t{1}, std::multiplies());
}

// A shape no side of which is longer than the data's.
Ints Within(ConfigurationDraw& draw, const Ints& shape) {
  Ints part;
  for (const int64_t side : shape) {
    part.push_back(draw.Often() ? draw.Between(1, side) : side);
  }
  return part;
}

void DrawGather(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape.size());
  draw.Input(draw.Any(), shape);
  const DLDataType of_index = draw.One({kInt64, kInt32});
  draw.Input(of_index, draw.Sides(0, 2), PlacesIn(draw, shape[axis]));
}

void DrawGatherElements(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape.size());
  Ints indices = Within(draw, shape);
  indices[axis] = draw.Side(9);
  draw.Input(draw.Any(), shape);
  draw.Input(draw.One({kInt64, kInt32}), indices, PlacesIn(draw, shape[axis]));
}

void DrawGatherNd(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t batch = 0;
  if (draw.opset() >= 12 && draw.Often()) {
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

std::string DrawReduction(ConfigurationDraw& draw) {
  if (draw.opset() < 16 || draw.Is("Scatter")) return "none";
  std::vector<std::string> words = {"none", "none", "add", "mul"};
  if (draw.opset() >= 18) words.insert(words.end(), {"max", "min"});
  std::string word = draw.One(words);
  if (word != "none" || draw.Often(20)) draw.Attr("reduction", word);
  return word;
}

// Which of NaN and another number is larger is not said.
InputDomain DomainOf(const std::string& reduction) {
  InputDomain domain;
  domain.may_be_nan = reduction != "max" && reduction != "min";
  return domain;
}

// Without a reduction no element may be named twice: which update wins is open.
void DrawScatterElements(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const size_t axis = DrawAxisAttr(draw, shape.size());
  const std::string reduction = DrawReduction(draw);
  const DLDataType dtype = reduction == "none" ? draw.Any() : draw.Number();
  const Ints indices = Within(draw, shape);
  draw.Input(dtype, shape, DomainOf(reduction));
  const DLDataType of_index = draw.One({kInt64, kInt32});
  if (reduction != "none") {
    draw.Input(of_index, indices, PlacesIn(draw, shape[axis]));
  } else {
    const Ints places = draw.Distinct(shape[axis], indices[axis]);
    const bool is_negative = draw.opset() >= 11 && draw.Often(30);
    const int64_t inner = ProductOf(indices, axis + 1);
    std::vector<double> numbers;
    for (int64_t i = 0; i < ProductOf(indices, 0); ++i) {
      const int64_t at = i / inner % indices[axis];
      const int64_t place = places[static_cast<size_t>(at)];
      numbers.push_back(static_cast<double>(
          is_negative && at % 2 == 0 ? place - shape[axis] : place));
    }
    draw.Numbers(of_index, indices, numbers, draw.Often());
  }
  draw.Input(dtype, indices, DomainOf(reduction));
}

void DrawScatterNd(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t depth = draw.Between(1, rank);
  const Ints outer(shape.begin(), shape.begin() + depth);
  const int64_t count = ProductOf(outer, 0);
  const std::string reduction = DrawReduction(draw);
  const DLDataType dtype = reduction == "none" ? draw.Any() : draw.Number();
  Ints chosen = draw.Distinct(count, draw.Between(1, 8));
  if (reduction != "none" && draw.Often()) chosen.push_back(chosen[0]);
  const bool is_negative = draw.Often(30);
  std::vector<double> numbers;
  for (const int64_t element : chosen) {
    int64_t below = count;
    for (const int64_t side : outer) {
      below /= side;
      const int64_t place = element / below % side;
      numbers.push_back(
          static_cast<double>(is_negative ? place - side : place));
    }
  }
  const auto updated = static_cast<int64_t>(chosen.size());
  Ints updates = {updated};
  updates.insert(updates.end(), shape.begin() + depth, shape.end());
  draw.Input(dtype, shape, DomainOf(reduction));
  draw.Numbers(kInt64, {updated, depth}, numbers, draw.Often());
  draw.Input(dtype, updates, DomainOf(reduction));
}

void DrawTensorScatter(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(3, 4, false);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = rank - 2;
  if (draw.Often()) {
    axis = draw.Between(1, rank - 1);
    draw.Attr("axis", draw.Often() ? axis : axis - rank);
  }
  const bool is_circular = draw.Often();
  if (is_circular || draw.Often()) {
    draw.Attr("mode", std::string(is_circular ? "circular" : "linear"));
  }
  const DLDataType dtype = draw.Any();
  int64_t& side = shape[static_cast<size_t>(axis)];
  const int64_t cache = side;
  draw.Input(dtype, shape);
  side = draw.Between(1, cache);
  draw.Input(dtype, shape);
  if (draw.Often(70)) {
    draw.Input(kInt64, {shape[0]},
               InputDomain::Whole(0, is_circular ? cache - 1 : cache - side));
  }
}

// Indices beyond the depth are off everywhere.
void DrawOneHot(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 3);
  const int64_t depth = draw.Side(9);
  if (draw.Often(70)) draw.Attr("axis", draw.SignedAxis(shape.size() + 1));
  const DLDataType of_index = draw.Number();
  draw.Input(of_index, shape,
             InputDomain::Whole(draw.opset() >= 11 ? -depth - 1 : 0, depth));
  draw.Numbers(draw.Often(70) ? kInt64 : draw.Number(),
               draw.Often() ? Ints{} : Ints{1}, {static_cast<double>(depth)},
               !draw.Often(15));
  draw.Weight(draw.Any(), {2});
}

void DrawCompress(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  int64_t most = ProductOf(shape, 0);
  if (draw.Often(60)) {
    const int64_t axis = draw.Axis(shape.size());
    most = shape[static_cast<size_t>(axis)];
    const bool is_negative = draw.opset() >= 11 && draw.Often(30);
    draw.Attr("axis",
              is_negative ? axis - static_cast<int64_t>(shape.size()) : axis);
  }
  std::vector<double> chosen;
  for (int64_t i = draw.Between(1, std::min<int64_t>(most, 20)); i > 0; --i) {
    chosen.push_back(draw.Often() ? 1 : 0);
  }
  draw.Input(draw.Any(), shape);
  draw.Numbers(kBool, {static_cast<int64_t>(chosen.size())}, chosen,
               draw.Often());
}

void DrawReverseSequence(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(2, 4, false);
  const int64_t time = draw.Between(0, 1);
  if (time != 0 || draw.Often()) {
    draw.Attr("batch_axis", 1 - time);
    draw.Attr("time_axis", time);
  }
  draw.Input(draw.Any(), shape);
  draw.Input(kInt64, {shape[static_cast<size_t>(1 - time)]},
             InputDomain::Whole(1, shape[static_cast<size_t>(time)]));
}

void DrawNonMaxSuppression(ConfigurationDraw& draw) {
  const int64_t batches = draw.Between(1, 2);
  const int64_t boxes = draw.Side(9);
  draw.Flag("center_point_box");
  draw.Input(kFloat32, {batches, boxes, 4}, InputDomain::Within(0, 8));
  draw.Input(kFloat32, {batches, draw.Between(1, 3), boxes},
             InputDomain::Within(0, 1));
  if (draw.Often(80)) {
    draw.Numbers(kInt64, draw.Often() ? Ints{} : Ints{1},
                 {static_cast<double>(draw.Between(0, 5))}, draw.Often());
  } else {
    draw.NoInput();
  }
  for (int i = 0; i < 2; ++i) {
    if (draw.Often(60)) {
      draw.Weight(kFloat32, draw.Often() ? Ints{} : Ints{1},
                  InputDomain::Within(0, 1));
    } else {
      draw.NoInput();
    }
  }
}

constexpr OperatorSpace kIndexSpaces[] = {
    {"Compress", &DrawCompress},
    {"Gather", &DrawGather},
    {"GatherElements", &DrawGatherElements},
    {"GatherND", &DrawGatherNd},
    {"NonMaxSuppression", &DrawNonMaxSuppression},
    {"OneHot", &DrawOneHot},
    {"ReverseSequence", &DrawReverseSequence},
    {"Scatter", &DrawScatterElements},
    {"ScatterElements", &DrawScatterElements},
    {"ScatterND", &DrawScatterNd},
    {"TensorScatter", &DrawTensorScatter},
};

}  // namespace

absl::Span<const OperatorSpace> IndexSpaces() { return kIndexSpaces; }

}  // namespace nodewise
