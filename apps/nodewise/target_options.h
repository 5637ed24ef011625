#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/artefact/artefact.h"

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

// Returns the files of the target, after checking that each can be read.
absl::StatusOr<ArtefactFiles> FilesOf(const TargetOptions& target);

// Returns the paths of those of the three files that exist.
std::vector<std::string> PathsIn(const ArtefactFiles& files);

// Fails with kInvalidArgument for options that mean nothing for an ONNX model.
absl::Status CheckModelTarget(const TargetOptions& target);

// Returns false for a library without bytecode. A file that cannot be read
// counts as one with it: its reader will say what is wrong.
bool MayBeVmLibrary(const std::string& path);

// Returns the devices, the CPU if none is given; the CPU also comes last after
// others, for what a compiler left on the host. Fails with kUnavailable if one
// does not exist.
absl::StatusOr<std::vector<DLDevice>> DevicesOf(const TargetOptions& target);

}  // namespace nodewise
