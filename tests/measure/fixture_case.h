#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/measure/case.h"

namespace nodewise {

// Returns the artefacts that real compilers made, sorted: each is named by its
// folder below that of all fixtures, with +factory or +vm behind it for the one
// file in that folder that holds the same, or a VM's code.
std::vector<std::string> FixtureNames();

// Runs one of them and compares it with itself: it must make the outputs that
// were recorded with it, what TVM's own debugger dumped, the same again, and
// the same where every tensor has memory of its own, bit for bit, node by node.
// Every difference is an accusation. Fails with kUnimplemented for one that is
// for a device that is not here.
absl::Status RunFixture(const std::string& name, Result* result);

}  // namespace nodewise
