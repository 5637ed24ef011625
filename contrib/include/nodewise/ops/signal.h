#pragma once

// Fourier transforms of tensors whose last side holds the real part and, if it
// is 2 long, the imaginary one. Each class is its operator's primary
// attributes.

#include <cstdint>

namespace nodewise::ops {

// X[k] = sum of x[n] * exp(-2 pi i k n / N) along `axis`.
struct DFT17 {
  int64_t axis = 1;
  bool inverse = false;   // True: with exp(2 pi i k n / N) / N.
  bool onesided = false;  // True: only one half of the spectrum.
};

// X[k] = sum of x[n] * exp(-2 pi i k n / N) along the axis of input 2.
struct DFT {
  bool inverse = false;   // True: with exp(2 pi i k n / N) / N.
  bool onesided = false;  // True: only one half of the spectrum.
};

// Transforms frames of a signal, each multiplied with a window.
struct STFT {
  bool onesided = true;  // True: only one half of the spectrum.
};

}  // namespace nodewise::ops
