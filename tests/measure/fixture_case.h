#pragma once

#include <string>

#include "absl/status/status.h"
#include "tests/measure/case.h"

namespace nodewise {

// Runs an artefact that a real compiler made, by its folder below that of all
// fixtures, and compares it with itself: it must make the outputs that were
// recorded with it, the same again, and the same where every tensor has memory
// of its own, bit for bit, node by node. Whatever differs is an accusation.
// Fails with kUnimplemented for one that cannot run here.
absl::Status RunFixture(const std::string& folder, Result* result);

}  // namespace nodewise
