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
  // The node cannot be given such numbers: some operation in it makes fractions
  // of them, or sums that are too long for the type; or the sound kernel makes
  // other bits than the reference, as Winograd's algorithm does.
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
