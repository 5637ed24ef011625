#pragma once

#include "absl/status/statusor.h"
#include "contrib/passes/network_rewriter.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// Returns whether the operation is a Conv or MatMul one of whose factors comes
// from DequantizeLinear.
bool IsQuantizedProduct(const Network& network, OperationId id);

// Merges such a product with what makes its factors and with the QuantizeLinear
// of its result. The error says why it is left alone; the network is then as it
// was, except for constants that nothing reads.
absl::StatusOr<QuantizationReport::Change> MergeProduct(
    OperationId id, NetworkRewriter& rewriter);

}  // namespace nodewise
