// The verbs and options that a build lacks; they say why. Each kind of build
// that lacks something compiles this file.

#include "apps/nodewise/build_parts.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The verb stays in the list of verbs, so that asking for it says why it is
// missing and how it comes back.
[[maybe_unused]] constexpr CommandRow MissingRow(const char* name,
                                                 const char* summary,
                                                 absl::Status (*why)()) {
  return {.name = name, .summary = summary, .examples = "", .missing = why};
}

}  // namespace

#ifndef NODEWISE_USE_LAB
namespace {

absl::Status NeedsLab(std::string_view verb) {
  return Unimplemented(
      "{}: needs the lab, and this build was configured with USE_LAB, USE_ONNX "
      "or USE_PROFILER OFF (set all three ON in config.cmake, or -DUSE_LAB=ON "
      "-DUSE_ONNX=ON -DUSE_PROFILER=ON)",
      verb);
}

}  // namespace

const CommandRow kAutotestCommand = MissingRow(
    "autotest", "tests operators on random cases (not in this build)",
    [] { return NeedsLab("autotest"); });

const CommandRow kAdapterCommand = MissingRow(
    "adapter", "measures what is usual for a runtime (not in this build)",
    [] { return NeedsLab("adapter"); });
#endif

#if !defined(NODEWISE_USE_PROFILER) || !defined(NODEWISE_USE_ONNX)

absl::Status NeedsProfiler(std::string_view what) {
  return Unimplemented(
      "{}: needs the debug executor, and this build was configured with "
      "USE_PROFILER OFF (set USE_PROFILER ON in config.cmake, or "
      "-DUSE_PROFILER=ON)",
      what);
}

namespace {

// Where both are missing, the debug executor is named: the operators alone
// would not bring the verb back.
absl::Status NeedsMore(std::string_view verb) {
#ifndef NODEWISE_USE_PROFILER
  return NeedsProfiler(verb);
#else
  return Unimplemented(
      "{}: needs the operators of ONNX, and this build was configured with "
      "USE_ONNX OFF (set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)",
      verb);
#endif
}

}  // namespace

#ifndef NODEWISE_USE_PROFILER
const CommandRow kProfileCommand =
    MissingRow("profile", "times every node (not in this build)",
               [] { return NeedsProfiler("profile"); });

const CommandRow kDumpCommand =
    MissingRow("dump", "records every tensor of a run (not in this build)",
               [] { return NeedsProfiler("dump"); });
#endif

#ifndef NODEWISE_USE_ONNX
// Options about precision are declared in every build, and refused where TARGET
// is not a model; a model cannot be read here at all.
absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice&) {
  return PrecisionSpec();
}

std::string PassHelp() { return "this build has no passes\n"; }

absl::Status CheckPasses(const std::string& list) {
  return list.empty() ? absl::OkStatus()
                      : Unimplemented("this build has no operators");
}
#endif

const CommandRow kDemoCommand = MissingRow(
    "demo", "shows the main job on a made-up network (not in this build)",
    [] { return NeedsMore("demo"); });

const CommandRow kLocateCommand =
    MissingRow("locate", "names the node that is wrong (not in this build)",
               [] { return NeedsMore("locate"); });

const CommandRow kAlignCommand =
    MissingRow("align", "matches a network with its model (not in this build)",
               [] { return NeedsMore("align"); });

const CommandRow kReproCommand =
    MissingRow("repro", "cuts a node out as a folder (not in this build)",
               [] { return NeedsMore("repro"); });

absl::StatusOr<Report> DiagnoseDump(const std::string&, const std::string&,
                                    const ModelSpec&) {
  return NeedsMore("compare of a dump with a model");
}

#endif

}  // namespace nodewise
