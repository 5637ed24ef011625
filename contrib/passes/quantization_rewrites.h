#pragma once

#include "absl/status/statusor.h"
#include "contrib/passes/network_rewriter.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// What was done with an operation. The error says why it is left alone.
using RewriteResult = absl::StatusOr<QuantizationReport::Change>;

// Return whether the operation is a QuantizeLinear of what DequantizeLinear
// makes, or one whose result a DequantizeLinear reads.
bool QuantizesDequantized(const Network& network, OperationId id);
bool DequantizesQuantized(const Network& network, OperationId id);

// Makes everything read the integers that the DequantizeLinear before this
// QuantizeLinear reads. The error says why the pair is left alone.
RewriteResult RemovePair(OperationId quantize, NetworkRewriter& rewriter);

// Merges a QuantizeLinear and the DequantizeLinear behind it. The error says
// why the pair is left alone; the network has an opset more then, at most.
RewriteResult MergeFakeQuantize(OperationId quantize,
                                NetworkRewriter& rewriter);

// Returns whether the operation is a Conv or MatMul one of whose factors comes
// from DequantizeLinear.
bool IsQuantizedProduct(const Network& network, OperationId id);

// Merges such a product with what makes its factors and with the QuantizeLinear
// of its result. The error says why it is left alone; the network is then as it
// was, except for constants that nothing reads.
RewriteResult MergeProduct(OperationId id, NetworkRewriter& rewriter);

// Return whether the operation is a QLinearConv or QLinearMatMul, or a
// FakeQuantize.
bool IsMergedProduct(const Network& network, OperationId id);
bool IsFakeQuantize(const Network& network, OperationId id);

// Put the operations on floats in its place. The error says why it is left
// alone; the network is then as it was, except for operations that the caller
// takes back, and constants that nothing reads.
RewriteResult SplitProduct(OperationId id, NetworkRewriter& rewriter);
RewriteResult SplitFakeQuantize(OperationId id, NetworkRewriter& rewriter);

}  // namespace nodewise
