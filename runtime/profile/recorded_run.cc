#include "nodewise/profile/recorded_run.h"

#include "nodewise/graph/finding.h"

namespace nodewise {

RecordedRuns RunRecorded(DebugExecutor* executor,
                         const RecordedRunOptions& options) {
  RecordedRuns recorded;
  recorded.profile = BeginProfile();
  for (int i = 0; i < options.runs; ++i) {
    {
      const NotedRun run("");
      recorded.status = executor->Run();
    }
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
  recorded.summary = SummariseProfile(executor->index(), recorded.profile);
  recorded.table = ProfileTable(executor->graph(), recorded.summary,
                                recorded.profile, options.table);
  return recorded;
}

}  // namespace nodewise
