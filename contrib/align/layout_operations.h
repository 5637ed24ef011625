#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Layouts as operations of a network: Reshape, Transpose, Gather and Concat.

// Adds operations that put a compiled tensor of this layout into the order and
// the shape of the network's, and returns what they make. Fails with
// kUnimplemented for a layout that these cannot express.
absl::StatusOr<ValueId> AddLayoutUndone(const Layout& layout, ValueId compiled,
                                        absl::Span<const int64_t> source_shape,
                                        const OpSet& operators,
                                        Network* network);

// Adds operations that put a tensor of the network into this layout, with 0 for
// padding, and returns what they make. Fails as AddLayoutUndone().
absl::StatusOr<ValueId> AddLayout(const Layout& layout, ValueId source,
                                  absl::Span<const int64_t> compiled_shape,
                                  const OpSet& operators, Network* network);

}  // namespace nodewise
