#include "contrib/repro/drawn_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "nodewise/ndarray/hash.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Numbers that are not ordinary are counted by class, since kernels treat them
// apart.
enum class NumberClass : uint8_t {
  kZero,
  kMinusZero,
  kNan,
  kInfinity,
  kMinusInfinity,
  kOrdinary,
};
constexpr size_t kNumClasses = 6;

NumberClass ClassOf(double x) {
  if (std::isnan(x)) return NumberClass::kNan;
  if (std::isinf(x)) {
    return x > 0 ? NumberClass::kInfinity : NumberClass::kMinusInfinity;
  }
  if (x != 0) return NumberClass::kOrdinary;
  return std::signbit(x) ? NumberClass::kMinusZero : NumberClass::kZero;
}

// The numbers of the classes, but for the last, in the order of NumberClass.
constexpr double kNumberOf[kNumClasses - 1] = {
    0.0, -0.0, std::numeric_limits<double>::quiet_NaN(),
    std::numeric_limits<double>::infinity(),
    -std::numeric_limits<double>::infinity()};

constexpr int64_t kChunk = 1 << 16;
// Sorted to find the quantiles: more would not move them.
constexpr int64_t kMostSampled = 1 << 16;
constexpr size_t kQuantiles = 33;
// Recorded quantiles are off by up to this share, so that none of the given
// numbers, the extremes above all, is among the drawn ones.
constexpr double kMoved = 0.04;
// How often another number is drawn in the place of a given one.
constexpr int kMostRedrawn = 8;
// Doubles beyond are whole numbers all of them, which says nothing.
constexpr double kMostWhole = 1 << 24;
// WithOtherNumbers() sorts all numbers of a tensor, and takes no larger ones.
constexpr int64_t kMostSorted = int64_t{1} << 26;

// Complex numbers and vectors as the plain numbers that they consist of. The
// result lives as long as `tensor` does.
absl::StatusOr<NDArray> AsPlainNumbers(const NDArray& tensor) {
  DLDataType dtype = tensor.dtype();
  if (IsPacked(dtype)) return Unimplemented("elements share bytes");
  int64_t count = CountOf(tensor) * dtype.lanes;
  dtype.lanes = 1;
  if (dtype.code == kDLComplex) {
    dtype = {kDLFloat, static_cast<uint8_t>(dtype.bits / 2), 1};
    count *= 2;
  }
  const bool has_numbers =
      IsFloat(dtype) || IsInteger(dtype) || IsBool(dtype) || IsConverted(dtype);
  if (!has_numbers) return Unimplemented("elements have no numbers");
  DLTensor flat = *tensor;
  flat.dtype = dtype;
  flat.ndim = 1;
  flat.shape = &count;
  flat.strides = nullptr;
  return NDArray::Borrow(flat, nullptr);
}

// Calls f(elements) with the numbers of each part of a tensor, and stores what
// it leaves there if `stores`.
template <typename F>
void ForEachChunk(const NDArray& numbers, bool stores, F f) {
  std::vector<double> chunk;
  const int64_t count = CountOf(numbers);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, count);
    chunk.resize(static_cast<size_t>(end - begin));
    LoadDoubles(numbers, begin, end, chunk.data());
    f(absl::MakeSpan(chunk));
    if (stores) StoreDoubles(chunk.data(), begin, end, numbers);
  }
}

// The record of ordinary numbers.
class Quantiles {
 public:
  Quantiles(std::vector<double> sample, DLDataType dtype)
      : dtype_(dtype), sample_(std::move(sample)) {
    if (sample_.empty()) return;
    std::ranges::sort(sample_);
    are_whole_ = !IsFloat(dtype) && !IsConverted(dtype);
    are_whole_ = are_whole_ || std::ranges::all_of(sample_, [](double x) {
                   return std::fabs(x) <= kMostWhole && x == std::round(x);
                 });
    for (size_t i = 0; i < kQuantiles; ++i) {
      marks_[i] = sample_[i * (sample_.size() - 1) / (kQuantiles - 1)];
    }
  }

  // Moves the marks a little, of one number by more. Whole numbers keep their
  // marks, which keeps them in range; where all are one number, a range up to
  // that is made.
  void Move(RandomSource& source) {
    if (are_whole_) {
      if (marks_.front() != marks_.back()) return;
      // Towards zero: what was in range, as an index or a count, stays so.
      const double number = marks_.front();
      const double width = std::trunc(number / 4);
      for (size_t i = 0; i < kQuantiles; ++i) {
        marks_[i] = number - width * static_cast<double>(kQuantiles - 1 - i) /
                                 (kQuantiles - 1);
      }
      return;
    }
    for (double& mark : marks_) {
      mark *= 1 + kMoved * (0.5 + 0.5 * source.Symmetric()) *
                      (source.Next() % 2 == 0 ? 1 : -1);
      mark = std::clamp(mark, -LargestOf(dtype_), LargestOf(dtype_));
    }
    std::ranges::sort(marks_);
  }

  // Where there is room between the given numbers, it is none of them.
  double Draw(RandomSource& source) const {
    double drawn = DrawAny(source);
    for (int i = 0; i < kMostRedrawn && IsGiven(drawn); ++i) {
      drawn = DrawAny(source);
    }
    return drawn;
  }

 private:
  // Types of less than 32 bits have so few numbers that given ones cannot be
  // avoided.
  bool IsGiven(double drawn) const {
    if (are_whole_ || !IsFloat(dtype_) || dtype_.bits < 32) return false;
    if (dtype_.bits == 32) drawn = static_cast<float>(drawn);
    return std::ranges::binary_search(sample_, drawn);
  }

  double DrawAny(RandomSource& source) const {
    const double place = (0.5 + 0.5 * source.Symmetric()) * (kQuantiles - 1);
    const auto below = std::min(static_cast<size_t>(place), kQuantiles - 2);
    const double share = place - static_cast<double>(below);
    // In this form nothing overflows between two huge marks.
    const double drawn =
        marks_[below] * (1 - share) + marks_[below + 1] * share;
    return are_whole_ ? std::round(drawn) : drawn;
  }

  const DLDataType dtype_;
  std::vector<double> sample_;  // Sorted.
  std::array<double, kQuantiles> marks_ = {};
  bool are_whole_ = false;
};

// What is recorded of the given numbers: nothing else of them reaches the drawn
// ones.
struct Recorded {
  std::array<uint64_t, kNumClasses> counts = {};
  std::vector<double> sample;  // Some or all ordinary numbers.
};

Recorded RecordOf(const NDArray& numbers) {
  Recorded recorded;
  const int64_t step = std::max<int64_t>(CountOf(numbers) / kMostSampled, 1);
  int64_t at = 0;
  ForEachChunk(numbers, /*stores=*/false, [&](absl::Span<double> chunk) {
    for (const double x : chunk) {
      const NumberClass found = ClassOf(x);
      ++recorded.counts[static_cast<size_t>(found)];
      const bool is_sampled = at++ % step == 0 || recorded.sample.empty();
      if (is_sampled && found == NumberClass::kOrdinary) {
        recorded.sample.push_back(x);
      }
    }
  });
  return recorded;
}

// Hands out the classes of a tensor in a drawn order, each as often as it has
// it.
class ClassDealer {
 public:
  explicit ClassDealer(const std::array<uint64_t, kNumClasses>& counts)
      : left_(counts) {
    for (const uint64_t count : counts) sum_ += count;
  }

  // Each element that is left is equally likely to be the next.
  NumberClass Next(RandomSource& source) {
    uint64_t place = source.Next() % sum_--;
    for (size_t i = 0; i < kNumClasses; ++i) {
      if (place < left_[i]) {
        --left_[i];
        return static_cast<NumberClass>(i);
      }
      place -= left_[i];
    }
    return NumberClass::kOrdinary;
  }

 private:
  std::array<uint64_t, kNumClasses> left_;
  uint64_t sum_ = 0;
};

// The ordinary numbers of a tensor, each once, from the least on.
absl::StatusOr<std::vector<double>> DistinctNumbers(const NDArray& numbers) {
  if (CountOf(numbers) > kMostSorted) {
    return Unimplemented("has too many elements to be sorted");
  }
  std::vector<double> distinct;
  ForEachChunk(numbers, /*stores=*/false, [&](absl::Span<double> chunk) {
    for (const double x : chunk) {
      if (ClassOf(x) == NumberClass::kOrdinary) distinct.push_back(x);
    }
  });
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

uint64_t HashOfDistinct(const std::vector<double>& distinct) {
  return HashBytes(distinct.data(), distinct.size() * sizeof(double));
}

}  // namespace

absl::StatusOr<NDArray> DrawnLike(const NDArray& tensor, SpecialPlaces places,
                                  RandomSource& source) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(drawn));
  Recorded recorded = RecordOf(numbers);
  Quantiles quantiles(std::move(recorded.sample), numbers.dtype());
  quantiles.Move(source);
  ClassDealer dealer(recorded.counts);
  ForEachChunk(numbers, /*stores=*/true, [&](absl::Span<double> chunk) {
    for (double& x : chunk) {
      const NumberClass wanted =
          places == SpecialPlaces::kKept ? ClassOf(x) : dealer.Next(source);
      x = wanted == NumberClass::kOrdinary
              ? quantiles.Draw(source)
              : kNumberOf[static_cast<size_t>(wanted)];
    }
  });
  return drawn;
}

absl::StatusOr<uint64_t> HashOfNumbers(const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(tensor));
  NODEWISE_ASSIGN_OR_RETURN(const auto distinct, DistinctNumbers(numbers));
  return HashOfDistinct(distinct);
}

// Each distinct number gets another one, by its rank among them.
absl::StatusOr<NDArray> WithOtherNumbers(const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray changed, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(changed));
  NODEWISE_ASSIGN_OR_RETURN(const auto distinct, DistinctNumbers(numbers));
  // The seed depends on all numbers together: who knows how they are drawn
  // still cannot try which number becomes a given one.
  RandomSource source(HashOfDistinct(distinct));
  Quantiles quantiles(distinct, numbers.dtype());
  quantiles.Move(source);
  std::vector<double> others(distinct.size());
  for (double& other : others) other = quantiles.Draw(source);
  ForEachChunk(numbers, /*stores=*/true, [&](absl::Span<double> chunk) {
    for (double& x : chunk) {
      if (ClassOf(x) != NumberClass::kOrdinary) continue;
      const auto found = std::ranges::lower_bound(distinct, x);
      x = others[static_cast<size_t>(found - distinct.begin())];
    }
  });
  return changed;
}

}  // namespace nodewise
