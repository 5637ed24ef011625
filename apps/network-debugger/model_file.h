#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
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

}  // namespace nodewise
