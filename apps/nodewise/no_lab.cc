// The verbs that draw their own cases, in builds without the lab; they say
// which option brings it back.

#include "apps/nodewise/command.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

absl::Status NeedsLab(std::string_view verb) {
  return absl::UnimplementedError(fmt::format(
      "{}: needs the lab, and this build was configured with USE_LAB, "
      "USE_ONNX or USE_PROFILER OFF (set all three ON in config.cmake, or "
      "-DUSE_LAB=ON -DUSE_ONNX=ON -DUSE_PROFILER=ON)",
      verb));
}

}  // namespace

const CommandRow kAutotestCommand = {
    "autotest", "tests operators on random cases (not in this build)", "",
    nullptr, [] { return NeedsLab("autotest"); }};

const CommandRow kAdapterCommand = {
    "adapter", "measures what is usual for a runtime (not in this build)", "",
    nullptr, [] { return NeedsLab("adapter"); }};

}  // namespace nodewise
