// Dumps, complete or not, and what can be saved of a cut .params file.

#include <filesystem>
#include <map>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

struct RecordCounts {
  size_t runs = 0, reads = 0, outputs = 0, stats = 0, changed = 0;
};

// Counts records, and inputs that changed before they were read.
RecordCounts CountRecords(const std::vector<NodeRecord>& records) {
  RecordCounts counts;
  std::map<EntryId, TensorHash> made;
  for (const NodeRecord& record : records) {
    switch (record.kind) {
      case NodeRecord::Kind::kTime:
        ++counts.runs;
        break;
      case NodeRecord::Kind::kOutput:
        ++counts.outputs;
        if (record.has_stats) ++counts.stats;
        made[record.entry] = record.hash();
        break;
      case NodeRecord::Kind::kInput: {
        ++counts.reads;
        const auto place = made.find(record.entry);
        const bool is_changed = place != made.end() &&
                                CompareHashes(place->second, record.hash()) ==
                                    HashMatch::kDifferent;
        counts.changed += is_changed ? 1 : 0;
        break;
      }
    }
  }
  return counts;
}

void AddRecords(const Dump& dump, Inspection* inspection) {
  if (dump.records.empty()) return;
  const RecordCounts counts = CountRecords(dump.records);
  AddLine("nodes run", fmt::format("{}", counts.runs), inspection);
  if (counts.stats > 0) {
    AddLine("statistics", fmt::format("of {} entries", counts.stats),
            inspection);
  }
  AddLine("inputs",
          counts.changed == 0
              ? fmt::format("{} read, all as they were made", counts.reads)
              : fmt::format("{} read, {} of them not as they were made",
                            counts.reads, counts.changed),
          inspection);
  inspection->json.BeginObject("records");
  inspection->json.Add("nodes_run", uint64_t{counts.runs});
  inspection->json.Add("inputs_read", uint64_t{counts.reads});
  inspection->json.Add("inputs_changed", uint64_t{counts.changed});
  inspection->json.Add("entries_with_statistics", uint64_t{counts.stats});
  inspection->json.EndObject();
}

}  // namespace

bool IsDump(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return false;
  const auto dump = OpenDump(path);
  return dump.ok() || !absl::IsNotFound(dump.status());
}

absl::Status InspectDump(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const Dump dump, OpenDump(path));
  inspection->text +=
      fmt::format("{}: dump of a run\n", Printable(dump.folder));
  inspection->json.Add("kind", "dump");
  inspection->json.Add("folder", dump.folder);
  inspection->json.Add("runs_beside", uint64_t{dump.runs_beside});
  if (dump.runs_beside > 0) {
    AddLine("beside it", CountOf(dump.runs_beside, "other run"), inspection);
  }
  AddRecords(dump, inspection);
  AddTensors(dump.tensors.tensors, inspection);
  if (dump.has_tensors) {
    AddMissing(dump.missing, dump.is_cut, inspection);
  } else {
    inspection->json.Add("cut", dump.is_cut);
    inspection->json.Add("missing", dump.missing);
    if (dump.is_cut) {
      inspection->text += "  cut short: the run had not come to its end\n";
    }
  }
  inspection->damage = dump.records_status;
  return absl::OkStatus();
}

absl::Status Recover(const std::string& path, const std::string& to,
                     Inspection* inspection) {
  std::string from = path;
  const auto dump = OpenDump(path);
  if (dump.ok()) {
    from = dump->tensors_path;
    if (!dump->has_tensors) {
      return absl::NotFoundError(fmt::format(
          "{}: is not there, so that there is nothing to recover (a dump with "
          "tensors has it)",
          dump->tensors_path));
    }
  }
  NODEWISE_RETURN_IF_ERROR(RecoverParams(from, to));
  AddLine("recovered", Printable(to), inspection);
  inspection->json.Add("recovered", to);
  return absl::OkStatus();
}

}  // namespace nodewise
