#include "nodewise/autotest/tensor_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The largest finite number of a type, and the smallest above zero.
struct FloatLimits {
  double largest = 0;
  double smallest = 0;
};

// The short types have no numeric_limits: float16 has 5 bits of exponent and 10
// of the fraction, bfloat16 8 and 7.
FloatLimits LimitsOf(DLDataType dtype) {
  if (dtype == kFloat64) {
    return {std::numeric_limits<double>::max(),
            std::numeric_limits<double>::denorm_min()};
  }
  if (dtype == kFloat16) return {65504, std::ldexp(1.0, -24)};
  if (dtype == kBfloat16)
    return {std::ldexp(255.0, 120), std::ldexp(1.0, -133)};
  return {std::numeric_limits<float>::max(),
          std::numeric_limits<float>::denorm_min()};
}

// Draws numbers of one kind. Two sources of randomness are enough for a tensor
// of any size: `random_` for numbers of 53 bits, and `few_` for small ones,
// which takes several from 64 bits.
class NumberDraw {
 public:
  NumberDraw(DLDataType dtype, const InputDomain& domain, ContentKind kind,
             SpecialKind special, uint64_t seed)
      : dtype_(dtype),
        domain_(domain),
        kind_(kind),
        special_(special),
        random_(seed),
        few_(RandomSource(seed, "few")),
        is_whole_(domain.is_whole || !IsFloat(dtype)) {
    // Where the whole domain lies below zero, only zero is left.
    if (IsUnsigned(dtype) || IsBool(dtype)) {
      domain_.least = std::max(domain_.least, 0.0);
      domain_.most = std::max(domain_.most, domain_.least);
    }
    if (!domain.may_be_special || !IsFloat(dtype) ||
        (special == SpecialKind::kNans && !domain.may_be_nan)) {
      special_ = SpecialKind::kNone;
    }
    first_ = std::ceil(domain_.least);
    places_ = std::max(1.0, std::floor(domain_.most) - first_ + 1);
    // Around zero, if zero is in the domain.
    const double few = std::min(places_, 7.0);
    whole_numbers_ = static_cast<uint32_t>(few);
    least_whole_ =
        std::clamp(-std::floor(few / 2), first_, first_ + places_ - few);
  }

  void Fill(int64_t count, double* numbers) {
    FillOrdinary(count, numbers);
    if (special_ == SpecialKind::kNone) return;
    // One number in four is special. Gaps between them are drawn, since a
    // branch on a draw for each number could not be predicted.
    const FloatLimits limits = LimitsOf(dtype_);
    for (int64_t i = few_.Below(4); i < count; i += 1 + few_.Below(7)) {
      numbers[i] = Special(limits);
    }
  }

 private:
  void FillOrdinary(int64_t count, double* numbers) {
    switch (kind_) {
      case ContentKind::kZeros:
        return std::fill(numbers, numbers + count, Nearest(0));
      case ContentKind::kOnes:
        return std::fill(numbers, numbers + count, Nearest(1));
      case ContentKind::kCounting:
        return Each(count, numbers, [this] { return Counting(); });
      case ContentKind::kWhole:
        return Each(count, numbers, [this] { return Whole(); });
      // One number in eight is not zero, on average; gaps are drawn as above.
      case ContentKind::kSparse:
        std::fill(numbers, numbers + count, Nearest(0));
        for (int64_t i = few_.Below(8); i < count; i += 1 + few_.Below(15)) {
          numbers[i] = Uniform();
        }
        return;
      case ContentKind::kHalves:
        if (is_whole_) return Each(count, numbers, [this] { return Whole(); });
        return Each(count, numbers,
                    [this] { return Nearest(Whole() + 0.5 * few_.Below(2)); });
      case ContentKind::kUniform:
        return Each(count, numbers, [this] { return Uniform(); });
    }
  }

  template <typename Draw>
  static void Each(int64_t count, double* numbers, Draw draw) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = draw();
  }

  double Nearest(double x) const {
    return std::clamp(x, domain_.least, domain_.most);
  }

  // The numbers are all different until the domain ends, and begin anew then.
  double Counting() {
    const double number = (is_whole_ ? first_ : domain_.least) + counted_;
    const double end = is_whole_ ? places_ : domain_.most - domain_.least;
    counted_ += is_whole_ ? 1 : 1.0 / 16;  // A step that every float type has.
    if (counted_ >= end) counted_ = 0;
    return Nearest(number);
  }

  double Whole() {
    return least_whole_ + static_cast<double>(few_.Below(whole_numbers_));
  }

  double Uniform() {
    if (is_whole_) return first_ + std::floor(Unit() * places_);
    return domain_.least + Unit() * (domain_.most - domain_.least);
  }

  // In [0, 1), with all 53 bits that a double holds.
  double Unit() { return static_cast<double>(random_.Next() >> 11) * 0x1p-53; }

  // Tiny numbers are some of the subnormal ones, huge ones the largest and its
  // halves: two of these overflow when they are added.
  double Special(const FloatLimits& limits) {
    const double sign = few_.Below(2) == 0 ? 1 : -1;
    switch (special_) {
      case SpecialKind::kNone:
        return 0;
      case SpecialKind::kMinusZeros:
        return -0.0;
      case SpecialKind::kTiny:
        return sign * limits.smallest * static_cast<double>(1 + few_.Below(16));
      case SpecialKind::kInfinities:
        return sign * std::numeric_limits<double>::infinity();
      case SpecialKind::kNans:
        return std::numeric_limits<double>::quiet_NaN();
      case SpecialKind::kHuge:
        return sign * limits.largest /
               static_cast<double>(uint64_t{1} << few_.Below(8));
    }
    return 0;
  }

  const DLDataType dtype_;
  InputDomain domain_;
  const ContentKind kind_;
  SpecialKind special_;
  RandomSource random_;
  SmallNumbers few_;
  const bool is_whole_;
  double first_ = 0;   // The least whole number.
  double places_ = 1;  // How many whole numbers there are.
  double counted_ = 0;
  // The whole numbers around zero that `few_` draws.
  double least_whole_ = 0;
  uint32_t whole_numbers_ = 1;
};

}  // namespace

absl::StatusOr<NDArray> TensorOfDoubles(DLDataType dtype,
                                        absl::Span<const int64_t> shape,
                                        absl::Span<const double> numbers) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, NDArray::Empty(shape, dtype, kCpu));
  StoreDoubles(numbers.data(), 0, std::ssize(numbers), tensor);
  return tensor;
}

absl::StatusOr<NDArray> TensorOfInts(absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> numbers) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray made, NDArray::Empty(shape, kInt64, kCpu));
  std::ranges::copy(numbers, made.As<int64_t>());
  return made;
}

// Numbers are made and stored a block at a time, so that a large tensor needs
// no second one of doubles.
absl::StatusOr<NDArray> DrawTensor(DLDataType dtype,
                                   absl::Span<const int64_t> shape,
                                   const InputDomain& domain, Choices* choices,
                                   SpecialKind special) {
  const Choices::Group group(choices);
  const auto kind = static_cast<ContentKind>(choices->UpTo(kContentKinds - 1));
  const uint64_t seed = choices->Bits();
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, NDArray::Empty(shape, dtype, kCpu));
  NumberDraw draw(dtype, domain, kind, special, seed);
  constexpr int64_t kBlock = 256;
  double block[kBlock];
  const int64_t count = CountOf(tensor);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    draw.Fill(end - begin, block);
    StoreDoubles(block, begin, end, tensor);
  }
  return tensor;
}

}  // namespace nodewise
