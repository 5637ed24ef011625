#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/passes/network_rewriter.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// One kind of change: which operations it is for, and what is done with one.
struct Rewrite {
  bool (*fits)(const Network& network, OperationId id);
  // The error says why the operation is left alone.
  absl::StatusOr<QuantizationReport::Change> (*run)(OperationId id,
                                                    NetworkRewriter& rewriter);
};

// Does one kind after the other, each for all operations in their order. If
// anything changed, removes what no output depends on. Does nothing for a
// network without outputs.
QuantizationReport RunRewrites(absl::Span<const Rewrite> rewrites,
                               std::string_view verb, Network& network);

}  // namespace nodewise
