#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "contrib/two_models/model_side.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// Returns which output of the target stands for one of the reference: that of
// its name, or else the one in its place; none if there are fewer.
std::optional<size_t> PartnerOfOutput(const Network& reference,
                                      const Network& target, size_t output);

// Pairs the values of two models that have been given the same inputs. The
// reference is computed from what the target has made: at the end its values
// are pinned to the target's numbers. Fails as reading back tensors does.
absl::StatusOr<ModelPairing> PairModels(RunningModel* reference,
                                        RunningModel* target,
                                        const MatchedInputs& inputs);

}  // namespace nodewise
