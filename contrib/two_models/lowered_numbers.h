#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/two_models/model_side.h"
#include "nodewise/ir/network.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// Returns the tensors of which the reference makes numbers that the target's
// integers cannot hold, the ones that lose most first. What a range leaves out
// on purpose, as those of a Relu that a quantiser took into it, the reference
// does not make. Fails as running the reference does.
absl::StatusOr<std::vector<NarrowRange>> FindNarrowRanges(
    const ModelPairing& pairing, const ModelSide& target,
    RunningModel* reference);

// Returns the type that the target's weights were brought to and the
// reference's were not, by the numbers that they hold: "4-bit integers",
// "float16". None if most of the weights that the reference does not have are
// as exact as its own.
std::optional<std::string> ShorterWeights(const Network& reference,
                                          const Network& target);

}  // namespace nodewise
