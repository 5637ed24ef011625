#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The inputs of one run, and the files that they come from.
struct SampleInputs {
  std::string from;
  std::vector<NamedTensor> inputs;
};

// Reads the files. One that has a tensor for every input of the network is a
// sample of its own; those that have fewer are joined, in their order, until
// nothing is missing. A tensor goes to the input of its name, or, if it is
// alone in its file and the network has one input, to that. Fails with
// kInvalidArgument or kNotFound, naming the file, for tensors that do not fit
// and inputs that are missing.
absl::StatusOr<std::vector<SampleInputs>> ReadSamples(
    absl::Span<const std::string> files, const Network& network);

}  // namespace nodewise
