#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/runtime/graph_executor.h"
#include "nodewise/runtime/vm_graph.h"
#include "nodewise/support/fault.h"

namespace nodewise {

// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=FILE
  std::string inputs_file;
  std::optional<uint64_t> seed;
};

void AddInputOptions(OptionList* options, InputOptions* inputs);

// What is known of the inputs before there is a network: for one that takes
// dimensions from them. The first error of a file or an argument.
absl::StatusOr<std::vector<VmInputType>> InputTypes(
    const InputOptions& options);

// An input that was set, and from what: "x.npy", or "random, seed 7".
struct InputSource {
  size_t input = 0;
  std::string from;
};

// Sets the inputs, and draws those that are not given if there is a seed: each
// from a stream of its name, so that giving one leaves the others as they were.
// Returns what was set, in the order of the graph; every fault goes into
// `faults`: unknown and doubled names, types that do not fit, inputs that were
// not given.
std::vector<InputSource> SetInputs(const InputOptions& options,
                                   GraphExecutor* executor, FaultList* faults);

// What a file of tensors holds under one of these names, the first that is
// there, or its only tensor whatever that is called. kNotFound if neither is;
// the message names names[0].
absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names);

}  // namespace nodewise
