#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=FILE
  std::vector<std::string> inputs_files;
  std::optional<uint64_t> seed;
};

void AddInputOptions(OptionList* options, InputOptions* inputs);

// Returns what the options mean, with hints that name them.
absl::StatusOr<InputSpec> SpecOf(const InputOptions& options);

}  // namespace nodewise
