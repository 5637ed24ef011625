#include "nodewise/ops/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/tensor_moves.h"
#include "contrib/ops/util/wide_elements.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct NonZero : ops::NonZero {
  OutputInfos Infer(const Inputs& in) const {
    Shape sides(2);
    if (const auto rank = RankOf(in)) sides[0] = *rank;
    return OneOutput(kInt64, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const NDArray& x = args.in(0);
    std::vector<int64_t> found;
    NODEWISE_RETURN_IF_ERROR(WithWide(x.dtype(), [&](auto zero) {
      using W = decltype(zero);
      W block[kWideBlock];
      for (int64_t at = 0; at < CountOf(x); at += kWideBlock) {
        const int64_t n = std::min(kWideBlock, CountOf(x) - at);
        LoadWide(x, at, at + n, block);
        for (int64_t i = 0; i < n; ++i) {
          if (block[i] != 0) found.push_back(at + i);
        }
      }
      return absl::OkStatus();
    }));
    const auto rank = static_cast<int64_t>(x.shape().size());
    const auto count = static_cast<int64_t>(found.size());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, {rank, count}, kInt64));
    for (int64_t axis = rank; axis-- > 0;) {
      const int64_t size = x.shape()[static_cast<size_t>(axis)];
      int64_t* const to = y.As<int64_t>() + axis * count;
      for (int64_t i = 0; i < count; ++i) {
        int64_t& rest = found[static_cast<size_t>(i)];
        to[i] = rest % size;
        rest /= size;
      }
    }
    return absl::OkStatus();
  }
};

struct Compress : ops::Compress {
  static constexpr auto Fields() {
    return FieldList(Field<&Compress::axis>("axis"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireRank(in, 0, 1, INT32_MAX),
                                 RequireBool(in, 1), RequireRank(in, 1, 1)));
    const auto rank = RankOf(in);
    if (!rank.has_value() || !axis.has_value()) return absl::OkStatus();
    return Axis(*axis, *rank).status();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    Dim kept;
    if (const NDArray* const condition = in[1].constant) {
      const auto* const is_kept = condition->As<uint8_t>();
      kept = CountOf(*condition) -
             std::count(is_kept, is_kept + CountOf(*condition), 0);
    }
    if (!axis.has_value()) return OneOutput(dtype, Shape{kept});
    std::optional<Shape> sides = in.type(0).shape;
    if (sides.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(const int at,
                                Axis(*axis, static_cast<int>(sides->size())));
      (*sides)[static_cast<size_t>(at)] = kept;
    }
    return OneOutput(dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const NDArray& x = args.in(0);
    AxisSplit split{1, CountOf(x), 1};
    std::vector<int64_t> shape{0};
    size_t at = 0;
    if (axis.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(
          const int front, Axis(*axis, static_cast<int>(x.shape().size())));
      at = static_cast<size_t>(front);
      split = SplitAt(x.shape(), front);
      shape.assign(x.shape().begin(), x.shape().end());
    }
    std::vector<int64_t> kept;
    const int64_t conditions = CountOf(args.in(1));
    for (int64_t i = 0; i < conditions; ++i) {
      if (args.in(1).As<uint8_t>()[i] == 0) continue;
      if (i >= split.size) {
        return InputError(
            1, fmt::format("is true at {}, but there are {}", i, split.size));
      }
      kept.push_back(i);
    }
    shape[at] = static_cast<int64_t>(kept.size());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, shape, x.dtype()));
    const size_t run =
        static_cast<size_t>(split.inner) * ElementBytes(x.dtype());
    char* to = y.As<char>();
    for (int64_t outer = 0; run > 0 && outer < split.outer; ++outer) {
      for (const int64_t slice : kept) {
        const auto row = static_cast<size_t>(outer * split.size + slice);
        std::memcpy(to, x.As<char>() + row * run, run);
        to += run;
      }
    }
    return absl::OkStatus();
  }
};

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double OverlapOf(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double common = height * width;
  const double both = a.area() + b.area() - common;
  return both <= 0 ? 0 : common / both;
}

struct NonMaxSuppression : ops::NonMaxSuppression {
  static constexpr auto Fields() {
    return FieldList(
        Field<&NonMaxSuppression::center_point_box>("center_point_box"));
  }

  absl::Status Check(const Inputs& in) const {
    for (const size_t i : {0, 1, 3, 4}) {
      NODEWISE_RETURN_IF_ERROR(RequireType(in, i, kFloat32));
    }
    for (const size_t i : {2, 3, 4}) {
      NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 0, 1));
    }
    NODEWISE_RETURN_IF_ERROR(All(RequireRank(in, 0, 3), RequireRank(in, 1, 3),
                                 RequireType(in, 2, kInt64)));
    const Dim corners = SideOf(in, 0, 2);
    if (corners.is_known() && corners != Dim(4)) {
      return InputError(0, fmt::format("has boxes of {} numbers, expected "
                                       "4",
                                       corners.size()));
    }
    const auto batches = UniteDims(SideOf(in, 1, 0), SideOf(in, 0, 0));
    const auto boxes = UniteDims(SideOf(in, 1, 2), SideOf(in, 0, 1));
    for (const auto& both : {batches, boxes}) {
      if (!both.ok())
        return InputError(1, std::string(MessageOf(both.status())));
    }
    return absl::OkStatus();
  }
  OutputInfos Infer(const Inputs&) const {
    return OneOutput(kInt64, Shape{Dim(), 3});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const int64_t batches = args.shape(1)[0];
    const int64_t classes = args.shape(1)[1];
    const int64_t count = args.shape(1)[2];
    int64_t most = 0;
    if (args.has(2) && CountOf(args.in(2)) > 0) {
      most = *args.in(2).As<int64_t>();
    }
    std::vector<int64_t> selected;
    for (int64_t batch = 0; batch < batches && most > 0; ++batch) {
      const std::vector<Box> boxes = Boxes(args, batch, count);
      for (int64_t kind = 0; kind < classes; ++kind) {
        const float* const scores =
            args.in(1).As<float>() + (batch * classes + kind) * count;
        for (const int64_t box : Select(args, boxes, scores, most)) {
          selected.insert(selected.end(), {batch, kind, box});
        }
      }
    }
    const auto rows = static_cast<int64_t>(selected.size() / 3);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, {rows, 3}, kInt64));
    std::copy(selected.begin(), selected.end(), y.As<int64_t>());
    return absl::OkStatus();
  }

 private:
  std::vector<Box> Boxes(const EvalArgs& args, int64_t batch,
                         int64_t count) const {
    std::vector<Box> boxes;
    const float* numbers = args.in(0).As<float>() + batch * count * 4;
    for (int64_t i = 0; i < count; ++i, numbers += 4) {
      const double a = numbers[0];
      const double b = numbers[1];
      const double c = numbers[2];
      const double d = numbers[3];
      if (center_point_box) {
        boxes.push_back({b - d / 2, a - c / 2, b + d / 2, a + c / 2});
      } else {
        boxes.push_back(
            {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)});
      }
    }
    return boxes;
  }

  // The best boxes of one class, best first, the first of equal ones first.
  static std::vector<int64_t> Select(const EvalArgs& args,
                                     const std::vector<Box>& boxes,
                                     const float* scores, int64_t most) {
    const auto number = [&](size_t i) {
      return args.has(i) && CountOf(args.in(i)) > 0 ? *args.in(i).As<float>()
                                                    : 0.0F;
    };
    std::vector<int64_t> order;
    for (size_t i = 0; i < boxes.size(); ++i) {
      // Boxes whose score is NaN are not candidates.
      if (std::isnan(scores[i])) continue;
      if (args.has(4) && !(scores[i] > number(4))) continue;
      order.push_back(static_cast<int64_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return scores[a] > scores[b];
    });
    const double threshold = number(3);
    std::vector<int64_t> selected;
    for (const int64_t box : order) {
      if (static_cast<int64_t>(selected.size()) >= most) break;
      const bool is_covered =
          std::any_of(selected.begin(), selected.end(), [&](int64_t other) {
            return OverlapOf(boxes[static_cast<size_t>(box)],
                             boxes[static_cast<size_t>(other)]) > threshold;
          });
      if (!is_covered) selected.push_back(box);
    }
    return selected;
  }
};

constexpr OperatorDef kSelectRows[] = {
    Row<ops::NonZero, NonZero>(
        {.name = "NonZero", .since = 9, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Compress, Compress>({.name = "Compress",
                                  .since = 9,
                                  .inputs = {"input", "condition"},
                                  .outputs = {"output"}}),
    Row<ops::NonMaxSuppression, NonMaxSuppression>(
        {.name = "NonMaxSuppression",
         .since = 10,
         .inputs = {"boxes", "scores", Optional("max_output_boxes_per_class"),
                    Optional("iou_threshold"), Optional("score_threshold")},
         .outputs = {"selected_indices"}}),
};

}  // namespace

absl::Span<const OperatorDef> SelectOperators() { return kSelectRows; }

}  // namespace nodewise
