#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/planter/planter.h"
#include "tests/measure/subject.h"

namespace nodewise {

// How large the effect of a fault in values is: what the faulty node makes less
// what the sound one makes, of the same inputs.
enum class EffectSize {
  // Half of it would be accused if it were the only error: it is at least twice
  // what accuses, be that one element or many together. Must be found.
  kLarge,
  // It is larger than the tolerance of the type, but the reference knows no
  // bound for what the node makes, or bounds as large as the values.
  kUnbounded,
  kSmall,
};
std::string_view NameOf(EffectSize size);

// Runs the network with and without the fault and judges the difference by the
// bounds of the reference. REQUIRES: the fault is one in values.
absl::StatusOr<EffectSize> MeasureEffect(
    const Subject& subject, const PlantedGraph& planted,
    const std::vector<NamedTensor>& inputs);

}  // namespace nodewise
