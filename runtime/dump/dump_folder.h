#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/support/temporary.h"

namespace nodewise {

// Names of a dump's files, beside kSourceGraphFile and kGraphDumpFile
// (dumped_graph.h).
inline constexpr char kTensorsFile[] = "output_tensors.params";
inline constexpr char kTraceFile[] = "_tvmdbg_execution_trace.json";
inline constexpr char kRecordsFile[] = "_nodewise_nodes.bin";

// A run's folder that did not exist before.
struct DumpFolder {
  std::string path;               // ROOT[/run_N]/_tvmdbg_device_CPU_0
  std::vector<std::string> made;  // The folders made for it, outermost first.
  // A temporary root, until the dump is complete. A root that the user named
  // always stays, with its contents.
  LeftBehind unfinished;
};

// Makes a run's folder below `root`, which is made if it is missing, with its
// parents; "" means a temporary one. Two processes may do this at once and get
// different folders.
absl::StatusOr<DumpFolder> MakeDumpFolder(const std::string& root,
                                          DLDevice device);

// Removes what a failed attempt made, as far as possible.
void RemoveDumpFolder(const DumpFolder& folder);

// The folder with the files of the last run that `path` leads to.
struct FoundDump {
  std::string folder;
  size_t runs_beside = 0;
};
absl::StatusOr<FoundDump> FindDump(const std::string& path);

}  // namespace nodewise
