#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/runner/input_collector.h"

namespace nodewise {

// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=FILE
  std::vector<std::string> inputs_files;
  std::optional<uint64_t> seed;
};

void AddInputOptions(OptionList* options, InputOptions* inputs);

// Returns the files that the options name.
absl::StatusOr<std::vector<InputFile>> InputFilesOf(
    const InputOptions& options);

// Collects the inputs that the options describe; all faults go into
// `diagnostics`. `how_to_size` is InputCollector::Hints::how_to_size.
std::vector<RunInput> CollectInputs(
    const InputOptions& options, const InputList& list, const InputFiles& files,
    DiagnosticList* diagnostics,
    std::function<std::string(const std::string& name, const TensorType& type)>
        how_to_size = nullptr);

}  // namespace nodewise
