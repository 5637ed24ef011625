#pragma once

// Fourier transforms of tensors whose last side holds the real part and, if it
// is 2 long, the imaginary one; windows that signals are multiplied with, and
// the weights of the mel scale. Each class is its operator's primary
// attributes.

#include <cstdint>

#include "nodewise/ndarray/dtype.h"

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

struct CosineWindowAttributes {
  DLDataType output_datatype = kFloat32;
  bool periodic = true;  // N is the size, else one less.
};

// w(n) = 0.5 - 0.5 cos(2 pi n / N).
struct HannWindow : CosineWindowAttributes {};

// w(n) = 25/46 - 21/46 cos(2 pi n / N).
struct HammingWindow : CosineWindowAttributes {};

// w(n) = 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).
struct BlackmanWindow : CosineWindowAttributes {};

// Triangles, one for each band of the mel scale, over the bins of a spectrum.
struct MelWeightMatrix {
  DLDataType output_datatype = kFloat32;
};

}  // namespace nodewise::ops
