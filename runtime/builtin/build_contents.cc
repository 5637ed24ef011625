#include <string>

#include "fmt/format.h"
#include "nodewise/cpu/cpu.h"
#include "nodewise/device/device.h"
#include "nodewise/func/registry.h"
#include "runtime/builtin/builtin_functions.h"

#ifdef NODEWISE_USE_PROFILER
#include "nodewise/profile/debug_module.h"
#include "nodewise/support/status.h"
#endif

namespace nodewise {
namespace {

// Every device type that TVM has a number for, whether built in or not, so that
// messages can name it. `open` is null for those that this build lacks.
struct DeviceRow {
  int type;
  const char* name;
  Device* (*open)();
};

constexpr DeviceRow kDevices[] = {
    {1, "cpu", &OpenCpuDevice},    {2, "cuda", nullptr},
    {3, "cuda_host", nullptr},     {4, "opencl", nullptr},
    {7, "vulkan", nullptr},        {8, "metal", nullptr},
    {9, "vpi", nullptr},           {10, "rocm", nullptr},
    {11, "rocm_host", nullptr},    {12, "ext_dev", nullptr},
    {13, "cuda_managed", nullptr}, {14, "oneapi", nullptr},
    {15, "webgpu", nullptr},       {16, "hexagon", nullptr},
    {32, "aocl", nullptr},         {33, "sdaccel", nullptr},
    {34, "opengl", nullptr},       {35, "microdev", nullptr},
};

// Types come from graphs and hosts, and need not be in the table.
const DeviceRow* FindRow(int type) {
  for (const DeviceRow& row : kDevices) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

std::string BuiltInNames() {
  std::string names;
  for (const DeviceRow& row : kDevices) {
    if (row.open != nullptr)
      names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

#ifndef NODEWISE_USE_PROFILER
// Registered in place of the debug executor, so that a caller hears how to get
// it.
Result RefuseDebug(PackedArgs) {
  return Unimplemented(
      "this build has no debug executor: it was configured with USE_PROFILER "
      "OFF (set USE_PROFILER ON in config.cmake, or -DUSE_PROFILER=ON)");
}

absl::Span<const FunctionRow> DebugFunctions() {
  static constexpr FunctionRow kRows[] = {
      {"tvm.graph_executor_debug.create", &RefuseDebug},
      {"tvm.graph_runtime_debug.create", &RefuseDebug},
  };
  return kRows;
}
#endif

}  // namespace

absl::StatusOr<Device*> FindDevice(DLDevice device) {
  const DeviceRow* row = FindRow(DeviceTypeOf(device));
  if (row != nullptr && row->open != nullptr) return row->open();
  return Unavailable("{}: this build has no such device, it has: {}",
                     ToString(device), BuiltInNames());
}

std::string DeviceTypeName(int device_type) {
  const DeviceRow* row = FindRow(device_type);
  return row != nullptr ? row->name
                        : fmt::format("device_type_{}", device_type);
}

std::string ToString(DLDevice device) {
  return fmt::format("{}({})", DeviceTypeName(DeviceTypeOf(device)),
                     device.device_id);
}

// Knows devices that this build lacks, too: a check for another machine names
// them.
absl::StatusOr<int> ParseDeviceType(std::string_view name) {
  for (const DeviceRow& row : kDevices) {
    if (name == row.name) return row.type;
  }
  return NotFound("device {}: no such device, this build has: {}", name,
                  BuiltInNames());
}

// One table for each subject keeps the order of registration out of play;
// nothing registers itself.
absl::Span<const absl::Span<const FunctionRow>> BuiltInFunctions() {
  static const absl::Span<const FunctionRow> tables[] = {
      ArrayFunctions(),  ContainerFunctions(), DebugFunctions(),
      ModuleFunctions(), RuntimeFunctions(),   SortFunctions(),
      TimingFunctions(),
  };
  return tables;
}

}  // namespace nodewise
