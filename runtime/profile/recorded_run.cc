#include "nodewise/profile/recorded_run.h"

#include <chrono>

#include "nodewise/support/clock.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

Profile ProfileOfNow() {
  Profile profile;
  profile.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  profile.monotonic_ns = ClockNanoseconds();
  profile.threads = NumThreads();
  return profile;
}

}  // namespace

RecordedRuns RunRecorded(DebugExecutor* executor,
                         const RecordedRunOptions& options) {
  RecordedRuns recorded;
  recorded.profile = ProfileOfNow();
  for (int i = 0; i < options.runs; ++i) {
    recorded.status = executor->Run();
    recorded.dump_status = executor->dump_status();
    if (recorded.status.ok()) {
      recorded.profile.runs.push_back(executor->times());
    }
    const bool has_dump =
        recorded.dump_status.ok() && executor->dump_plan() != nullptr;
    if (has_dump) recorded.dumps.push_back(executor->dump_folder());
    if (!recorded.status.ok() || !recorded.dump_status.ok()) break;
  }
  if (recorded.profile.runs.empty()) return recorded;
  const ProfileSummary summary =
      SummariseProfile(executor->index(), recorded.profile);
  recorded.table =
      ProfileTable(executor->graph(), summary, recorded.profile, options.table);
  return recorded;
}

}  // namespace nodewise
