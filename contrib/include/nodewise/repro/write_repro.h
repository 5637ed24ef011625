#pragma once

#include <string>

#include "absl/status/status.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Writes a case as a folder that shows the failure wherever it is moved to
// (docs/formats/repro.md): an artefact of the one node, the same as an ONNX
// model with its test data where ONNX can express it, the tensors, a README
// with the one command, and for compiled functions a C++ program. Names that
// come from the model reach no path, no command and no program.
//
// `folder` must be empty or not exist; what it lies in must exist.
// Fails as CheckReproFolder(), naming what lies there; with kFailedPrecondition
// for functions that are neither built in nor a file; as ExportOnnx() for a
// case beside a model; and as writing does.
absl::Status WriteRepro(const ReproCase& node_case, const std::string& folder);

// Returns OK if the folder may be written: it does not exist, but what it lies
// in does, or it is empty. Fails with kNotFound or kInvalidArgument.
absl::Status CheckReproFolder(const std::string& folder);

}  // namespace nodewise
