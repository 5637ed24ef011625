#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/foreign/known_programs.h"

namespace nodewise {

// A TARGET that another program runs: "ort:model.onnx" or another one of
// KnownPrograms(), or "exec:COMMAND" with --model.
struct ForeignOptions {
  std::string model;  // The model of exec:.
  std::string python;
  std::string ort_provider, ort_level;
  std::vector<std::string> runtime_options;  // NAME=VALUE
  std::optional<uint64_t> limit_s, at_once;
};

void AddForeignOptions(OptionList* options, ForeignOptions* foreign);
// For verbs that look inside: how much of it the program shows at a time.
CommandOption ObservationOption(ForeignOptions* foreign);

// Has the program that runs opaque operations take the options about programs.
void ShareWithOpaque(const ForeignOptions& options, ModelOptions* model);

// Fails with kInvalidArgument if one of them is given with another TARGET, and
// is not for what runs opaque operations either.
absl::Status CheckNoForeignOptions(const ForeignOptions& options,
                                   const LoadOptions& load);

// Returns what the options mean for the program that the text names.
ProgramSpec SpecOf(const ForeignOptions& options, const std::string& text);

// Returns a program that runs parts of models: "ort", which rewrites no model
// unless told, another of KnownPrograms(), "onnx", the evaluator of ONNX's own
// package, or "exec:COMMAND". Fails with kInvalidArgument, beginning with
// `option`, for another text.
absl::StatusOr<ForeignTarget> ProgramNamed(const std::string& option,
                                           const std::string& text,
                                           const ForeignOptions& options);

// Returns what is to be opened where TARGET names a program. Fails with
// kInvalidArgument for options that mean nothing there.
absl::StatusOr<TargetSpec> ForeignSpec(const LoadOptions& load,
                                       const ForeignOptions& foreign);

// Opens it, as LoadTarget() does.
absl::StatusOr<Session> LoadForeign(const LoadOptions& load,
                                    const ForeignOptions& foreign,
                                    Report* report);

}  // namespace nodewise
