#include "apps/nodewise/target_options.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

absl::StatusOr<DLDevice> ParseDevice(const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto type = ParseDeviceType(text.substr(0, colon));
  if (!type.ok()) return At("--device", type.status());
  DLDevice device = MakeDevice(*type, 0);
  if (colon < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] =
        std::from_chars(text.data() + colon + 1, end, device.device_id);
    if (error != std::errc() || stop != end || device.device_id < 0) {
      return absl::InvalidArgumentError(fmt::format(
          "--device: found \"{}\", expected NAME or NAME:ID, as in cpu:0",
          text));
    }
  }
  const auto found = FindDevice(device);
  if (!found.ok()) return At("--device " + text, found.status());
  return device;
}

absl::StatusOr<std::vector<DLDevice>> DevicesOf(const TargetOptions& target) {
  std::vector<DLDevice> devices;
  for (const std::string& text : target.devices) {
    NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, ParseDevice(text));
    devices.push_back(device);
  }
  if (std::none_of(devices.begin(), devices.end(),
                   [](DLDevice device) { return device == kCpu; })) {
    devices.push_back(kCpu);
  }
  return devices;
}

}  // namespace

void AddTargetOptions(OptionList* options, TargetOptions* target) {
  options->AddPositional(
      "TARGET",
      "an artefact folder, a factory or VM library, a graph "
      "JSON with --lib and --params, or an ONNX model; run, "
      "dump, profile and locate take ort:MODEL.onnx and its like "
      "(docs/adapters.md), and exec:COMMAND",
      &target->target);
  options->AddText("--lib", "FILE", "the compiled library to use",
                   &target->library);
  options->AddText("--params", "FILE", "the parameters to use",
                   &target->params);
  options->AddText("--function", "NAME",
                   "of a VM library, the function to use: main, if it has one",
                   &target->function);
}

void AddDeviceOption(OptionList* options, TargetOptions* target) {
  options->AddTexts("--device", "NAME[:ID]",
                    "where to run: cpu (the default); may be given again for "
                    "graphs on several devices",
                    &target->devices);
}

absl::StatusOr<TargetSpec> SpecOf(const TargetOptions& target) {
  TargetSpec spec;
  spec.path = target.target;
  spec.library = target.library;
  spec.params = target.params;
  spec.function = target.function;
  NODEWISE_ASSIGN_OR_RETURN(spec.devices, DevicesOf(target));
  return spec;
}

std::vector<std::string> PathsIn(const ArtefactFiles& files) {
  std::vector<std::string> paths;
  for (const std::string* path :
       {&files.graph, &files.library, &files.params}) {
    if (!path->empty()) paths.push_back(*path);
  }
  return paths;
}

absl::Status CheckModelTarget(const TargetOptions& target) {
  const std::pair<bool, const char*> options[] = {
      {!target.library.empty(), "--lib"},
      {!target.params.empty(), "--params"},
      {!target.devices.empty(), "--device"},
      {!target.function.empty(), "--function"},
  };
  for (const auto& [is_given, name] : options) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: is an ONNX model, expected no {}", target.target, name));
  }
  return absl::OkStatus();
}

bool MayBeVmLibrary(const std::string& path) {
  const auto library = OpenVmLibrary(path);
  return !library.ok() || *library != nullptr;
}

}  // namespace nodewise
