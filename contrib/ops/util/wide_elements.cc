#include "contrib/ops/util/wide_elements.h"

#include <bit>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

DLDataType WideTypeOf(double) { return kFloat64; }
DLDataType WideTypeOf(int64_t) { return kInt64; }
DLDataType WideTypeOf(uint64_t) { return kUint64; }

uint64_t SortKey(double x) {
  if (std::isnan(x)) return std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);  // -0 becomes 0.
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
uint64_t SortKey(int64_t x) {
  return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
}
uint64_t SortKey(uint64_t x) { return x; }

}  // namespace

void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, double* to) {
  LoadDoubles(tensor, begin, end, to);
}
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, int64_t* to) {
  (void)WithInteger(tensor.dtype(), [&](auto zero) {
    const auto* const from = tensor.As<decltype(zero)>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) {
      to[i] = static_cast<int64_t>(from[i]);
    }
    return absl::OkStatus();
  });
}
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, uint64_t* to) {
  // The signed type may stand for the unsigned one.
  LoadWide(tensor, begin, end, reinterpret_cast<int64_t*>(to));
}

void StoreWide(const double* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  StoreDoubles(from, begin, end, tensor);
}
void StoreWide(const uint64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  if (IsBool(tensor.dtype())) {
    auto* const to = tensor.As<uint8_t>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = from[i] != 0 ? 1 : 0;
    return;
  }
  (void)WithSize(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = tensor.As<T>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = static_cast<T>(from[i]);
    return absl::OkStatus();
  });
}
void StoreWide(const int64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor) {
  StoreWide(reinterpret_cast<const uint64_t*>(from), begin, end, tensor);
}

template <typename W>
const W* WideElements(const NDArray& tensor, std::vector<W>* copy) {
  if (tensor.dtype() == WideTypeOf(W{})) return tensor.As<W>();
  const int64_t count = CountOf(tensor);
  copy->resize(static_cast<size_t>(count));
  ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    LoadWide(tensor, begin, end, copy->data() + begin);
  });
  return copy->data();
}
template const double* WideElements(const NDArray&, std::vector<double>*);
template const int64_t* WideElements(const NDArray&, std::vector<int64_t>*);
template const uint64_t* WideElements(const NDArray&, std::vector<uint64_t>*);

template <typename W>
W* WideOutput(const NDArray& output, std::vector<W>* buffer) {
  if (output.dtype() == WideTypeOf(W{})) return output.As<W>();
  buffer->resize(static_cast<size_t>(CountOf(output)));
  return buffer->data();
}
template double* WideOutput(const NDArray&, std::vector<double>*);
template int64_t* WideOutput(const NDArray&, std::vector<int64_t>*);
template uint64_t* WideOutput(const NDArray&, std::vector<uint64_t>*);

std::vector<uint64_t> SortKeys(const NDArray& tensor) {
  const int64_t count = CountOf(tensor);
  std::vector<uint64_t> keys(static_cast<size_t>(count));
  (void)WithWide(tensor.dtype(), [&](auto zero) {
    using W = decltype(zero);
    ParallelFor(count, 2, [&](int64_t begin, int64_t end) {
      W block[kWideBlock];
      for (int64_t at = begin; at < end; at += kWideBlock) {
        const int64_t n = std::min(kWideBlock, end - at);
        LoadWide(tensor, at, at + n, block);
        for (int64_t i = 0; i < n; ++i) {
          keys[static_cast<size_t>(at + i)] = SortKey(block[i]);
        }
      }
    });
    return absl::OkStatus();
  });
  return keys;
}

template <typename W>
absl::Status MapBlocks(EvalArgs& args, double work, BlockFunction<W> f) {
  const NDArray& x = args.in(0);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutputOver(0, 0, x.shape(), x.dtype()));
  ParallelFor(CountOf(x), work, [&](int64_t begin, int64_t end) {
    W block[kWideBlock];
    for (int64_t at = begin; at < end; at += kWideBlock) {
      const int64_t next = std::min(at + kWideBlock, end);
      LoadWide(x, at, next, block);
      f(block, next - at);
      StoreWide(block, at, next, y);
    }
  });
  return absl::OkStatus();
}
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<double>);
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<int64_t>);
template absl::Status MapBlocks(EvalArgs&, double, BlockFunction<uint64_t>);

template <typename W>
absl::Status MapPairBlocks(EvalArgs& args, const Broadcast& plan,
                           DLDataType out_type, double work,
                           PairFunction<W> f) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray z,
                            args.MakeOutputOver(0, 0, plan.shape, out_type));
  const NDArray& x = args.in(0);
  const NDArray& y = args.in(1);
  ForEachRun(
      plan, work,
      [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
        W left[kWideBlock];
        W right[kWideBlock];
        for (int64_t i = 0; i < n; i += kWideBlock) {
          const int64_t m = std::min(kWideBlock, n - i);
          LoadWideSteps(x, at[0] + i * steps[0], steps[0], m, left);
          LoadWideSteps(y, at[1] + i * steps[1], steps[1], m, right);
          f(left, right, m);
          StoreWide(left, out + i, out + i + m, z);
        }
      });
  return absl::OkStatus();
}
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<double>);
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<int64_t>);
template absl::Status MapPairBlocks(EvalArgs&, const Broadcast&, DLDataType,
                                    double, PairFunction<uint64_t>);

}  // namespace nodewise
