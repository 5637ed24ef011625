#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/autotest/check_adapter.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A fault planted in a runtime that has a file of its own, so that no change of
// the model reaches it: what one operation makes is exchanged for other
// numbers, and all that depends on it is computed from these.
struct SpoiledResult {
  std::string operation;
  std::string value;  // What the operation makes.
  std::string what;   // "its result 1.25 times as large".
  std::function<absl::StatusOr<NDArray>(const NDArray&)> spoil;
};

// Draws one of these values, so that spoiling it changes an output by
// `least_effect` at least. Fails with kNotFound if there is none.
absl::StatusOr<SpoiledResult> DrawSpoiling(const CheckedNetwork& checked,
                                           const std::set<std::string>& values,
                                           double least_effect, uint64_t seed);

// Makes a runner that is the same but for the spoiled value, which it has from
// `asked`, another runner of the network that hands it out. A value that the
// caller patches is not spoiled. Runs fail with kUnavailable if it is not
// handed out.
std::unique_ptr<Runner> MakeSpoiledRunner(std::unique_ptr<Runner> runner,
                                          std::unique_ptr<Runner> asked,
                                          SpoiledResult spoiling);

}  // namespace nodewise
