#include "nodewise/func/registry.h"
#include "runtime/builtin/function_tables.h"

#ifdef NODEWISE_USE_PROFILER
#include "nodewise/profile/debug_module.h"
#endif

namespace nodewise {
namespace {

#ifndef NODEWISE_USE_PROFILER
// Tells a caller who asks for the debug executor how to get it.
absl::StatusOr<Value> RefuseDebug(PackedArgs) {
  return absl::UnimplementedError(
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

absl::Span<const absl::Span<const FunctionRow>> BuiltInFunctions() {
  static const absl::Span<const FunctionRow> tables[] = {
      ArrayFunctions(),  ContainerFunctions(), DebugFunctions(),
      ModuleFunctions(), RuntimeFunctions(),   SortFunctions(),
      TimingFunctions(),
  };
  return tables;
}

}  // namespace nodewise
