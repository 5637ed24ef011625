#include "nodewise/align/similar_inputs.h"

#include <cstring>
#include <utility>

#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// As many numbers as fit RandomSource::Between().
constexpr int64_t kMostChoices = int64_t{1} << 31;

absl::StatusOr<NDArray> DrawSimilarTensor(const NDArray& like,
                                          RandomSource* source) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, like.CopyToHost());
  const int64_t count = CountOf(drawn);
  if (count == 0) return drawn;
  const TensorStats stats = StatsOf(*drawn);
  if (IsFloat(drawn.dtype()) && stats.nans + stats.infinities == 0 &&
      stats.min < stats.max) {
    const double middle = stats.min / 2 + stats.max / 2;
    const double reach = stats.max / 2 - stats.min / 2;
    NODEWISE_RETURN_IF_ERROR(WithFloat(drawn.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < count; ++i) {
        drawn.As<T>()[i] = FromDouble<T>(middle + reach * source->Symmetric());
      }
      return absl::OkStatus();
    }));
    return drawn;
  }
  const size_t size = drawn.bytes() / static_cast<size_t>(count);
  auto* const to = drawn.As<uint8_t>();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray from, like.CopyToHost());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t choice =
        source->Between(0, std::min(count, kMostChoices) - 1);
    std::memcpy(to + static_cast<size_t>(i) * size,
                from.As<uint8_t>() + static_cast<size_t>(choice) * size, size);
  }
  return drawn;
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> DrawSimilar(
    absl::Span<const NamedTensor> inputs, uint64_t seed) {
  std::vector<NamedTensor> drawn;
  for (const NamedTensor& input : inputs) {
    RandomSource source(seed, input.name);
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              DrawSimilarTensor(input.tensor, &source));
    drawn.push_back({input.name, std::move(tensor)});
  }
  return drawn;
}

}  // namespace nodewise
