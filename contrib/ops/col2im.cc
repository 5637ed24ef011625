#include "nodewise/ops/col2im.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct Col2Im : ops::Col2Im {
  static constexpr auto Fields() {
    return FieldList(Field<&Col2Im::dilations>("dilations"),
                     Field<&Col2Im::pads>("pads"),
                     Field<&Col2Im::strides>("strides"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireRank(in, 0, 3), RequireType(in, 1, kInt64),
               RequireType(in, 2, kInt64), RequireRank(in, 1, 1),
               RequireRank(in, 2, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto image = ShapeFromInput(in, 1);
    const auto block = in.Ints(2);
    if (!image.has_value()) return OneOutput(dtype, std::nullopt);
    Shape shape{SideOf(in, 0, 0), Dim()};
    shape.insert(shape.end(), image->begin(), image->end());
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    if (!block.has_value()) return OneOutput(dtype, shape);
    NODEWISE_ASSIGN_OR_RETURN(const Plan plan, PlanOf(*image, *block));
    const Dim rows = SideOf(in, 0, 1);
    const Dim columns = SideOf(in, 0, 2);
    if (rows.is_known() && rows.size() % plan.block_size != 0) {
      return InputError(0, fmt::format("has {} rows, expected a multiple "
                                       "of {}",
                                       rows.size(), plan.block_size));
    }
    if (columns.is_known() && plan.num_blocks.is_known() &&
        columns.size() != plan.num_blocks.size()) {
      return InputError(0, fmt::format("has {} columns, expected {}",
                                       columns.size(), plan.num_blocks.size()));
    }
    if (rows.is_known()) shape[1] = rows.size() / plan.block_size;
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    return OneOutput(dtype, shape);
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  struct Plan {
    Window window;
    int64_t block_size = 1;
    Dim num_blocks = 1;
    std::vector<int64_t> counts;  // Blocks by side, where the sides are known.
  };
  absl::StatusOr<Plan> PlanOf(const Shape& image,
                              const std::vector<int64_t>& block) const;
  template <typename F>
  void ForEachTarget(const Plan& plan, absl::Span<const int64_t> image,
                     F f) const;
};

absl::StatusOr<Col2Im::Plan> Col2Im::PlanOf(
    const Shape& image, const std::vector<int64_t>& block) const {
  if (block.size() != image.size() || block.empty()) {
    return InputError(2, fmt::format("has {} sides, expected {}", block.size(),
                                     image.size()));
  }
  WindowAttributes attributes;
  attributes.kernel_shape = block;
  attributes.strides = strides;
  attributes.dilations = dilations;
  attributes.pads = pads;
  Plan plan;
  NODEWISE_ASSIGN_OR_RETURN(
      plan.window, ResolveWindow(attributes, static_cast<int>(block.size())));
  NODEWISE_ASSIGN_OR_RETURN(plan.block_size, NumElements(block));
  for (size_t side = 0; side < image.size(); ++side) {
    if (!image[side].is_known()) {
      plan.num_blocks = Dim();
      plan.counts.push_back(0);
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(plan.counts.emplace_back(),
                              WindowCount(plan.window, static_cast<int>(side),
                                          image[side].size(), false));
    plan.num_blocks = Times(plan.num_blocks, plan.counts.back());
  }
  return plan;
}

// Calls f(row, column, element): which element of the image a row and a column
// of the input go to, where it is inside.
template <typename F>
void Col2Im::ForEachTarget(const Plan& plan, absl::Span<const int64_t> image,
                           F f) const {
  const Window& window = plan.window;
  const std::vector<int64_t> image_strides = StridesOf(image);
  const int64_t columns = Product(plan.counts);
  for (int64_t row = 0; row < plan.block_size; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      int64_t tap = row;
      int64_t block = column;
      int64_t element = 0;
      bool is_inside = true;
      for (size_t side = image.size(); side-- > 0;) {
        const int64_t at = block % plan.counts[side] * window.strides[side] +
                           tap % window.kernel[side] * window.dilations[side] -
                           window.pads[side];
        is_inside &= at >= 0 && at < image[side];
        element += at * image_strides[side];
        block /= plan.counts[side];
        tap /= window.kernel[side];
      }
      if (is_inside) f(row, column, element);
    }
  }
}

absl::Status Col2Im::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  NODEWISE_ASSIGN_OR_RETURN(const auto block, args.Ints(2));
  const absl::Span<const int64_t> image = y.shape().subspan(2);
  NODEWISE_ASSIGN_OR_RETURN(const Plan plan,
                            PlanOf(Shape(image.begin(), image.end()), block));
  const int64_t columns = args.shape(0)[2];
  const int64_t planes = y.shape()[0] * y.shape()[1];
  const int64_t image_size = Product(image);
  Bounds* const bounds = args.bounds(0);
  const auto count = static_cast<size_t>(CountOf(y));
  // Integers wrap around; sums of 64 bits do that for narrower ones too.
  if (IsInteger(y.dtype())) {
    if (bounds != nullptr) bounds->proved.assign(count, 0);
    if (bounds != nullptr) bounds->expected = bounds->proved;
    return WithInteger(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(y.As<T>(), count, T{0});
      ForEachTarget(plan, image, [&](int64_t row, int64_t column, int64_t to) {
        for (int64_t plane = 0; plane < planes; ++plane) {
          const int64_t from =
              (plane * plan.block_size + row) * columns + column;
          T& sum = y.As<T>()[plane * image_size + to];
          sum = static_cast<T>(static_cast<uint64_t>(sum) +
                               static_cast<uint64_t>(args.in(0).As<T>()[from]));
        }
      });
      return absl::OkStatus();
    });
  }
  const std::vector<double> x = ToDoubles(args.in(0));
  std::vector<double> sums(count, 0);
  std::vector<SumOfTerms> terms(bounds != nullptr ? count : 0);
  ForEachTarget(plan, image, [&](int64_t row, int64_t column, int64_t to) {
    for (int64_t plane = 0; plane < planes; ++plane) {
      const auto from = static_cast<size_t>(
          (plane * plan.block_size + row) * columns + column);
      const auto element = static_cast<size_t>(plane * image_size + to);
      sums[element] += x[from];
      if (bounds == nullptr) continue;
      terms[element].terms += 1;
      terms[element].absolute += std::fabs(x[from]);
      terms[element].squares += x[from] * x[from];
    }
  });
  StoreDoubles(sums.data(), 0, CountOf(y), y);
  if (bounds == nullptr) return absl::OkStatus();
  bounds->proved.resize(count);
  bounds->expected.resize(count);
  for (size_t i = 0; i < count; ++i) {
    terms[i].result = sums[i];
    const SumBound bound = BoundSum(y.dtype(), terms[i]);
    bounds->proved[i] = bound.proved;
    bounds->expected[i] = bound.expected;
  }
  return absl::OkStatus();
}

constexpr OperatorDef kCol2imRows[] = {
    Row<ops::Col2Im, Col2Im>({.name = "Col2Im",
                              .since = 18,
                              .inputs = {"input", "image_shape", "block_shape"},
                              .outputs = {"output"},
                              .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> Col2ImOperators() { return kCol2imRows; }

}  // namespace nodewise
