#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace nodewise {

// Discrete Fourier transforms of one length, in double; any length takes
// n log n steps. Threads may share one.
class Fourier {
 public:
  explicit Fourier(int64_t length);

  // In place, `length` numbers: the sums with exp(-2 pi i k n / length), or
  // with + where `is_inverse`; not divided by the length.
  void Transform(std::complex<double>* data, bool is_inverse) const;

 private:
  int64_t length_;
  int64_t padded_ = 0;  // A power of two.
  // exp(-2 pi i k / padded_).
  std::vector<std::complex<double>> roots_;
  // Lengths that are not powers of two are computed by a convolution
  // (Bluestein).
  std::vector<std::complex<double>> chirp_;   // exp(-pi i k^2 / length).
  std::vector<std::complex<double>> filter_;  // Transformed.
};

}  // namespace nodewise
