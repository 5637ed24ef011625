#include "nodewise/ops/sort.h"

#include <algorithm>
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

// k was an attribute until opset 10; largest and sorted came with 11. The
// result is sorted even if that is not asked for.
struct TopK : ops::TopK {
  static constexpr auto Fields() {
    return FieldList(Field<&TopK::axis>("axis"),
                     Field<&TopK::largest>("largest"),
                     Field<&TopK::sorted>("sorted"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireNumber(in, 0), RequireRank(in, 0, 1, INT32_MAX),
            RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1)));
    const auto rank = RankOf(in);
    return rank.has_value() ? Axis(axis, *rank).status() : absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType values = in.type(0);
    TensorType indices(kInt64);
    if (values.has_rank()) {
      NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, values.rank()));
      Dim& side = (*values.shape)[static_cast<size_t>(at)];
      const auto k = in.Ints(1);
      if (k.has_value() && k->size() != 1) {
        return InputError(1, "is not one number");
      }
      if (k.has_value() &&
          ((*k)[0] < 0 || (side.is_known() && (*k)[0] > side.size()))) {
        return InputError(1, fmt::format("is {} for a side of {}", (*k)[0],
                                         ToString(Shape{side})));
      }
      side = k.has_value() ? Dim((*k)[0]) : Dim();
      indices.shape = values.shape;
    }
    return OutputInfos{values, indices};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray values, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray indices, args.MakeOutput(1));
    NODEWISE_ASSIGN_OR_RETURN(
        const int at, Axis(axis, static_cast<int>(args.shape(0).size())));
    const AxisSplit split = SplitAt(args.shape(0), at);
    const int64_t k = values.shape()[static_cast<size_t>(at)];
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
              TakeFirst(keys.data() + first, split.inner, k, &order);
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
      return absl::OkStatus();
    });
  }

 private:
  // The first `k` places of a lane in order.
  void TakeFirst(const uint64_t* keys, int64_t stride, int64_t k,
                 std::vector<int64_t>* order) const {
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

class SliceOrder {
 public:
  SliceOrder(const NDArray& x, const AxisSplit& split)
      : keys_(SortKeys(x)), split_(split) {}

  int Compared(int64_t a, int64_t b) const {
    for (int64_t outer = 0; outer < split_.outer; ++outer) {
      for (int64_t inner = 0; inner < split_.inner; ++inner) {
        const uint64_t key_a = KeyAt(outer, a, inner);
        const uint64_t key_b = KeyAt(outer, b, inner);
        if (key_a != key_b) return key_a < key_b ? -1 : 1;
      }
    }
    return 0;
  }

 private:
  uint64_t KeyAt(int64_t outer, int64_t slice, int64_t inner) const {
    const int64_t at = (outer * split_.size + slice) * split_.inner + inner;
    return keys_[static_cast<size_t>(at)];
  }

  std::vector<uint64_t> keys_;
  AxisSplit split_;
};

Groups FindGroups(const NDArray& x, const AxisSplit& split, bool is_sorted) {
  const SliceOrder slices(x, split);
  std::vector<int64_t> order(static_cast<size_t>(split.size));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return slices.Compared(a, b) < 0;
  });
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
  // Renumber the groups by first occurrence.
  std::vector<int64_t> rank(groups.first.size());
  std::iota(rank.begin(), rank.end(), 0);
  std::sort(rank.begin(), rank.end(), [&](int64_t a, int64_t b) {
    return groups.first[static_cast<size_t>(a)] <
           groups.first[static_cast<size_t>(b)];
  });
  Groups ordered;
  std::vector<int64_t> moved(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) {
    const auto old = static_cast<size_t>(rank[i]);
    ordered.first.push_back(groups.first[old]);
    ordered.count.push_back(groups.count[old]);
    moved[old] = static_cast<int64_t>(i);
  }
  for (const int64_t group : groups.inverse) {
    ordered.inverse.push_back(moved[static_cast<size_t>(group)]);
  }
  return ordered;
}

struct Unique : ops::Unique {
  static constexpr auto Fields() {
    return FieldList(Field<&Unique::axis>("axis"),
                     Field<&Unique::sorted>("sorted"));
  }

  absl::Status Check(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value() || !axis.has_value()) return absl::OkStatus();
    return Axis(*axis, *rank).status();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t count) const {
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
    const NDArray& x = args.in(0);
    AxisSplit split{1, CountOf(x), 1};
    std::vector<int64_t> shape{split.size};
    size_t at = 0;
    if (axis.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(
          const int front, Axis(*axis, static_cast<int>(x.shape().size())));
      at = static_cast<size_t>(front);
      split = SplitAt(x.shape(), front);
      shape.assign(x.shape().begin(), x.shape().end());
    }
    NODEWISE_RETURN_IF_ERROR(
        WithWide(x.dtype(), [](auto) { return absl::OkStatus(); }));
    const Groups groups = FindGroups(x, split, sorted);
    shape[at] = static_cast<int64_t>(groups.first.size());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, shape, x.dtype()));
    CopySlices(x, split, groups.first, y);
    const std::vector<int64_t>* const lists[] = {&groups.first, &groups.inverse,
                                                 &groups.count};
    for (size_t i = 0; i < std::size(lists); ++i) {
      if (!args.wants(i + 1)) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          const NDArray list,
          args.MakeOutput(i + 1, {static_cast<int64_t>(lists[i]->size())},
                          kInt64));
      std::copy(lists[i]->begin(), lists[i]->end(), list.As<int64_t>());
    }
    return absl::OkStatus();
  }

 private:
  static void CopySlices(const NDArray& x, const AxisSplit& split,
                         const std::vector<int64_t>& slices, const NDArray& y) {
    const size_t run =
        static_cast<size_t>(split.inner) * ElementBytes(x.dtype());
    if (run == 0) return;
    char* to = y.As<char>();
    for (int64_t outer = 0; outer < split.outer; ++outer) {
      for (const int64_t slice : slices) {
        const auto row = static_cast<size_t>(outer * split.size + slice);
        std::memcpy(to, x.As<char>() + row * run, run);
        to += run;
      }
    }
  }
};

constexpr OperatorDef kSortRows[] = {
    Row<ops::TopK, TopK>({.name = "TopK",
                          .since = 1,
                          .inputs = {"X", "K"},
                          .outputs = {"Values", "Indices"},
                          .moved = {{"k", 1, 10, true}}}),
    Row<ops::Unique, Unique>(
        {.name = "Unique",
         .since = 11,
         .inputs = {"X"},
         .outputs = {"Y", Optional("indices"), Optional("inverse_indices"),
                     Optional("counts")}}),
};

}  // namespace

absl::Span<const OperatorDef> SortOperators() { return kSortRows; }

}  // namespace nodewise
