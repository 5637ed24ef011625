#include <algorithm>
#include <utility>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/resize.h"
#include "nodewise/support/status_macros.h"

// Sides that are interpolated.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

absl::StatusOr<NDArray> ListOf(double number, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray list, NDArray::Empty({1}, dtype, kCpu));
  StoreDoubles(&number, 0, 1, list);
  return list;
}

// What a Resize does along one side, as a matrix: what it makes of the rows of
// the identity, one by one, since a second side might be moved as well.
// `scale` is 0 where sizes are given.
absl::StatusOr<std::vector<double>> MatrixOf(ops::Resize op, int64_t from,
                                             int64_t to, double scale) {
  op.axes = Sizes{0};
  const OpAttrs attrs =
      OpAttrs::Of(AllOperators().FindType(&kTypeTag<ops::Resize>), op);
  Tensors inputs(4);
  if (scale != 0) {
    NODEWISE_ASSIGN_OR_RETURN(inputs[2], ListOf(scale, kFloat32));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(inputs[3],
                              ListOf(static_cast<double>(to), kInt64));
  }
  std::vector<double> matrix(static_cast<size_t>(to * from));
  for (int64_t column = 0; column < from; ++column) {
    NODEWISE_ASSIGN_OR_RETURN(inputs[0],
                              NDArray::Empty({from}, kFloat64, kCpu));
    for (int64_t i = 0; i < from; ++i) {
      inputs[0].As<double>()[i] = i == column ? 1 : 0;
    }
    const bool wanted[] = {true};
    NODEWISE_ASSIGN_OR_RETURN(const Evaluated made,
                              Evaluate(attrs, inputs, wanted));
    for (int64_t row = 0; row < to; ++row) {
      matrix[static_cast<size_t>(row * from + column)] =
          made.outputs[0].As<double>()[row];
    }
  }
  return matrix;
}

// The scales by side, from an input; 0 where sizes are given instead.
std::vector<double> ScalesOf(Rule& r, size_t input, const ops::Resize& op,
                             size_t rank) {
  std::vector<double> scales(rank, 0);
  if (!r.has(input)) return scales;
  const NDArray& data =
      r.writer().network().value(r.operation().inputs[input]).data;
  if (!data.defined()) {
    r.Refuse("unless its scales are constant");
    return scales;
  }
  const std::vector<double> given = ToDoubles(data);
  if (given.empty()) return scales;
  const Sizes axes = op.axes.value_or(Counting(0, static_cast<int64_t>(rank)));
  scales.assign(rank, 1);
  for (size_t i = 0; i < std::min(given.size(), axes.size()); ++i) {
    const int64_t axis =
        axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    scales[static_cast<size_t>(axis)] = given[i];
  }
  return scales;
}

// Returns whether a side that keeps its size keeps its elements, too.
bool KeepsElements(const ops::Resize& op) {
  return op.coordinate_transformation_mode !=
         ops::CoordinateRule::kTfHalfPixelForNn;
}

// One side after the other is multiplied by its matrix.
std::vector<Term> BySides(Rule& r, const ops::Resize& op, size_t scales_at) {
  Term y = r.x();
  const Sizes to = r.y().sizes();
  const std::vector<double> scales = ScalesOf(r, scales_at, op, to.size());
  for (size_t side = 0; side < to.size(); ++side) {
    if (!r.writer().status().ok()) return {y};
    Sizes sizes = y.sizes();
    const int64_t from = sizes[side];
    const bool is_same =
        scales[side] == 1 || (scales[side] == 0 && from == to[side]);
    if (is_same && KeepsElements(op)) continue;
    const auto matrix = MatrixOf(op, from, to[side], scales[side]);
    r.writer().Fail(matrix.status());
    if (!matrix.ok()) return {y};
    const Term weights =
        r.writer().Numbers(*matrix, y.dtype(), {to[side], from});
    const int64_t before = Product(absl::MakeConstSpan(sizes).first(side));
    const int64_t behind =
        Product(absl::MakeConstSpan(sizes).subspan(side + 1));
    const Term rows = ReshapeTo(y, {before, from, behind});
    sizes[side] = to[side];
    y = ReshapeTo(r.writer().Add(ops::MatMul{}, {weights, rows}), sizes);
  }
  return {y};
}

std::vector<Term> DefineResize(Rule& r) {
  const auto& op = r.As<ops::Resize>();
  if (op.coordinate_transformation_mode ==
      ops::CoordinateRule::kTfCropAndResize) {
    r.Refuse("with a crop");
  }
  if (op.keep_aspect_ratio_policy != ops::AspectRatio::kStretch) {
    r.Refuse("unless it stretches");
  }
  if (!r.writer().status().ok()) return {r.x()};
  return BySides(r, op, 2);
}

std::vector<Term> DefineUpsample(Rule& r) {
  ops::Resize op;
  op.mode = r.As<ops::Upsample>().mode;
  op.coordinate_transformation_mode = ops::CoordinateRule::kAsymmetric;
  op.nearest_mode = ops::NearestRule::kFloor;
  return BySides(r, op, 1);
}

constexpr Row kResizeRows[] = {
    DefinitionOf<ops::Resize>(&DefineResize),
    DefinitionOf<ops::Upsample>(&DefineUpsample),
};

}  // namespace

absl::Span<const Row> ResizeRows() { return kResizeRows; }

}  // namespace nodewise::gradient
