#pragma once

// Windows that signals are multiplied with, and the weights of the mel scale.
// Each class is its operator's primary attributes.

#include "nodewise/ndarray/dtype.h"

namespace nodewise::ops {

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
