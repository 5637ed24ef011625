// The demonstration, and naming the culprit, in builds that lack one of their
// parts; they say which.

#include "apps/nodewise/command.h"
#include "apps/nodewise/diagnose_dump.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

absl::Status NeedsMore(std::string_view verb) {
#ifndef NODEWISE_USE_PROFILER
  return absl::UnimplementedError(fmt::format(
      "{}: needs the debug executor, and this build was configured with "
      "USE_PROFILER OFF (set USE_PROFILER ON in config.cmake, or "
      "-DUSE_PROFILER=ON)",
      verb));
#else
  return absl::UnimplementedError(fmt::format(
      "{}: needs the operators of ONNX, and this build was configured with "
      "USE_ONNX OFF (set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)",
      verb));
#endif
}

}  // namespace

const CommandRow kDemoCommand = {
    "demo", "shows the main job on a made-up network (not in this build)", "",
    nullptr, [] { return NeedsMore("demo"); }};

const CommandRow kLocateCommand = {
    "locate", "names the node that is wrong (not in this build)", "", nullptr,
    [] { return NeedsMore("locate"); }};

const CommandRow kAlignCommand = {
    "align", "matches a network with its model (not in this build)", "",
    nullptr, [] { return NeedsMore("align"); }};

const CommandRow kReproCommand = {
    "repro", "cuts a node out as a folder (not in this build)", "", nullptr,
    [] { return NeedsMore("repro"); }};

absl::StatusOr<Report> DiagnoseDump(const std::string&, const std::string&,
                                    const ModelSpec&) {
  return NeedsMore("compare of a dump with a model");
}

}  // namespace nodewise
