#include "apps/nodewise/debug_run_options.h"

namespace nodewise {
namespace {

constexpr uint64_t kLongestLimit = 86'400'000;

}  // namespace

std::string_view DebugRunOptions::Given() const {
  if (!until.empty()) return "--until";
  if (!patches.empty()) return "--patch";
  if (!stop_on.empty()) return "--stop-on";
  if (sanitize) return "--sanitize";
  if (isolate) return "--isolate";
  if (sweep) return "--sweep";
  return time_limit_ms.has_value() ? "--time-limit-ms" : "";
}

void AddDebugRunOptions(OptionList* options, DebugRunOptions* debug) {
  options->AddText("--until", "NODE",
                   "stops after this node and shows what it made; NODE is a "
                   "name or #NUMBER",
                   &debug->until);
  options->AddTexts(
      "--patch", "ENTRY=FILE",
      "gives NODE or NODE:OUTPUT the tensor of that name in a "
      "file, or its only one, instead of running it; may be given "
      "again",
      &debug->patches);
  options->AddTexts("--stop-on", "VALUE",
                    "stops at the first node that makes such a value: nan, inf "
                    "or abs>LIMIT; may be given again",
                    &debug->stop_on);
  options->AddFlag("--sanitize",
                   "finds nodes that write or read memory that is not theirs, "
                   "and faults of the storage plan",
                   &debug->sanitize);
  options->AddFlag("--isolate",
                   "runs every node in a process of its own, so that one that "
                   "crashes or hangs is named",
                   &debug->isolate);
  options->AddNumber("--time-limit-ms", "MS",
                     "with --isolate: for one node (10000)",
                     {&debug->time_limit_ms, 1, kLongestLimit});
  options->AddFlag("--sweep",
                   "repeats the run over thread counts and buffer addresses, "
                   "and finds nodes that do not always make the same",
                   &debug->sweep);
}

}  // namespace nodewise
