#include "nodewise/autotest/input_domain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The largest finite number of a type, and the smallest above zero.
struct FloatLimits {
  double largest = 0;
  double smallest = 0;
};

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

// Draws numbers of one kind.
class NumberDraw {
 public:
  NumberDraw(DLDataType dtype, const InputDomain& domain, ContentKind kind,
             SpecialKind special, uint64_t seed)
      : dtype_(dtype),
        domain_(domain),
        kind_(kind),
        special_(special),
        random_(seed) {
    is_whole_ = domain.is_whole || !IsFloat(dtype);
    if (IsUnsigned(dtype) || IsBool(dtype)) {
      domain_.least = std::max(domain_.least, 0.0);
      domain_.most = std::max(domain_.most, domain_.least);
    }
    const bool is_nan = special == SpecialKind::kNans;
    if (!domain_.may_be_special || !IsFloat(dtype) ||
        (is_nan && !domain.may_be_nan)) {
      special_ = SpecialKind::kNone;
    }
    first_ = std::ceil(domain_.least);
    places_ = std::max(1.0, std::floor(domain_.most) - first_ + 1);
    // Around zero, if zero is in the domain.
    const double few = std::min(places_, 7.0);
    whole_numbers_ = static_cast<uint64_t>(few);
    least_whole_ =
        std::clamp(-std::floor(few / 2), first_, first_ + places_ - few);
  }

  // The numbers at some places.
  void Fill(int64_t begin, int64_t end, double* numbers) {
    switch (kind_) {
      case ContentKind::kZeros:
        return Each(begin, end, numbers, [&](int64_t) { return Nearest(0); });
      case ContentKind::kOnes:
        return Each(begin, end, numbers, [&](int64_t) { return Nearest(1); });
      case ContentKind::kCounting:
        return Each(begin, end, numbers,
                    [&](int64_t place) { return Counting(place); });
      case ContentKind::kWhole:
        return Each(begin, end, numbers, [&](int64_t) { return Whole(); });
      case ContentKind::kSparse:
        return Each(begin, end, numbers, [&](int64_t) {
          return Below(8) == 0 ? Uniform() : Nearest(0);
        });
      case ContentKind::kHalves:
        if (is_whole_) {
          return Each(begin, end, numbers, [&](int64_t) { return Whole(); });
        }
        return Each(begin, end, numbers, [&](int64_t) {
          return Nearest(Whole() + (Below(2) != 0 ? 0.5 : 0));
        });
      case ContentKind::kUniform:
        return Each(begin, end, numbers, [&](int64_t) { return Uniform(); });
    }
  }

 private:
  template <typename Draw>
  void Each(int64_t begin, int64_t end, double* numbers, Draw draw) {
    if (special_ == SpecialKind::kNone) {
      for (int64_t i = begin; i < end; ++i) *numbers++ = draw(i);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      *numbers++ = Below(4) == 0 ? Special() : draw(i);
    }
  }

  // `count` is at most 2^32; the bias is at most 2^-32.
  uint64_t Below(uint64_t count) {
    return (random_.Next() >> 32) * count >> 32;
  }

  double Nearest(double x) const {
    return std::clamp(x, domain_.least, domain_.most);
  }

  double Counting(int64_t place) const {
    if (is_whole_) return first_ + Rest(static_cast<double>(place), places_);
    // Steps that every float type has.
    return Nearest(domain_.least +
                   Rest(static_cast<double>(place) / 16,
                        std::max(domain_.most - domain_.least, 1e-9)));
  }

  // What is left of the number.
  static double Rest(double number, double divisor) {
    return number - divisor * std::floor(number / divisor);
  }

  double Whole() {
    return least_whole_ + static_cast<double>(Below(whole_numbers_));
  }

  double Uniform() {
    if (is_whole_) {
      return first_ + std::floor(Unit() * places_);
    }
    return domain_.least + Unit() * (domain_.most - domain_.least);
  }

  // In [0, 1).
  double Unit() { return static_cast<double>(random_.Next() >> 11) * 0x1p-53; }

  double Special() {
    const FloatLimits limits = LimitsOf(dtype_);
    const double sign = Below(2) == 0 ? 1 : -1;
    switch (special_) {
      case SpecialKind::kNone:
        return 0;
      case SpecialKind::kMinusZeros:
        return -0.0;
      case SpecialKind::kTiny:
        return sign * limits.smallest * static_cast<double>(1 + Below(16));
      case SpecialKind::kInfinities:
        return sign * std::numeric_limits<double>::infinity();
      case SpecialKind::kNans:
        return std::numeric_limits<double>::quiet_NaN();
      case SpecialKind::kHuge:
        return sign * limits.largest /
               static_cast<double>(uint64_t{1} << Below(8));
    }
    return 0;
  }

  const DLDataType dtype_;
  InputDomain domain_;
  const ContentKind kind_;
  SpecialKind special_;
  RandomSource random_;
  bool is_whole_ = false;
  double first_ = 0;   // The least whole number.
  double places_ = 1;  // How many whole numbers there are.
  // The small ones among them.
  double least_whole_ = 0;
  uint64_t whole_numbers_ = 1;
};

}  // namespace

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
    draw.Fill(begin, end, block);
    StoreDoubles(block, begin, end, tensor);
  }
  return tensor;
}

}  // namespace nodewise
