#pragma once

// Loops of operators that make one number out of many: where the elements of a
// result lie in the input, and how they are combined.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// The number of results that are calculated at a time.
inline constexpr int64_t kSliceMost = 128;
// The number of accumulators for a row, so that the processor need not wait.
inline constexpr int64_t kFoldLanes = 8;

// Sides of a compact tensor that are passed over one by one.
struct Walk {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t count = 1;  // The number of positions.

  void Add(int64_t size, int64_t stride);
  // Where position `i` lies.
  int64_t OffsetOf(int64_t i) const;
};

// How the elements of one result lie: rows of neighbours.
struct ReducePlan {
  Walk kept;          // The outer sides that stay, by element or by slice.
  Walk rows;          // The sides that go, but for the innermost.
  int64_t run = 1;    // Elements of a row that go into one result.
  int64_t inner = 1;  // Results side by side, each with a column; run is 1.
  int64_t count = 1;  // The number of results.
  int64_t terms = 1;  // Elements that go into one result.
};
// `is_reduced` says for each side whether it is reduced.
ReducePlan MakeReducePlan(absl::Span<const int64_t> shape,
                          const std::vector<bool>& is_reduced);

// Neighbouring results [out, out + n), and where their first row begins.
struct Slice {
  int64_t out = 0;
  int64_t n = 1;
  int64_t base = 0;
};
// Calls `f` for slices of up to kSliceMost results, in several threads; an
// element takes about `work` nanoseconds.
void ForEachSlice(const ReducePlan& plan, double work,
                  absl::FunctionRef<void(const Slice& slice)> f);
// Calls `f` with the place where each row of a slice begins.
template <typename F>
void ForEachRow(const ReducePlan& plan, const Slice& slice, F f) {
  const Walk& rows = plan.rows;
  if (rows.sizes.size() < 2) {
    const int64_t stride = rows.sizes.empty() ? 0 : rows.strides[0];
    for (int64_t i = 0; i < rows.count; ++i) f(slice.base + i * stride);
    return;
  }
  for (int64_t i = 0; i < rows.count; ++i) f(slice.base + rows.OffsetOf(i));
}

// Returns an element in the form used for calculations: 16-bit floats become
// doubles.
template <typename T>
auto Value(T x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return x;
  } else {
    return ToDouble(x);
  }
}

// totals[j] = step(totals[j], x, j) for every element of result j of a slice.
// Contiguous rows are added up in several lanes, each starting from totals[0],
// and `join` combines these.
template <typename T, typename Total, typename Step, typename Join>
void Fold(const ReducePlan& plan, const Slice& slice, const T* x, Total* totals,
          Step step, Join join) {
  if (plan.run == 1) {
    ForEachRow(plan, slice, [&](int64_t begin) {
      const T* const row = x + begin;
      for (int64_t j = 0; j < slice.n; ++j) {
        totals[j] = step(totals[j], Value(row[j]), j);
      }
    });
    return;
  }
  Total lanes[kFoldLanes];
  for (Total& lane : lanes) lane = totals[0];
  ForEachRow(plan, slice, [&](int64_t begin) {
    const T* const row = x + begin;
    int64_t i = 0;
    for (; i + kFoldLanes <= plan.run; i += kFoldLanes) {
      for (int64_t lane = 0; lane < kFoldLanes; ++lane) {
        lanes[lane] = step(lanes[lane], Value(row[i + lane]), 0);
      }
    }
    for (; i < plan.run; ++i) lanes[0] = step(lanes[0], Value(row[i]), 0);
  });
  for (int64_t lane = 1; lane < kFoldLanes; ++lane) {
    lanes[0] = join(lanes[0], lanes[lane]);
  }
  totals[0] = lanes[0];
}
// Totals that are added up from 0.
template <typename T, typename Total, typename Step>
void FoldSum(const ReducePlan& plan, const Slice& slice, const T* x,
             Total* totals, Step step) {
  std::fill(totals, totals + slice.n, Total{});
  Fold(
      plan, slice, x, totals,
      [&](Total total, auto value, int64_t j) {
        return total + step(value, j);
      },
      [](Total a, Total b) { return a + b; });
}

}  // namespace nodewise
