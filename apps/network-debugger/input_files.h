#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// Reads an ONNX model, or a zip archive that holds one, recognised by its first
// bytes: the member "model" with the constants in "weight_0", "weight_1", ...,
// as Glow writes it, or the one that is called *.onnx, or the only one. What
// cannot be imported goes into `diagnostics`. Fails as ImportOnnx(), or with
// kInvalidArgument for an archive without a model.
absl::StatusOr<Network> LoadModelFile(const std::string& path,
                                      const ImportOptions& options,
                                      DiagnosticList* diagnostics);

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
