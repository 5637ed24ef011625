#pragma once

#include "nodewise/op/op_def.h"

// The tables of operators, a file each; op_set.cc puts them together.
namespace nodewise {

absl::Span<const OperatorDef> UnaryOperators();
absl::Span<const OperatorDef> ArithmeticOperators();
absl::Span<const OperatorDef> LogicOperators();
absl::Span<const OperatorDef> CastOperators();
absl::Span<const OperatorDef> MatmulOperators();
absl::Span<const OperatorDef> EinsumOperators();
absl::Span<const OperatorDef> DetOperators();
absl::Span<const OperatorDef> ConvOperators();
absl::Span<const OperatorDef> PoolOperators();
absl::Span<const OperatorDef> RoiOperators();
absl::Span<const OperatorDef> NormOperators();
absl::Span<const OperatorDef> LayerNormOperators();
absl::Span<const OperatorDef> SoftmaxOperators();
absl::Span<const OperatorDef> ReduceOperators();
absl::Span<const OperatorDef> AxisOperators();
absl::Span<const OperatorDef> DropoutOperators();
absl::Span<const OperatorDef> LayoutOperators();
absl::Span<const OperatorDef> PadOperators();
absl::Span<const OperatorDef> IndexingOperators();
absl::Span<const OperatorDef> ConstantOperators();
absl::Span<const OperatorDef> SelectionOperators();
absl::Span<const OperatorDef> ResizeOperators();
absl::Span<const OperatorDef> SamplingOperators();
absl::Span<const OperatorDef> QuantizeOperators();
absl::Span<const OperatorDef> RecurrentOperators();
absl::Span<const OperatorDef> ControlFlowOperators();
absl::Span<const OperatorDef> AttentionOperators();
absl::Span<const OperatorDef> LinearAttentionOperators();
absl::Span<const OperatorDef> CausalConvOperators();
absl::Span<const OperatorDef> SignalOperators();
absl::Span<const OperatorDef> OpaqueOperators();
absl::Span<const OperatorDef> TreeEnsembleOperators();
absl::Span<const OperatorDef> EncoderOperators();
absl::Span<const OperatorDef> LinearModelOperators();
absl::Span<const OperatorDef> RandomOperators();

}  // namespace nodewise
