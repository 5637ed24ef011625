#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/artefact/artefact.h"

namespace nodewise {

// What names an artefact on the command line, and where it is to run.
struct TargetOptions {
  std::string target;
  std::string library;
  std::string params;
  std::string function;
  std::vector<std::string> devices;
};

void AddTargetOptions(OptionList* options, TargetOptions* target);
void AddDeviceOption(OptionList* options, TargetOptions* target);

// The files of the target, each of which is there to be read.
absl::StatusOr<ArtefactFiles> FilesOf(const TargetOptions& target);

// Those of the three files that there are.
std::vector<std::string> PathsIn(const ArtefactFiles& files);

// kInvalidArgument for options that an ONNX model as the target has no use for.
absl::Status CheckModelTarget(const TargetOptions& target);

// False for a library without bytecode. What cannot be read may be one: its
// reader will say what is wrong with it.
bool MayBeVmLibrary(const std::string& path);

// The devices, the CPU where none is given; the CPU also stands last behind
// others, for what a compiler left on the host. kUnavailable if one is not
// there.
absl::StatusOr<std::vector<DLDevice>> DevicesOf(const TargetOptions& target);

}  // namespace nodewise
