#include <string>
#include <utility>

#include "nodewise/dump/dump.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "runtime/dump/dump_folder.h"

namespace nodewise {
namespace {

absl::StatusOr<bool> IsThere(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(path));
  return kind != PathKind::kNothing;
}

absl::StatusOr<std::vector<NodeRecord>> OpenNodeRecords(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseNodeRecords(file.bytes(), path);
}

}  // namespace

absl::StatusOr<Dump> OpenDump(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(FoundDump found, FindDump(path));
  Dump dump;
  dump.folder = std::move(found.folder);
  dump.runs_beside = found.runs_beside;
  dump.tensors_path = dump.folder + "/" + kTensorsFile;
  NODEWISE_ASSIGN_OR_RETURN(dump.has_tensors, IsThere(dump.tensors_path));
  if (dump.has_tensors) {
    NODEWISE_ASSIGN_OR_RETURN(PartialParams partial,
                              OpenPartialParams(dump.tensors_path));
    dump.tensors = std::move(partial.params);
    dump.missing = std::move(partial.missing);
    dump.is_cut = partial.is_cut;
  }
  const std::string records = dump.folder + "/" + kRecordsFile;
  NODEWISE_ASSIGN_OR_RETURN(const bool has_records, IsThere(records));
  if (has_records) {
    auto read = OpenNodeRecords(records);
    dump.records_status = read.status();
    if (read.ok()) dump.records = *std::move(read);
    NODEWISE_ASSIGN_OR_RETURN(const bool has_trace,
                              IsThere(dump.folder + "/" + kTraceFile));
    dump.is_cut = dump.is_cut || (!dump.has_tensors && !has_trace);
  }
  return dump;
}

}  // namespace nodewise
