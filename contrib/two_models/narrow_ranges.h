#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "contrib/two_models/model_side.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// Returns the tensors of which the reference makes numbers that the target's
// integers cannot hold, the ones that lose most first. What a range leaves out
// on purpose, as those of a Relu that a quantiser took into it, the reference
// does not make. Fails as running the reference does.
absl::StatusOr<std::vector<NarrowRange>> FindNarrowRanges(
    const ModelPairing& pairing, const ModelSide& target,
    RunningModel* reference);

}  // namespace nodewise
