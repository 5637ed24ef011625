#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/model_options.h"
#include "apps/nodewise/model_passes.h"
#include "apps/nodewise/opaque_operations.h"
#include "apps/nodewise/precision_options.h"
#include "apps/nodewise/target_options.h"
#include "nodewise/lower/lowered_library.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// A compiled network, or a model that has become one, that the options name,
// and the inputs for it.
struct LoadedTarget {
  // Null for a model that stays a network.
  std::shared_ptr<const GraphTarget> target;
  // The files of the inputs have been read once, so that all executors have the
  // same inputs, whatever the code that runs does to files and folders.
  std::vector<RunInput> inputs;
  // The network of a model; null for what is compiled already.
  std::shared_ptr<const Network> network;
  // The functions of nodewise's own that it may have; may be null.
  Ref<LoweredLibrary> built_ins;
  // What has been done to a model whose precision was lowered; else null.
  std::shared_ptr<const PrecisionResult> precision;
  // What passes did to a model that the options name some for; else null.
  std::shared_ptr<const PassesReport> passes;
  // What is opaque in a model; null for what is compiled already.
  std::shared_ptr<const OpaqueReport> opaque;
  // The keys of the nodes that the reference computes, since the options say
  // so.
  std::vector<std::string> stand_ins;
};

// The options that say what a target is and how it is loaded.
struct LoadOptions {
  TargetOptions target;
  ModelOptions model;
  LoweringOptions lowering;
  PrecisionChoice precision;
  std::vector<std::string> stand_ins;  // Regular expressions.
  std::string passes;  // By name, with commas between; "": none.
  // The model stays whole, for a program that knows what is opaque in it.
  bool keeps_opaque = false;
};

// Declares all of them, and those of inputs.
void AddLoadOptions(OptionList* options, LoadOptions* load,
                    InputOptions* inputs);

// What to do with a model whose sizes are not all known before it runs.
enum class OpenSizes {
  kRefused,  // Fail with kUnimplemented, naming --dim and --freeze.
  kKept,     // Return the network alone, for the interpreter.
};

// Loads the target: an artefact, or a model, which is lowered. All faults of
// the model and of the inputs go into the outcome, which is then kError, and so
// does what is worth knowing about them.
absl::StatusOr<LoadedTarget> LoadTarget(const LoadOptions& options,
                                        const InputOptions& inputs,
                                        Outcome* outcome,
                                        OpenSizes open = OpenSizes::kRefused);
// Does the same without collecting inputs: those that the options name only
// give their sizes. The outcome is then kOk unless the model has faults.
absl::StatusOr<LoadedTarget> LoadWithoutInputs(const LoadOptions& options,
                                               const InputOptions& inputs,
                                               OpenSizes open,
                                               InputFiles* input_files,
                                               Outcome* outcome);
// Does the part of it that is for models alone, but for the inputs; what it
// reads of their files is kept.
absl::StatusOr<LoadedTarget> LoadModelTarget(const LoadOptions& options,
                                             const InputOptions& inputs,
                                             OpenSizes open,
                                             InputFiles* input_files,
                                             Outcome* outcome);
// Reads a model alone, in the precision that is wanted, with the sizes that the
// inputs at hand have. Sets `network` and `precision`; there is none if the
// model has faults, which are in the outcome then.
absl::StatusOr<LoadedTarget> LoadModelNetwork(const LoadOptions& options,
                                              const InputOptions& inputs,
                                              InputFiles* input_files,
                                              Outcome* outcome);

// Shows the head of a report: the target and its files, the inputs.
void ShowTarget(const LoadedTarget& loaded, const InputOptions& options,
                Outcome* outcome);
// Shows inputs and where they came from.
void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                const InputOptions& options, Outcome* outcome);
// Shows what computed the nodes whose functions are built in, and why others
// refused some; nothing for compiled code.
void ShowKernels(const LoadedTarget& loaded, Outcome* outcome);

}  // namespace nodewise
