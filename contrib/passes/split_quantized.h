#pragma once

#include "absl/status/statusor.h"
#include "contrib/passes/network_rewriter.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// Return whether the operation is a QLinearConv or QLinearMatMul, or a
// FakeQuantize.
bool IsMergedProduct(const Network& network, OperationId id);
bool IsFakeQuantize(const Network& network, OperationId id);

// Put the operations on floats in its place. The error says why it is left
// alone; the network is then as it was, except for operations that the caller
// takes back, and constants that nothing reads.
absl::StatusOr<QuantizationReport::Change> SplitProduct(
    OperationId id, NetworkRewriter& rewriter);
absl::StatusOr<QuantizationReport::Change> SplitFakeQuantize(
    OperationId id, NetworkRewriter& rewriter);

}  // namespace nodewise
