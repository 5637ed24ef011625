#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/profile/profile.h"
#include "nodewise/profile/profile_table.h"

namespace nodewise {

// What runs of a debug executor left: TVM's debug executor prints the table and
// writes the dump in one run() too.
struct RecordedRuns {
  // The runs that came to their end, without plain runs beside them.
  Profile profile;
  // SummariseProfile and ProfileTable of them; empty if no run came to its end.
  ProfileSummary summary;
  std::string table;
  // The folder of each run's dump, also of one that failed; no more than that
  // if the executor records nothing.
  std::vector<std::string> dumps;
  absl::Status status;       // That of the run that failed, which is the last.
  absl::Status dump_status;  // What went wrong with writing the last dump.
};

struct RecordedRunOptions {
  int runs = 1;  // As many, unless one fails or its dump cannot be written.
  TableOptions table = {};
};

// Runs the executor as DebugExecutor::Run() does, and makes the table of the
// very runs that it recorded. Between two nodes the run records what they made,
// so that rows do not follow one another at once, and a node finds caches in
// which its inputs have just been read. REQUIRES: options.runs is at least 1.
RecordedRuns RunRecorded(DebugExecutor* executor,
                         const RecordedRunOptions& options = {});

}  // namespace nodewise
