#include "runtime/dump/dump_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Tensors may be private, and a dump in a shared /tmp is readable for its owner
// alone.
constexpr mode_t kFolderMode = 0700;
constexpr std::string_view kRunPrefix = "run_";

std::string DeviceFolderName(DLDevice device) {
  std::string name = DeviceTypeName(DeviceTypeOf(device));
  absl::AsciiStrToUpper(&name);
  return fmt::format("_tvmdbg_device_{}_{}", name, device.device_id);
}

// Returns 2 for "run_2"; 0 for other names. "run_02" and "run_+2" are folders
// of others: only names that this file would write count.
uint32_t RunNumber(std::string_view name) {
  uint32_t number = 0;
  if (!name.starts_with(kRunPrefix)) return 0;
  name.remove_prefix(kRunPrefix.size());
  const absl::string_view digits(name.data(), name.size());
  const bool is_number = absl::SimpleAtoi(digits, &number);
  return is_number && std::to_string(number) == name ? number : 0;
}

bool IsFolder(const std::string& path) {
  return KindOfPath(path).value_or(PathKind::kNothing) == PathKind::kFolder;
}

// Returns true if the folder was made now, false if it existed. Making is also
// the test for existence: between a test and a making another process could
// make it.
absl::StatusOr<bool> MakeFolder(const std::string& path, DumpFolder* folder) {
  if (mkdir(path.c_str(), kFolderMode) == 0) {
    folder->made.push_back(path);
    return true;
  }
  if (errno == EEXIST) return false;
  return SystemError(path, "cannot make the folder");
}

// Parents that exist are left alone, and each one that is made is noted, so
// that a failed attempt can remove it again.
absl::Status MakeRoot(const std::string& root, DumpFolder* folder) {
  for (size_t end = root.find('/', 1); end != root.npos;
       end = root.find('/', end + 1)) {
    const std::string part = root.substr(0, end);
    if (!IsFolder(part)) {
      NODEWISE_RETURN_IF_ERROR(MakeFolder(part, folder).status());
    }
  }
  NODEWISE_RETURN_IF_ERROR(MakeFolder(root, folder).status());
  if (IsFolder(root)) return absl::OkStatus();
  return InvalidArgument(
      "{}: is not a folder, expected one for the dumps (give another root)",
      root);
}

// Makes ROOT/NAME or, if it exists, the first free ROOT/run_N/NAME.
absl::Status MakeRun(const std::string& root, const std::string& name,
                     DumpFolder* folder) {
  folder->path = root + "/" + name;
  NODEWISE_ASSIGN_OR_RETURN(const bool is_first,
                            MakeFolder(folder->path, folder));
  if (is_first) return absl::OkStatus();
  uint32_t number = 1;
  NODEWISE_ASSIGN_OR_RETURN(const auto others, ListFolder(root));
  for (const std::string& other : others) {
    number = std::max(number, RunNumber(other));
  }
  while (true) {  // Another process may take the number in between.
    // After the maximum number, the first free number is taken.
    number = number < UINT32_MAX ? number + 1 : 2;
    const std::string run = fmt::format("{}/{}{}", root, kRunPrefix, number);
    NODEWISE_ASSIGN_OR_RETURN(const bool is_new, MakeFolder(run, folder));
    if (!is_new) continue;
    folder->path = absl::StrCat(run, "/", name);
    return MakeFolder(folder->path, folder).status();
  }
}

absl::Status MakeAll(const std::string& root, DLDevice device,
                     DumpFolder* folder) {
  std::string base = root;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  if (base.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(TemporaryFolder made,
                              TemporaryFolder::Create("tvmdbg"));
    // The folder is the result and outlives the process, but only once it is
    // complete.
    folder->unfinished = LeftBehind::Path(made.path());
    folder->made.push_back(made.Keep());
    base = folder->made.back();
  } else {
    NODEWISE_RETURN_IF_ERROR(MakeRoot(base, folder));
  }
  return MakeRun(base, DeviceFolderName(device), folder);
}

// An error of the system, such as a folder that may not be searched, is not an
// answer.
absl::StatusOr<bool> PathExists(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(path));
  return kind != PathKind::kNothing;
}

// One of the files is enough: the dump of a killed run may have no more.
absl::StatusOr<bool> HoldsDumpFile(const std::string& folder) {
  for (const char* file :
       {kGraphDumpFile, kTensorsFile, kTraceFile, kRecordsFile}) {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_there,
                              PathExists(absl::StrCat(folder, "/", file)));
    if (is_there) return true;
  }
  return false;
}

absl::StatusOr<std::string> DeviceFolderIn(const std::string& run) {
  NODEWISE_ASSIGN_OR_RETURN(const auto names, ListFolder(run));
  for (const std::string& name : names) {
    if (!name.starts_with("_tvmdbg_device_") &&
        !name.starts_with("_tvmdbg_ctx_")) {
      continue;
    }
    std::string path = absl::StrCat(run, "/", name);
    NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(path));
    if (kind != PathKind::kFolder) continue;
    NODEWISE_ASSIGN_OR_RETURN(const bool holds_dump, HoldsDumpFile(path));
    if (holds_dump) return path;
  }
  return std::string();
}

}  // namespace

absl::StatusOr<DumpFolder> MakeDumpFolder(const std::string& root,
                                          DLDevice device) {
  DumpFolder folder;
  const absl::Status status = MakeAll(root, device, &folder);
  if (status.ok()) return folder;
  RemoveDumpFolder(folder);
  return status;
}

// Removes the files by name and the folders only if they are empty then, so
// that it can never remove what it did not make.
void RemoveDumpFolder(const DumpFolder& folder) {
  if (folder.made.empty()) return;
  for (const char* file : {kGraphDumpFile, kSourceGraphFile, kTensorsFile,
                           kTraceFile, kRecordsFile}) {
    unlink((folder.made.back() + "/" + file).c_str());
  }
  // Fails, as it should, for folders that someone else has used meanwhile.
  for (auto path = folder.made.rbegin(); path != folder.made.rend(); ++path) {
    rmdir(path->c_str());
  }
}

// A path may lead to the files themselves, to the folder of a run, or to a root
// with several runs, of which the last is taken.
absl::StatusOr<FoundDump> FindDump(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(path));
  if (kind != PathKind::kFolder) {
    return NotFound("{}: is not a folder, expected a dump's (give its root)",
                    path);
  }
  NODEWISE_ASSIGN_OR_RETURN(const bool holds_dump, HoldsDumpFile(path));
  if (holds_dump) return FoundDump{path, 0};
  std::map<uint32_t, std::string> runs;  // By number; the first is 1.
  NODEWISE_ASSIGN_OR_RETURN(const std::string first, DeviceFolderIn(path));
  if (!first.empty()) runs.emplace(1, first);
  NODEWISE_ASSIGN_OR_RETURN(const auto names, ListFolder(path));
  for (const std::string& name : names) {
    const uint32_t number = RunNumber(name);
    if (number < 2) continue;
    NODEWISE_ASSIGN_OR_RETURN(const std::string folder,
                              DeviceFolderIn(absl::StrCat(path, "/", name)));
    if (!folder.empty()) runs.emplace(number, folder);
  }
  if (!runs.empty()) {
    return FoundDump{runs.rbegin()->second, runs.size() - 1};
  }
  return NotFound(
      "{}: holds no dump, expected {}, {} or a folder _tvmdbg_device_*", path,
      kTensorsFile, kRecordsFile);
}

// The tensors and the records are read independently: damage to the records
// leaves the tensors good, and the status says so.
absl::StatusOr<Dump> OpenDump(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(FoundDump found, FindDump(path));
  Dump dump;
  dump.folder = std::move(found.folder);
  dump.runs_beside = found.runs_beside;
  dump.tensors_path = dump.folder + "/" + kTensorsFile;
  NODEWISE_ASSIGN_OR_RETURN(dump.has_tensors, PathExists(dump.tensors_path));
  if (dump.has_tensors) {
    NODEWISE_ASSIGN_OR_RETURN(PartialParams partial,
                              OpenPartialParams(dump.tensors_path));
    dump.tensors = std::move(partial.params);
    dump.missing = std::move(partial.missing);
    dump.is_cut = partial.is_cut;
  }
  const std::string records = dump.folder + "/" + kRecordsFile;
  NODEWISE_ASSIGN_OR_RETURN(const bool has_records, PathExists(records));
  if (has_records) {
    const auto file = MappedFile::Open(records);
    auto read =
        file.ok() ? ParseNodeRecords(file->bytes(), records) : file.status();
    dump.records_status = read.status();
    if (read.ok()) dump.records = *std::move(read);
    NODEWISE_ASSIGN_OR_RETURN(const bool has_trace,
                              PathExists(dump.folder + "/" + kTraceFile));
    dump.is_cut = dump.is_cut || (!dump.has_tensors && !has_trace);
  }
  return dump;
}

}  // namespace nodewise
