#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What a program is to run.
struct ProgramRequest {
  // Must not change any more.
  std::shared_ptr<const Network> network;
  // The file that it was read from; empty if it was changed since, by a frozen
  // input say, so that the file would be another network.
  std::string model_file = {};
  // The values that are handed to a sink, beside inputs and outputs; none: all
  // that there are. Others count as not there.
  std::optional<std::vector<std::string>> observed = std::nullopt;
  // Each of them is had as the only output of a model that ends at it. Makers
  // that do not know how leave it.
  bool ends_at_each = false;
};

// How often a program was started, by what it was given to run, and for how
// long in all.
struct ProgramRuns {
  uint64_t as_read = 0;   // The user's file.
  uint64_t observed = 0;  // A model with further outputs.
  uint64_t changed = 0;   // One in which values are exchanged, or that ends
                          // before the end.
  int64_t nanoseconds = 0;

  uint64_t count() const { return as_read + observed + changed; }
  friend ProgramRuns operator+(const ProgramRuns& a, const ProgramRuns& b) {
    return {a.as_read + b.as_read, a.observed + b.observed,
            a.changed + b.changed, a.nanoseconds + b.nanoseconds};
  }
  friend ProgramRuns operator-(const ProgramRuns& a, const ProgramRuns& b) {
    return {a.as_read - b.as_read, a.observed - b.observed,
            a.changed - b.changed, a.nanoseconds - b.nanoseconds};
  }
};

// Something else that runs networks: another program, or a runner of your own.
struct NetworkProgram {
  std::string name;  // What reports call it: "ort:model.onnx".
  // Makes a runner with the capabilities kTensors and kPatches. It is called
  // more than once, for the whole network and for parts of it.
  std::function<absl::StatusOr<std::unique_ptr<Runner>>(ProgramRequest)> make;
  std::vector<std::string> command = {};  // For reports; may be empty.
  // What its runners have done up to now. May be empty; any thread may call it.
  std::function<ProgramRuns()> runs = nullptr;
};

}  // namespace nodewise
