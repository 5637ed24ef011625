#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/session/target_spec.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// Returns true for a file called *.onnx; the bytes do not tell.
bool IsModel(const std::string& path);
// Returns whether a file holds a network as text
// (docs/formats/network_text.md). A file that cannot be read does not.
bool IsNetworkText(const std::string& path);
// Returns whether LoadModel() can read it: one of both.
bool IsModelOrText(const std::string& path);

// Reads a model, or the text of a network. All its faults go into
// `diagnostics`, and so do warnings that come with a network; the status is the
// first error, or says that the file cannot be read or is not a model. Fails
// with kUnimplemented in a build without operators.
absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelSpec& spec,
                                  DiagnosticList* diagnostics);

// Returns the model of a spec: the one in memory, or what LoadModel() reads.
// Warnings about one that was read become notes; of one that cannot be read,
// all that was found goes into `diagnostics`.
absl::StatusOr<Network> LoadNetworkOf(const TargetSpec& spec,
                                      std::vector<std::string>* notes,
                                      DiagnosticList* diagnostics);

// Reads a network as text, whether it is valid or not.
absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path);

}  // namespace nodewise
