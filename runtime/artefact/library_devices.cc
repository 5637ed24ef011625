#include "runtime/artefact/library_devices.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "nodewise/device/device.h"

namespace nodewise {
namespace {

// TVM calls the device's part of a function F F_kernel, F_kernel_1, ...; before
// 0.8 F_kernel0, F_kernel1, ...
constexpr std::string_view kKernelEnding = "_kernel";

// Returns the device that runs a module of this kind, if one does.
std::optional<int> DeviceTypeOfKind(std::string_view kind) {
  if (kind == "hip") kind = "rocm";
  if (kind == "aocl_sw_emu") kind = "aocl";
  const auto type = ParseDeviceType(kind);
  if (!type.ok() || *type == kDLCPU) return std::nullopt;
  return *type;
}

// A kernel is launched through a function that the compiled code looks up by
// name. Code that looks up nothing only runs on the host, regardless of what
// its library carries.
bool LooksUpFunctions(const LibrarySummary& library) {
  const auto is_lookup = [](std::string_view name) {
    return name.ends_with("TVMBackendGetFuncFromEnv") ||
           name.ends_with("TVMFFIEnvModLookupFromImports");
  };
  return std::any_of(library.context.begin(), library.context.end(),
                     is_lookup) ||
         std::any_of(library.runtime_calls.begin(), library.runtime_calls.end(),
                     is_lookup);
}

using Names = std::set<std::string_view>;

// Returns the host function that launches a kernel, "" if its name does not
// tell.
std::string_view LauncherOf(std::string_view kernel, const Names& functions) {
  const size_t end = kernel.rfind(kKernelEnding);
  if (end == std::string_view::npos) return "";
  const auto found = functions.find(kernel.substr(0, end));
  return found == functions.end() ? std::string_view() : *found;
}

Names FunctionsCalled(const Graph& graph) {
  Names called;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    if (node.function == kNopFunction || node.function == kCopyFunction) {
      continue;
    }
    called.insert(node.function);
  }
  return called;
}

bool MayCall(const Names& called, const ModuleSummary& module,
             const Names& functions) {
  if (called.empty()) return false;
  // The summary does not know the kernels in a TVM-FFI library.
  if (module.functions.empty()) return true;
  return std::any_of(module.functions.begin(), module.functions.end(),
                     [&](const std::string& kernel) {
                       const auto launcher = LauncherOf(kernel, functions);
                       return launcher.empty() || called.contains(launcher);
                     });
}

}  // namespace

std::vector<DeviceModule> DeviceModulesUsed(const LibrarySummary& library,
                                            const Graph* graph) {
  std::vector<DeviceModule> used;
  if (!LooksUpFunctions(library)) return used;
  const Names functions(library.functions.begin(), library.functions.end());
  const Names called = graph == nullptr ? Names() : FunctionsCalled(*graph);
  for (size_t m = 0; m < library.modules.size(); ++m) {
    const ModuleSummary& module = library.modules[m];
    const std::optional<int> type = DeviceTypeOfKind(module.kind);
    if (!type.has_value()) continue;
    if (graph == nullptr || MayCall(called, module, functions)) {
      used.push_back({m, *type});
    }
  }
  return used;
}

}  // namespace nodewise
