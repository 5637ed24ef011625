#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/target_options.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// A compiled network that the options name, and the inputs for it.
struct LoadedTarget {
  std::shared_ptr<const GraphTarget> target;
  // The files of the inputs have been read once, so that all executors have the
  // same inputs, whatever the code that runs does to files and folders.
  std::vector<RunInput> inputs;
};

// Loads the target. All faults of its inputs go into the outcome, which is then
// kError, and so does what is worth knowing about the parameters.
absl::StatusOr<LoadedTarget> LoadTarget(const TargetOptions& target,
                                        const InputOptions& inputs,
                                        Outcome* outcome);

// Shows the head of a report: the target and its files, the inputs.
void ShowTarget(const LoadedTarget& loaded, const InputOptions& options,
                Outcome* outcome);
// Shows inputs and where they came from.
void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                const InputOptions& options, Outcome* outcome);

}  // namespace nodewise
