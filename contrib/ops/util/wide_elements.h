#pragma once

// Loops over element types that are rarely met: their elements are read as one
// of three wide types, calculated with, and made short again. A loop over every
// element type by itself would take the compiler minutes.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// Wide elements that are calculated at a time: two lists of them stay in the
// first cache.
inline constexpr int64_t kWideBlock = 512;

// Calls f(W()) with the wide type that has all values of `dtype`: double for
// floats and Bools, int64_t and uint64_t for integers; refuses other types.
template <typename F>
absl::Status WithWide(DLDataType dtype, F&& f) {
  if (IsFloat(dtype) || IsBool(dtype)) return f(double{});
  if (!IsInteger(dtype)) return RefuseType(dtype, "an integer of 8 to 64 bits");
  if (IsUnsigned(dtype)) return f(uint64_t{});
  return f(int64_t{});
}

// Reads elements [begin, end) of a tensor with that wide type. Integers may be
// read as either of the two: as int64_t, uint64_t ones keep their bits.
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, double* to);
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, int64_t* to);
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, uint64_t* to);

// Reads elements begin, begin + step, ..., `n` in all. The innermost side of a
// Broadcast has steps of 0 or 1; others are slow.
template <typename W>
void LoadWideSteps(const NDArray& tensor, int64_t begin, int64_t step,
                   int64_t n, W* to) {
  if (step == 1) {
    LoadWide(tensor, begin, begin + n, to);
  } else if (step == 0) {
    LoadWide(tensor, begin, begin + 1, to);
    std::fill(to + 1, to + n, to[0]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = begin + i * step;
      LoadWide(tensor, at, at + 1, to + i);
    }
  }
}

// Writes elements [begin, end) of a tensor: doubles are rounded (FromDouble),
// integers lose their upper bits. In a Bool all but 0 is true.
void StoreWide(const double* from, int64_t begin, int64_t end,
               const NDArray& tensor);
void StoreWide(const int64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor);
void StoreWide(const uint64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor);

// Returns all elements in the wide type `W`: the tensor's own memory if they
// are of that type, else a copy that `copy` holds.
template <typename W>
const W* WideElements(const NDArray& tensor, std::vector<W>* copy);

// Returns where the results of an output are put as `W`: in the tensor's own
// memory if it is of that type, else in `buffer`, from which StoreOutput()
// takes them.
template <typename W>
W* WideOutput(const NDArray& output, std::vector<W>* buffer);
template <typename W>
void StoreOutput(const std::vector<W>& buffer, const NDArray& output) {
  if (buffer.empty()) return;
  StoreWide(buffer.data(), 0, CountOf(output), output);
}

// The ends of an integer type, as numbers of 64 bits.
template <typename W>
W LeastOf(DLDataType dtype) {
  return std::numeric_limits<W>::min() >> (64 - dtype.bits);
}
template <typename W>
W LargestOf(DLDataType dtype) {
  return std::numeric_limits<W>::max() >> (64 - dtype.bits);
}

// Integers that sort as the elements do: NaN is above all numbers and equal to
// itself, and 0 equal to -0. They can be compared within one tensor only.
std::vector<uint64_t> SortKeys(const NDArray& tensor);

// y = f(x) of input 0, of its type, block by block: f(x, n) replaces the
// elements, which it gets as `W`, by the results. An element takes about `work`
// nanoseconds.
// REQUIRES: LoadWide() reads the input as `W`.
template <typename W>
using BlockFunction = absl::FunctionRef<void(W* x, int64_t n)>;
template <typename W>
absl::Status MapBlocks(EvalArgs& args, double work, BlockFunction<W> f);

// z = f(x, y) of inputs 0 and 1 as `plan` lays them out: f(x, y, n) leaves the
// results in `x`.
// REQUIRES: LoadWide() reads both inputs as `W`.
template <typename W>
using PairFunction = absl::FunctionRef<void(W* x, const W* y, int64_t n)>;
template <typename W>
absl::Status MapPairBlocks(EvalArgs& args, const Broadcast& plan,
                           DLDataType out_type, double work, PairFunction<W> f);

// z = f(x, y) element by element, calculated in the inputs' wide type.
template <typename F>
absl::Status MapWide(EvalArgs& args, const Broadcast& plan, DLDataType out_type,
                     F f) {
  return WithWide(args.dtype(0), [&](auto zero) {
    using W = decltype(zero);
    return MapPairBlocks<W>(args, plan, out_type, 4,
                            [&f](W* x, const W* y, int64_t n) {
                              for (int64_t i = 0; i < n; ++i)
                                x[i] = static_cast<W>(f(x[i], y[i]));
                            });
  });
}

}  // namespace nodewise
