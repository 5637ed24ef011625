// More inputs like those at hand. A tensor of many different numbers is taken
// for a sample of what the network reads, so that others are chosen from it;
// one of a few says no more than the range; and masks, integers and truth
// values stay what they are, since not all others need be legal.

#include "nodewise/align/similar_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "contrib/align/align_limits.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A tensor with kManyChoices different numbers is a sample to choose from, so
// there is no need to count on.
std::set<double> NumbersIn(const NDArray& tensor) {
  std::set<double> seen;
  for (const double number : ToDoubles(tensor)) {
    seen.insert(number);
    if (seen.size() == kManyChoices) break;
  }
  return seen;
}

struct Range {
  double middle = 0;
  double reach = 0;
};

// One number alone may be anything of its sign and about its size; several may
// be what lies between them. Zeros and another whole number are a mask, and
// chosen among.
std::optional<Range> RangeToDrawIn(const NDArray& tensor) {
  const TensorStats stats = StatsOf(*tensor);
  if (!IsFloat(tensor.dtype()) || stats.nans + stats.infinities > 0) {
    return std::nullopt;
  }
  if (stats.min == stats.max) {
    // A tensor of zeros does not say how large other numbers may be.
    if (stats.min == 0) return Range{kNeighbourhood, kNeighbourhood};
    return Range{stats.min, kNeighbourhood * std::fabs(stats.min)};
  }
  const std::set<double> numbers = NumbersIn(tensor);
  const auto is_whole = [](double number) {
    return number == std::nearbyint(number);
  };
  const bool is_mask = numbers.size() == 2 && numbers.count(0) > 0 &&
                       std::ranges::all_of(numbers, is_whole);
  if (is_mask || numbers.size() >= kManyChoices) return std::nullopt;
  const double middle = stats.min / 2 + stats.max / 2;
  double reach = stats.max / 2 - stats.min / 2;
  // Numbers that are nearly one have the neighbourhood of one.
  if (stats.min > 0 || stats.max < 0) {
    reach = std::max(reach, kNeighbourhood * std::fabs(middle));
  }
  return Range{middle, reach};
}

absl::StatusOr<NDArray> DrawSimilarTensor(const NDArray& like,
                                          RandomSource* source) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, like.CopyToHost());
  const int64_t count = CountOf(drawn);
  if (count == 0) return drawn;
  if (const auto range = RangeToDrawIn(drawn); range.has_value()) {
    NODEWISE_RETURN_IF_ERROR(WithFloat(drawn.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < count; ++i) {
        drawn.As<T>()[i] =
            FromDouble<T>(range->middle + range->reach * source->Symmetric());
      }
      return absl::OkStatus();
    }));
    return drawn;
  }
  // Elements are chosen as bytes, so that NaN and types without arithmetic stay
  // what they are.
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

absl::StatusOr<std::vector<NamedTensor>> WithSpecialNumbers(
    absl::Span<const NamedTensor> inputs, uint64_t seed) {
  std::vector<NamedTensor> special;
  for (const NamedTensor& input : inputs) {
    special.push_back(input);
    const int64_t count = CountOf(input.tensor);
    if (!IsFloat(input.tensor.dtype()) || count == 0) continue;
    RandomSource source(seed, input.name);
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, input.tensor.CopyToHost());
    NODEWISE_RETURN_IF_ERROR(WithFloat(tensor.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (int64_t begin = 0; begin < count; begin += kOneSpecialIn) {
        const int64_t end = std::min(count, begin + kOneSpecialIn);
        for (const double number : {std::numeric_limits<double>::quiet_NaN(),
                                    kInfinity, -kInfinity, 0.0, -0.0}) {
          tensor.As<T>()[source.Between(begin, end - 1)] =
              FromDouble<T>(number);
        }
      }
      return absl::OkStatus();
    }));
    special.back().tensor = std::move(tensor);
  }
  return special;
}

}  // namespace nodewise
