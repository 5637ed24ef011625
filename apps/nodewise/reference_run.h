#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/model_options.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Runs an ONNX model with the reference and shows the outputs. `output` is
// where the caller will write them, checked before the run. Faults of the model
// and of the inputs go into the outcome, which is then kError.
absl::StatusOr<std::vector<NamedTensor>> RunReference(
    const std::string& path, const ModelOptions& model,
    const InputOptions& inputs, const std::string& output, Outcome* outcome);

}  // namespace nodewise
