#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "contrib/lab/planter/spoiling.h"

namespace nodewise {

// Binds the faulty function of a node and calls it with what the node read in
// the sound run. Returns how far what it makes is from what the sound one made,
// as PlantedFault::effect says; none if all bits are the same. Fails as binding
// and calling do.
absl::StatusOr<std::optional<double>> TryFault(const FaultPlace& place,
                                               const Spoiling& spoiling,
                                               Library& sound);

}  // namespace nodewise
