#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// The options that name an artefact, and where it is to run.
struct TargetOptions {
  std::string target;
  std::string library;
  std::string params;
  std::string function;
  std::vector<std::string> devices;
};

void AddTargetOptions(OptionList* options, TargetOptions* target);
void AddDeviceOption(OptionList* options, TargetOptions* target);

// Returns what the options mean. Fails with kUnavailable if a device does not
// exist; the CPU comes last after others, for what a compiler left on the host.
absl::StatusOr<TargetSpec> SpecOf(const TargetOptions& target);

// Returns the paths of those of the three files that exist.
std::vector<std::string> PathsIn(const ArtefactFiles& files);

// Fails with kInvalidArgument for options that mean nothing for an ONNX model.
absl::Status CheckModelTarget(const TargetOptions& target);

// Returns false for a library without bytecode. A file that cannot be read
// counts as one with it: its reader will say what is wrong.
bool MayBeVmLibrary(const std::string& path);

}  // namespace nodewise
