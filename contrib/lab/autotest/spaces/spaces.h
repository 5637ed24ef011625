#pragma once

#include "absl/types/span.h"
#include "nodewise/autotest/operator_space.h"

namespace nodewise {

// One function for each file of spaces.
absl::Span<const OperatorSpace> AttentionSpaces();
absl::Span<const OperatorSpace> ClassicSpaces();  // Those of ai.onnx.ml
absl::Span<const OperatorSpace> FillSpaces();     // Constant, Range, EyeLike
absl::Span<const OperatorSpace> ImageSpaces();  // Resize, GridSample, RoiAlign
absl::Span<const OperatorSpace> IndexSpaces();  // Gather, Scatter, OneHot
absl::Span<const OperatorSpace> MathSpaces();   // Einsum, DFT, trees
absl::Span<const OperatorSpace> NormSpaces();   // Normalization and losses
absl::Span<const OperatorSpace> PointwiseSpaces();  // Add, Cast, Where
absl::Span<const OperatorSpace> ProductSpaces();    // MatMul, Gemm
absl::Span<const OperatorSpace> QuantizedSpaces();  // But not convolutions.
absl::Span<const OperatorSpace> RandomSpaces();     // RandomNormal, Bernoulli
absl::Span<const OperatorSpace> ReduceSpaces();     // ReduceSum, Softmax, TopK
absl::Span<const OperatorSpace> SequenceSpaces();   // LSTM, GRU
absl::Span<const OperatorSpace> ShapeSpaces();      // Reshape, Slice, Pad
absl::Span<const OperatorSpace> WindowSpaces();     // Conv, pools

// The space of an operator that has none of its own.
void DrawFromSignature(ConfigurationDraw& draw);

}  // namespace nodewise
