#include "contrib/ops/util/fourier.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace nodewise {
namespace {

using ComplexDouble = std::complex<double>;

// Plain product: the library's own looks for NaN, which takes longer.
ComplexDouble Times(const ComplexDouble& a, const ComplexDouble& b) {
  return {a.real() * b.real() - a.imag() * b.imag(),
          a.real() * b.imag() + a.imag() * b.real()};
}

// exp(-i turn), the angle in parts of a whole turn, each exact to a rounding.
ComplexDouble Turned(int64_t part, int64_t of) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(part) /
                       static_cast<double>(of);
  return {std::cos(angle), -std::sin(angle)};
}

// n is a power of two; roots are exp(-2 pi i k / n).
void TransformPowerOfTwo(std::vector<ComplexDouble>& data,
                         const std::vector<ComplexDouble>& roots) {
  const size_t n = data.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t step = n / (2 * half);
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const ComplexDouble odd =
            Times(data[begin + half + k], roots[k * step]);
        const ComplexDouble even = data[begin + k];
        data[begin + k] = even + odd;
        data[begin + half + k] = even - odd;
      }
    }
  }
}

void Conjugate(std::vector<ComplexDouble>& data) {
  for (ComplexDouble& number : data) number = std::conj(number);
}

}  // namespace

Fourier::Fourier(int64_t length) : length_(length) {
  if (length < 1) return;
  const auto n = static_cast<uint64_t>(length);
  const bool is_power = std::has_single_bit(n);
  padded_ = static_cast<int64_t>(is_power ? n : std::bit_ceil(2 * n));
  for (int64_t k = 0; k < padded_; ++k) roots_.push_back(Turned(k, padded_));
  if (is_power) return;
  for (int64_t k = 0; k < length; ++k) {
    // The square is reduced modulo the circle before it loses digits.
    const int64_t circle = 2 * length;
    const auto square = static_cast<__int128>(k) * k % circle;
    chirp_.push_back(Turned(static_cast<int64_t>(square), circle));
  }
  filter_.assign(static_cast<size_t>(padded_), {});
  for (size_t k = 0; k < chirp_.size(); ++k) {
    filter_[k] = std::conj(chirp_[k]);
    if (k > 0) filter_[filter_.size() - k] = filter_[k];
  }
  TransformPowerOfTwo(filter_, roots_);
}

void Fourier::Transform(ComplexDouble* data, bool is_inverse) const {
  if (length_ < 1) return;
  const auto n = static_cast<size_t>(length_);
  std::vector<ComplexDouble> work(data, data + n);
  if (is_inverse) Conjugate(work);
  if (chirp_.empty()) {
    TransformPowerOfTwo(work, roots_);
  } else {
    for (size_t k = 0; k < n; ++k) work[k] = Times(work[k], chirp_[k]);
    work.resize(filter_.size());
    TransformPowerOfTwo(work, roots_);
    for (size_t k = 0; k < work.size(); ++k) {
      work[k] = std::conj(Times(work[k], filter_[k]));
    }
    TransformPowerOfTwo(work, roots_);
    const double scale = 1 / static_cast<double>(padded_);
    for (size_t k = 0; k < n; ++k) {
      work[k] = Times(std::conj(work[k]) * scale, chirp_[k]);
    }
    work.resize(n);
  }
  if (is_inverse) Conjugate(work);
  std::copy(work.begin(), work.end(), data);
}

}  // namespace nodewise
