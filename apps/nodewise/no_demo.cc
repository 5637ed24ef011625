// The demonstration in builds that lack one of its parts; it says which.

#include "apps/nodewise/command.h"

namespace nodewise {
namespace {

absl::Status NeedsMore() {
#ifndef NODEWISE_USE_PROFILER
  return absl::UnimplementedError(
      "demo: needs the debug executor, and this build was configured with "
      "USE_PROFILER OFF (set USE_PROFILER ON in config.cmake, or "
      "-DUSE_PROFILER=ON)");
#else
  return absl::UnimplementedError(
      "demo: needs the operators of ONNX, and this build was configured with "
      "USE_ONNX OFF (set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)");
#endif
}

}  // namespace

const CommandRow kDemoCommand = {
    "demo", "shows the main job on a made-up network (not in this build)", "",
    nullptr, &NeedsMore};

}  // namespace nodewise
