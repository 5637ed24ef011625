#pragma once

// What MatMul, Gemm and their relatives share; only for their files.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nodewise/kernels/matrix_product.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// One matrix product, or several whose factors begin at these elements.
struct MatrixOperands {
  ProductSizes sizes;
  Factor left;
  Factor right;
  std::vector<int64_t> left_begins = {0};  // By item.
  std::vector<int64_t> right_begins = {0};
};

// Multiplies in double.
void MultiplyFactors(const MatrixOperands& operands, Terms terms,
                     StoreTile store);
// As SumTermsAt().
void SumFactorTermsAt(const MatrixOperands& operands,
                      absl::Span<const int64_t> elements, Bounds* bounds);

// Returns the integer modulo 2^64.
template <typename T>
uint64_t Wrapped(T integer) {
  if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(int64_t{integer});
  } else {
    return integer;
  }
}

// Multiplies integers modulo 2^64; calls store(item, row, sums) for every row.
template <typename T>
void MultiplyIntegers(
    const MatrixOperands& operands,
    absl::FunctionRef<void(int64_t item, int64_t row, const uint64_t* sums)>
        store) {
  const ProductSizes& sizes = operands.sizes;
  const Factor& left = operands.left;
  const Factor& right = operands.right;
  const auto work = static_cast<double>(sizes.columns * (sizes.depth + 1));
  const auto range = [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> sums(static_cast<size_t>(sizes.columns));
    for (int64_t at = begin; at < end; ++at) {
      const auto item = static_cast<size_t>(at / sizes.rows);
      const T* const a = static_cast<const T*>(left.data) +
                         operands.left_begins[item] +
                         at % sizes.rows * left.line_stride;
      const T* const b =
          static_cast<const T*>(right.data) + operands.right_begins[item];
      std::fill(sums.begin(), sums.end(), 0);
      for (int64_t k = 0; k < sizes.depth; ++k) {
        const uint64_t factor = Wrapped(a[k * left.step_stride]);
        const T* const row = b + k * right.step_stride;
        for (int64_t j = 0; j < sizes.columns; ++j) {
          sums[static_cast<size_t>(j)] +=
              factor * Wrapped(row[j * right.line_stride]);
        }
      }
      store(at / sizes.rows, at % sizes.rows, sums.data());
    }
  };
  ParallelFor(sizes.items * sizes.rows, work, range);
}

}  // namespace nodewise
