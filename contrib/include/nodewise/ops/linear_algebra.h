#pragma once

// Determinants and inverses of matrices. The operators have no attributes.

namespace nodewise::ops {

// The determinants of the matrices in the last two sides.
struct Det {};

// The inverses of the matrices in the last two sides. An operator of
// onnxruntime's.
struct Inverse {};

}  // namespace nodewise::ops
