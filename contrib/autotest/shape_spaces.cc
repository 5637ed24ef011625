#include <utility>
#include <vector>

#include "contrib/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

void DrawTranspose(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  if (draw.Often(80)) draw.Attr("perm", draw.Order(shape.size()));
  draw.Input(draw.Number(), shape);
}

// Joins and parts neighbouring sides.
void DrawReshape(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(0, 5);
  Ints target;
  int64_t joined = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    joined *= shape[i];
    if (draw.Often(60)) target.push_back(std::exchange(joined, 1));
    if (draw.Often(10)) target.push_back(1);
  }
  if (joined != 1 || target.empty()) target.push_back(joined);
  if (draw.Often(30)) target[draw.choices()->UpTo(target.size() - 1)] = -1;
  draw.Input(draw.Number(), shape);
  draw.Ints(target);
}

void DrawConcat(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 4);
  const size_t axis = static_cast<size_t>(draw.Axis(shape.size()));
  const DLDataType dtype = draw.Number();
  draw.Attr("axis", static_cast<int64_t>(axis));
  for (int64_t i = draw.Between(1, 4); i > 0; --i) {
    shape[axis] = draw.Side(17, true);
    draw.Input(dtype, shape);
  }
}

constexpr OperatorSpace kShapeSpaces[] = {
    {"Concat", &DrawConcat},
    {"Reshape", &DrawReshape},
    {"Transpose", &DrawTranspose},
};

}  // namespace

absl::Span<const OperatorSpace> ShapeSpaces() { return kShapeSpaces; }

}  // namespace nodewise
