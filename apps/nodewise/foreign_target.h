#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/runner/foreign_runner.h"

namespace nodewise {

// A TARGET that another program runs: "ort:model.onnx", or "exec:COMMAND" with
// --model.
struct ForeignOptions {
  std::string model;  // The model of exec:.
  std::string python;
  std::string ort_provider, ort_level;
  std::optional<uint64_t> limit_s;
  std::optional<uint64_t> at_once;
};

void AddForeignOptions(OptionList* options, ForeignOptions* foreign);
// Adds, for verbs that look inside, how much of it the program shows at a time.
void AddObservationOption(OptionList* options, ForeignOptions* foreign);

// Returns whether a TARGET begins with ort: or exec:.
bool IsForeign(const std::string& target);

// Has the program that runs opaque operations take the options about programs.
void ShareWithOpaque(const ForeignOptions& options, ModelOptions* model);

// Fails with kInvalidArgument if one of them is given with another TARGET, and
// is not for what runs opaque operations either.
absl::Status CheckNoForeignOptions(const ForeignOptions& options,
                                   const std::string& target,
                                   const ModelOptions& model);

// Returns a program that runs parts of models: "ort", which rewrites no model
// unless told, "onnx", the evaluator of ONNX's own package, or "exec:COMMAND".
// It has no network yet. Fails with kInvalidArgument, beginning with `option`,
// for another text.
absl::StatusOr<ForeignTarget> ProgramNamed(const std::string& option,
                                           const std::string& text,
                                           const ForeignOptions& options);

// What a foreign program is to run, and with what.
struct LoadedForeign {
  ForeignTarget target;
  std::unique_ptr<const InputList> list;
  std::vector<RunInput> inputs;
  std::shared_ptr<const OpaqueReport> opaque;

  std::vector<NamedTensor> NamedInputs() const {
    return NameInputs(*list, inputs);
  }
};

// Reads the model and collects the inputs. All faults of them go into the
// outcome, which is then kError. Fails with kInvalidArgument for options that
// mean nothing here.
absl::StatusOr<LoadedForeign> LoadForeign(const LoadOptions& load,
                                          const ForeignOptions& foreign,
                                          const InputOptions& inputs,
                                          Outcome* outcome);

// Shows the head of a report: the target and its inputs.
void ShowForeign(const LoadedForeign& loaded, const InputOptions& options,
                 Outcome* outcome);

}  // namespace nodewise
