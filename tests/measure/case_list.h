#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/measure/case.h"

namespace nodewise {

// Which cases are wanted. Empty lists mean all.
struct Selection {
  std::vector<Case::What> what;
  std::vector<std::string> networks;  // As the zoo's, or light:NAME.
  std::vector<std::string> kinds;
  std::vector<std::string> methods;
  std::string models;  // The folder of models for light:NAME; may be empty.
  uint64_t seed = 1;   // The first one.
  // How many faults are planted, and how many clean runs there are, each for
  // one method; that many for each method.
  uint64_t faults = 1000;
  uint64_t clean_runs = 1000;
  // How many runs by onnxruntime there are, if it is there.
  uint64_t foreign_runs = 1000;
  bool has_onnxruntime = false;
  // How many inputs are drawn for each network that is clean.
  uint64_t draws = 8;
};

// Returns the cases in an order that does not change, so that any number of the
// first ones is a fair sample, and a longer list begins with the shorter one.
// Fails with kInvalidArgument for names that mean nothing.
absl::StatusOr<std::vector<Case>> ListCases(const Selection& selection);

}  // namespace nodewise
