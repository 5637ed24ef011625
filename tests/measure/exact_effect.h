#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/planter/planter.h"
#include "tests/measure/subject.h"

namespace nodewise {

// What a fault does to what a node makes of whole numbers, with which nothing
// that the node adds up is rounded.
enum class ExactEffect {
  // The node has no exact inputs: some operation in it does more than move,
  // choose, add and multiply, or makes fractions, or sums that are too long for
  // the type; or the sound kernel makes other bits than the reference, as
  // Winograd's algorithm does.
  kNotExact,
  kSameBits,
  kOtherBits,
};
std::string_view NameOf(ExactEffect effect);

// Runs the node that has a fault in values, and the sound one, with whole
// numbers in the place of all that it reads, drawn several times, and compares
// bit by bit. It shares no code with exact_inputs.h, whose answers it is to be
// held against.
absl::StatusOr<ExactEffect> MeasureExactEffect(
    const Subject& subject, const PlantedGraph& planted,
    const std::vector<NamedTensor>& inputs);

}  // namespace nodewise
