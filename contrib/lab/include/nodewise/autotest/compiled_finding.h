#pragma once

#include <string>

#include "absl/status/status.h"
#include "nodewise/autotest/autotest_run.h"

namespace nodewise {

// Writes what a finding about emitted C was compiled from, and a program in C++
// that runs it with the installed runtime library alone: net/ (an artefact, to
// be compiled), inputs.params, expected.params, repro.cc and CMakeLists.txt.
// Fails with kUnimplemented if there is no C for the network.
absl::Status WriteCompiledFinding(const AutotestFinding& finding,
                                  const std::string& folder);

}  // namespace nodewise
