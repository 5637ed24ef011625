#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "apps/nodewise/foreign_target.h"
#include "nodewise/dump/dump.h"

namespace nodewise {

// Records runs of a model in another program as dumps, as if each operation
// were a node, and shows where they are and whether looking changed the
// outputs. A dump's graph says what each node computes.
absl::Status DumpForeign(const LoadedForeign& loaded,
                         const RecordOptions& record, uint64_t runs,
                         Outcome* outcome);

}  // namespace nodewise
