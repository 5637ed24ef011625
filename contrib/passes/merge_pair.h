#pragma once

#include "absl/status/statusor.h"
#include "contrib/passes/network_rewriter.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// Return whether the operation is a QuantizeLinear of what DequantizeLinear
// makes, or one whose result a DequantizeLinear reads.
bool QuantizesDequantized(const Network& network, OperationId id);
bool DequantizesQuantized(const Network& network, OperationId id);

// Makes everything read the integers that the DequantizeLinear before this
// QuantizeLinear reads. The error says why the pair is left alone.
absl::StatusOr<QuantizationReport::Change> RemovePair(
    OperationId quantize, NetworkRewriter& rewriter);

// Merges a QuantizeLinear and the DequantizeLinear behind it. The error says
// why the pair is left alone; the network has an opset more then, at most.
absl::StatusOr<QuantizationReport::Change> MergeFakeQuantize(
    OperationId quantize, NetworkRewriter& rewriter);

}  // namespace nodewise
