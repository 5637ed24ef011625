#include "nodewise/ops/selection.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {
namespace {

// Makes output 0 of some of the slices of input 0, in the order given: a slice
// is all that has one index along the axis in common. Without an axis the
// elements are one list.
absl::Status PickSlices(EvalArgs& args, const std::optional<int64_t>& axis,
                        const AxisSplit& split,
                        const std::vector<int64_t>& slices) {
  const NDArray& x = args.in(0);
  std::vector<int64_t> shape{0};
  if (axis.has_value()) shape.assign(x.shape().begin(), x.shape().end());
  shape[split.axis] = static_cast<int64_t>(slices.size());
  NODEWISE_ASSIGN_OR_RETURN(const auto y, args.MakeOutput(0, shape, x.dtype()));
  const size_t run = static_cast<size_t>(split.inner) * ElementBytes(x.dtype());
  char* to = y.As<char>();
  for (int64_t outer = 0; run > 0 && outer < split.outer; ++outer) {
    for (const int64_t slice : slices) {
      const auto row = static_cast<size_t>(outer * split.size + slice);
      std::memcpy(to, x.As<char>() + row * run, run);
      to += run;
    }
  }
  return absl::OkStatus();
}
absl::Status RequireGivenAxis(const Inputs& in,
                              const std::optional<int64_t>& axis) {
  return axis.has_value() ? RequireAxis(in, *axis) : absl::OkStatus();
}

// How many elements are not 0 is known only once all have been looked at. They
// are found as numbers in the order of the memory first.
struct NonZero : ops::NonZero {
  OutputInfos Infer(const Inputs& in) const {
    // One row for each axis; how many columns there are depends on the data.
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
    }));
    const auto rank = static_cast<int64_t>(x.shape().size());
    const auto count = static_cast<int64_t>(found.size());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, {rank, count}, kInt64));
    // A row for each axis: the numbers found are taken apart from the last axis
    // on.
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

struct Compress : WithAxis<ops::Compress> {
  absl::Status Check(const Inputs& in) const {
    return All(RequireRank(in, 0, 1, INT32_MAX), RequireBool(in, 1),
               RequireRank(in, 1, 1), RequireGivenAxis(in, axis));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    // A condition that is constant says how many slices are kept.
    Dim kept;
    if (const NDArray* const condition = in[1].constant) {
      const auto* const is_kept = condition->As<uint8_t>();
      kept = CountOf(*condition) -
             std::count(is_kept, is_kept + CountOf(*condition), 0);
    }
    if (!axis.has_value()) return OfInputType(in, Shape{kept});
    std::optional<Shape> sides = in.type(0).shape;
    if (sides.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(const int at,
                                Axis(*axis, static_cast<int>(sides->size())));
      (*sides)[static_cast<size_t>(at)] = kept;
    }
    return OfInputType(in, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto split, SplitAlong(args.in(0), axis));
    // The condition may be shorter than the side: what lies beyond goes.
    std::vector<int64_t> kept;
    const int64_t conditions = CountOf(args.in(1));
    for (int64_t i = 0; i < conditions; ++i) {
      if (args.in(1).As<uint8_t>()[i] == 0) continue;
      if (i >= split.size) {
        return WrongInput(1, "is true at {}, but there are {}", i, split.size);
      }
      kept.push_back(i);
    }
    return PickSlices(args, axis, split, kept);
  }
};

// A box by its sides, which are in order.
struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

// The share that two boxes have in common of what they cover together.
double OverlapOf(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double common = height * width;
  // Boxes without an area overlap nothing.
  const double both = a.area() + b.area() - common;
  return both <= 0 ? 0 : common / both;
}

// For each class of each image boxes are taken from the best score down, and
// one is left out if it overlaps one that was taken by more than the threshold.
// The result has a row for each box taken: the image, the class, the box.
struct NonMaxSuppression : ops::NonMaxSuppression {
  static constexpr auto Fields() {
    return FieldList(
        Field<&NonMaxSuppression::center_point_box>("center_point_box"));
  }

  absl::Status Check(const Inputs& in) const {
    // Inputs are boxes, scores, the most boxes of a class, and two thresholds.
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
      return WrongInput(0, "has boxes of {} numbers, expected 4",
                        corners.size());
    }
    const auto batches = UniteDims(SideOf(in, 1, 0), SideOf(in, 0, 0));
    const auto boxes = UniteDims(SideOf(in, 1, 2), SideOf(in, 0, 1));
    return All(AtInput(1, batches.status()), AtInput(1, boxes.status()));
  }
  OutputInfos Infer(const Inputs&) const {
    return OneOutput(kInt64, Shape{Dim(), 3});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const int64_t batches = args.shape(1)[0];
    const int64_t classes = args.shape(1)[1];
    const int64_t count = args.shape(1)[2];
    // Without a limit nothing is selected: its default is 0.
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
    std::ranges::copy(selected, y.As<int64_t>());
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
      // A centre and sizes have the horizontal number first, corners the
      // vertical one; and two corners may be any that lie opposite each other.
      if (center_point_box) {
        boxes.push_back({b - d / 2, a - c / 2, b + d / 2, a + c / 2});
      } else {
        boxes.push_back(
            {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)});
      }
    }
    return boxes;
  }

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
    // Stable, so that the first of equal boxes stays first.
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    // A threshold of 0, the default, lets no box overlap a better one at all.
    const double threshold = number(3);
    std::vector<int64_t> selected;
    for (const int64_t box : order) {
      if (static_cast<int64_t>(selected.size()) >= most) break;
      if (std::ranges::none_of(selected, [&](int64_t other) {
            return OverlapOf(boxes[static_cast<size_t>(box)],
                             boxes[static_cast<size_t>(other)]) > threshold;
          })) {
        selected.push_back(box);
      }
    }
    return selected;
  }
};

// k was an attribute until opset 10; largest and sorted came with 11. The
// result is sorted even if that is not asked for.
struct TopK : ops::TopK {
  static constexpr auto Fields() {
    return FieldList(Field<&TopK::axis>("axis"),
                     Field<&TopK::largest>("largest"),
                     Field<&TopK::sorted>("sorted"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), RequireRank(in, 0, 1, INT32_MAX),
               RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1),
               RequireAxis(in, axis));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType values = in.type(0);
    TensorType indices(kInt64);
    if (values.has_rank()) {
      NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, values.rank()));
      Dim& side = (*values.shape)[static_cast<size_t>(at)];
      // k is a list of one number, as a rule a constant.
      const auto k = in.Ints(1);
      if (k.has_value() && k->size() != 1) {
        return InputError(1, "is not one number");
      }
      if (k.has_value() &&
          ((*k)[0] < 0 || (side.is_known() && (*k)[0] > side.size()))) {
        return WrongInput(1, "is {} for a side of {}", (*k)[0],
                          ToString(Shape{side}));
      }
      side = k.has_value() ? Dim((*k)[0]) : Dim();
      indices.shape = values.shape;
    }
    return OutputInfos{values, indices};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray values, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray indices, args.MakeOutput(1));
    NODEWISE_ASSIGN_OR_RETURN(const AxisSplit split,
                              SplitAlong(args.shape(0), axis));
    const int64_t k = values.shape()[split.axis];
    // All types are compared as integers, so that the loop is compiled once for
    // each size of elements, not for each type.
    const std::vector<uint64_t> keys = SortKeys(args.in(0));
    return WithSize(values.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const double work = 20 * static_cast<double>(split.size);
      ParallelFor(
          split.outer * split.inner, work, [&](int64_t begin, int64_t end) {
            std::vector<int64_t> order(static_cast<size_t>(split.size));
            for (int64_t lane = begin; lane < end; ++lane) {
              const int64_t outer = lane / split.inner;
              const int64_t inner = lane % split.inner;
              const int64_t first = outer * split.size * split.inner + inner;
              SortFirst(keys.data() + first, split.inner, k, &order);
              const T* const from = args.in(0).As<T>() + first;
              const int64_t to = outer * k * split.inner + inner;
              for (int64_t i = 0; i < k; ++i) {
                const int64_t index = order[static_cast<size_t>(i)];
                values.As<T>()[to + i * split.inner] =
                    from[index * split.inner];
                indices.As<int64_t>()[to + i * split.inner] = index;
              }
            }
          });
    });
  }

 private:
  // The first `k` places of a lane in order; of equal elements the first one
  // comes first, as ONNX wants it.
  void SortFirst(const uint64_t* keys, int64_t stride, int64_t k,
                 std::vector<int64_t>* order) const {
    // Places, of which only the first k are put in order: cheaper than sorting
    // all.
    std::iota(order->begin(), order->end(), 0);
    const auto is_before = [&](int64_t a, int64_t b) {
      const uint64_t key_a = keys[a * stride];
      const uint64_t key_b = keys[b * stride];
      return key_a == key_b ? a < b : (key_a > key_b) == largest;
    };
    std::partial_sort(order->begin(), order->begin() + k, order->end(),
                      is_before);
  }
};

// The groups of equal slices of a tensor.
struct Groups {
  std::vector<int64_t> first;    // By group, the first slice of it.
  std::vector<int64_t> count;    // By group.
  std::vector<int64_t> inverse;  // By slice, its group.
};

// The slices of a tensor in the order of their elements, as words are in that
// of their letters.
struct SliceOrder {
  std::vector<uint64_t> keys;
  AxisSplit split;

  int Compared(int64_t a, int64_t b) const {
    for (int64_t outer = 0; outer < split.outer; ++outer) {
      for (int64_t inner = 0; inner < split.inner; ++inner) {
        const uint64_t key_a = KeyAt(outer, a, inner);
        const uint64_t key_b = KeyAt(outer, b, inner);
        if (key_a != key_b) return key_a < key_b ? -1 : 1;
      }
    }
    return 0;
  }
  uint64_t KeyAt(int64_t outer, int64_t slice, int64_t inner) const {
    const int64_t at = (outer * split.size + slice) * split.inner + inner;
    return keys[static_cast<size_t>(at)];
  }
};

// Equal slices lie beside each other once all are sorted. Sorting is stable, so
// that the first of a group is the one that occurs first.
Groups FindGroups(const NDArray& x, const AxisSplit& split, bool is_sorted) {
  const SliceOrder slices{SortKeys(x), split};
  std::vector<int64_t> order(static_cast<size_t>(split.size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return slices.Compared(a, b) < 0; });
  Groups groups;
  groups.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.Compared(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.inverse[static_cast<size_t>(order[i])] =
        static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (is_sorted) return groups;
  // The walk over the slices meets the groups in the order of their first
  // occurrence, in which they are numbered anew. `moved` says where a group has
  // gone.
  Groups ordered;
  std::vector<int64_t> moved(groups.first.size(), -1);
  for (const int64_t group : groups.inverse) {
    const auto old = static_cast<size_t>(group);
    if (moved[old] < 0) {
      moved[old] = static_cast<int64_t>(ordered.first.size());
      ordered.first.push_back(groups.first[old]);
      ordered.count.push_back(groups.count[old]);
    }
    ordered.inverse.push_back(moved[old]);
  }
  return ordered;
}

struct Unique : ops::Unique {
  static constexpr auto Fields() {
    return FieldList(Field<&Unique::axis>("axis"),
                     Field<&Unique::sorted>("sorted"));
  }

  absl::Status Check(const Inputs& in) const {
    return RequireGivenAxis(in, axis);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
    // Besides the slices there are the first place of each, the group of each
    // slice of the input, and how many slices each group has.
    TensorType y = in.type(0);
    TensorType list(kInt64, UnknownShape(1));
    TensorType inverse = list;
    if (!axis.has_value()) {
      if (y.has_rank()) {
        inverse.shape = Shape{ProductOf(*y.shape, 0, y.shape->size())};
      }
      y.shape = UnknownShape(1);
    } else if (y.has_rank()) {
      NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(*axis, y.rank()));
      inverse.shape = Shape{(*y.shape)[static_cast<size_t>(at)]};
      (*y.shape)[static_cast<size_t>(at)] = Dim();
    }
    OutputInfos infos{y, list, inverse, list};
    infos.resize(std::min(infos.size(), count));
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto split, SplitAlong(args.in(0), axis));
    // SortKeys() has no keys for types that are not calculated with, so these
    // are refused first.
    NODEWISE_RETURN_IF_ERROR(WithWide(args.dtype(0), [](auto) {}));
    const Groups groups = FindGroups(args.in(0), split, sorted);
    NODEWISE_RETURN_IF_ERROR(PickSlices(args, axis, split, groups.first));
    // In the order of the outputs.
    const std::vector<int64_t>* const lists[] = {&groups.first, &groups.inverse,
                                                 &groups.count};
    for (size_t i = 0; i < std::size(lists); ++i) {
      // All three are optional.
      if (!args.wants(i + 1)) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          const NDArray list,
          args.MakeOutput(i + 1, {static_cast<int64_t>(lists[i]->size())},
                          kInt64));
      std::ranges::copy(*lists[i], list.As<int64_t>());
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kSelectionRows[] = {
    Row<ops::NonZero, NonZero>("NonZero", 9, {"X"}, {"Y"}),
    Row<ops::Compress, Compress>("Compress", 9, {"input", "condition"},
                                 {"output"}),
    Row<ops::NonMaxSuppression, NonMaxSuppression>(
        "NonMaxSuppression", 10,
        {"boxes", "scores", Optional("max_output_boxes_per_class"),
         Optional("iou_threshold"), Optional("score_threshold")},
        {"selected_indices"}),
    Row<ops::TopK, TopK>({.name = "TopK",
                          .since = 1,
                          .inputs = {"X", "K"},
                          .outputs = {"Values", "Indices"},
                          .moved = {{"k", 1, 10, true}}}),
    Row<ops::Unique, Unique>("Unique", 11, {"X"},
                             {"Y", Optional("indices"),
                              Optional("inverse_indices"), Optional("counts")}),
};

}  // namespace

absl::Span<const OperatorDef> SelectionOperators() { return kSelectionRows; }

}  // namespace nodewise
