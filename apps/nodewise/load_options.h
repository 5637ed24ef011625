#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/model_options.h"
#include "apps/nodewise/precision_options.h"
#include "apps/nodewise/target_options.h"
#include "nodewise/session/session.h"

namespace nodewise {

// The options that say what a target is and how it is loaded.
struct LoadOptions {
  TargetOptions target;
  ModelOptions model;
  LoweringOptions lowering;
  PrecisionChoice precision;
  std::vector<std::string> stand_ins;  // Regular expressions.
  std::string passes;  // By name, with commas between; "": none.
  // As in TargetSpec.
  bool keeps_opaque = false;
};

// --stand-in REGEX
void AddStandInOption(OptionList* options,
                      std::vector<std::string>* expressions);
// Declares all of them, and those of inputs.
void AddLoadOptions(OptionList* options, LoadOptions* load,
                    InputOptions* inputs);

// Returns what the options mean. Fails with kInvalidArgument for one that
// cannot be read, or means nothing for this target.
absl::StatusOr<TargetSpec> SpecOf(const LoadOptions& options,
                                  const InputOptions& inputs);

// What to do with a model whose sizes are not all known before it runs.
enum class OpenSizes {
  kRefused,  // Fail with kUnimplemented, naming --dim and --freeze.
  kKept,     // Return the network alone, for the interpreter.
};

// Opens the target that the options name (nodewise/session/session.h). All
// faults of the model and of the inputs go into the report, which is then
// kError, and so does what is worth knowing about them.
absl::StatusOr<Session> LoadTarget(const LoadOptions& options,
                                   const InputOptions& inputs, Report* report,
                                   OpenSizes open = OpenSizes::kRefused);
// Does the same without collecting inputs: those that the options name only
// give their sizes.
absl::StatusOr<Session> LoadWithoutInputs(const LoadOptions& options,
                                          const InputOptions& inputs,
                                          Report* report);

// Returns what was opened, after its notes went into the report; or, with
// kError, its faults.
absl::StatusOr<Session> Opened(absl::StatusOr<Session> session,
                               const DiagnosticList& faults, Report* report);

}  // namespace nodewise
