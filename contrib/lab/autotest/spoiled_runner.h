#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/autotest/check_adapter.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_sink.h"

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

// Keeps what a runner of a network hands out, by the names of values.
class ValueKeeper : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(values_[std::string(item.key.node)], item.Keep());
    return absl::OkStatus();
  }
  const std::map<std::string, NDArray>& values() const { return values_; }

 private:
  std::map<std::string, NDArray> values_;
};

}  // namespace nodewise
