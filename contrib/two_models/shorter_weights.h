#pragma once

#include <optional>
#include <string>

#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the type that the target's weights were brought to and the
// reference's were not, by the numbers that they hold: "4-bit integers",
// "float16". None if most of the weights that the reference does not have are
// as exact as its own.
std::optional<std::string> ShorterWeights(const Network& reference,
                                          const Network& target);

}  // namespace nodewise
