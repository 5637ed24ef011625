#include "contrib/ops/util/reduce_loops.h"

namespace nodewise {

void Walk::Add(int64_t size, int64_t stride) {
  sizes.push_back(size);
  strides.push_back(stride);
  count *= size;
}

int64_t Walk::OffsetOf(int64_t i) const {
  int64_t offset = 0;
  for (size_t side = sizes.size(); side-- > 0;) {
    offset += i % sizes[side] * strides[side];
    i /= sizes[side];
  }
  return offset;
}

ReducePlan MakeReducePlan(absl::Span<const int64_t> shape,
                          const std::vector<bool>& is_reduced) {
  struct Group {
    int64_t size;
    int64_t stride;
    bool is_reduced;
  };
  std::vector<Group> groups;
  const std::vector<int64_t> strides = StridesOf(shape);
  ReducePlan plan;
  for (size_t i = 0; i < shape.size(); ++i) {
    (is_reduced[i] ? plan.terms : plan.count) *= shape[i];
    if (shape[i] == 1) continue;
    if (!groups.empty() && groups.back().is_reduced == is_reduced[i]) {
      groups.back().size *= shape[i];
      groups.back().stride = strides[i];
    } else {
      groups.push_back({shape[i], strides[i], is_reduced[i]});
    }
  }
  if (plan.terms == 0) {
    // No strides matter any more, and no row is ever read.
    plan.rows.count = 0;
    plan.inner = plan.count;
    return plan;
  }
  if (!groups.empty()) {
    (groups.back().is_reduced ? plan.run : plan.inner) = groups.back().size;
    groups.pop_back();
  }
  for (const Group& group : groups) {
    (group.is_reduced ? plan.rows : plan.kept).Add(group.size, group.stride);
  }
  return plan;
}

void ForEachSlice(const ReducePlan& plan, double work,
                  absl::FunctionRef<void(const Slice& slice)> f) {
  const double work_of_one =
      work * static_cast<double>(std::max<int64_t>(plan.terms, 1));
  ParallelFor(plan.count, work_of_one, [&](int64_t begin, int64_t end) {
    for (int64_t out = begin; out < end;) {
      const int64_t inside = out % plan.inner;
      const int64_t n = std::min({kSliceMost, plan.inner - inside, end - out});
      f({out, n, plan.kept.OffsetOf(out / plan.inner) + inside});
      out += n;
    }
  });
}

}  // namespace nodewise
