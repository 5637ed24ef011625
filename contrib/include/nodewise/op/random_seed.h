#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nodewise/op/op_def.h"

namespace nodewise {

// Returns whether an operation with so many inputs draws random numbers: one of
// those in nodewise/ops/random.h, or a Dropout that may be told to train.
bool DrawsRandomNumbers(const OperatorDef& def, size_t num_inputs);

// Returns the attribute `seed` that a node without one gets, so that different
// nodes draw different numbers of one seed. REQUIRES: DrawsRandomNumbers().
NamedAttr SeedOfNode(const OperatorDef& def, uint64_t seed,
                     std::string_view node);

}  // namespace nodewise
