// Which kind of file it is, and what is in those that hold tensors: dumps, and
// .npy, .npz, .params and .pb files. What all kinds share is here, too.
//
// The content decides on the kind of a file where its format begins with bytes
// of its own, and the name where it does not.

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

constexpr std::pair<std::string_view, FileKind> kExtensions[] = {
    {".json", FileKind::kGraph},    {".so", FileKind::kLibrary},
    {".npy", FileKind::kNpy},       {".npz", FileKind::kNpz},
    {".params", FileKind::kParams}, {".pb", FileKind::kPb}};

// Four bytes are enough to recognise most formats by.
std::string FirstBytes(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return "is empty";
  std::string text = "begins with the bytes";
  for (const uint8_t byte : bytes.subspan(0, 4)) {
    text += fmt::format(" {:02x}", byte);
  }
  return text;
}

// The part of a file that could be read. TVM ignores bytes after the last
// tensor; a user who looks at the file may not. A killed run leaves a cut
// .params file.
struct FileContent {
  // Tensors of .params files stay on the disk; those of others are read one
  // after the other.
  PartialParams partial;
  std::unique_ptr<TensorFileReader> file;
};

// A .params file is mapped and may be cut; all other formats are read, and a
// damaged one fails at the tensor that is damaged.
absl::StatusOr<FileContent> Read(const std::string& path,
                                 const std::string& format) {
  FileContent content;
  if (format != ".params") {
    NODEWISE_ASSIGN_OR_RETURN(content.file, TensorFileReader::Open(path));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(content.partial, OpenPartialParams(path));
  }
  return content;
}

void AddTensor(const NamedTensor& entry, TextTable* table, JsonWriter* json) {
  const TensorSummary summary = SummariseTensor(*entry.tensor, 0);
  std::vector<std::string> row = {
      entry.name, TypeToString(entry.tensor.shape(), entry.tensor.dtype()),
      CountOf(entry.tensor.bytes(), "byte")};
  if (summary.has_numbers) {
    row.push_back("min " + ShortNumber(summary.min));
    row.push_back("max " + ShortNumber(summary.max));
  }
  if (summary.nans > 0) row.push_back(fmt::format("NaN {}", summary.nans));
  if (summary.infinities > 0) {
    row.push_back(fmt::format("Inf {}", summary.infinities));
  }
  table->AddRow(row);
  json->BeginObject();
  AddMembers(json, "name", entry.name, "dtype", ToString(entry.tensor.dtype()),
             "shape", entry.tensor.shape(), "bytes", entry.tensor.bytes());
  AddSummary(summary, json);
  json->EndObject();
}

// All that there is to say of tensors, made before anything of it is shown: if
// a tensor cannot be read, nothing is shown of the file.
struct TensorList {
  TextTable table;
  JsonWriter json;
};

// Each tensor is gone before `tensor_at` returns the next, so that the largest
// is all that a file takes of memory.
absl::StatusOr<TensorList> ListTensors(
    size_t count,
    absl::FunctionRef<absl::StatusOr<NamedTensor>(size_t)> tensor_at) {
  TensorList list;
  list.json.BeginArray("tensors");
  for (size_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, tensor_at(i));
    AddTensor(entry, &list.table, &list.json);
  }
  list.json.EndArray();
  return list;
}

void AddTensorList(const TensorList& list, Inspection* inspection) {
  inspection->json.Append(list.json);
  AddTable("tensors", std::to_string(list.table.rows().size()), list.table,
           inspection);
}

absl::StatusOr<TensorList> ListContent(const FileContent& content) {
  if (content.file == nullptr) {
    const std::vector<NamedTensor>& tensors = content.partial.params.tensors;
    return ListTensors(tensors.size(), [&](size_t i) { return tensors[i]; });
  }
  const std::vector<std::string>& names = content.file->names();
  return ListTensors(
      names.size(), [&](size_t i) -> absl::StatusOr<NamedTensor> {
        NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, content.file->Read(i));
        return NamedTensor{names[i], std::move(tensor)};
      });
}

TextTable LinesOf(const std::vector<std::string>& lines) {
  TextTable table;
  for (const std::string& line : lines) table.AddRow({line});
  return table;
}

struct RecordCounts {
  size_t runs = 0, reads = 0, stats = 0, changed = 0;
};

// Counts records, and inputs that changed before they were read. An input that
// has no record of being made is one of the network's, of which nothing is
// known to compare it with.
RecordCounts CountRecords(const std::vector<NodeRecord>& records) {
  RecordCounts counts;
  std::map<EntryId, TensorHash> made;
  for (const NodeRecord& record : records) {
    if (record.kind == NodeRecord::Kind::kTime) ++counts.runs;
    if (record.kind == NodeRecord::Kind::kOutput) {
      if (record.has_stats) ++counts.stats;
      made[record.entry] = record.hash();
    }
    if (record.kind != NodeRecord::Kind::kInput) continue;
    ++counts.reads;
    const auto place = made.find(record.entry);
    const bool is_changed =
        place != made.end() &&
        CompareHashes(place->second, record.hash()) == HashMatch::kDifferent;
    counts.changed += is_changed ? 1 : 0;
  }
  return counts;
}

void AddRecords(const Dump& dump, Inspection* inspection) {
  if (dump.records.empty()) return;
  const RecordCounts counts = CountRecords(dump.records);
  AddLine("nodes run", std::to_string(counts.runs), inspection);
  if (counts.stats > 0) {
    AddFact(inspection, "statistics", "of {} entries", counts.stats);
  }
  AddFact(inspection, "inputs", "{} read, {} as they were made", counts.reads,
          counts.changed == 0 ? std::string("all")
                              : fmt::format("{} of them not", counts.changed));
  AddObject(inspection, "records", "nodes_run", counts.runs, "inputs_read",
            counts.reads, "inputs_changed", counts.changed,
            "entries_with_statistics", counts.stats);
}

}  // namespace

// Formats with a beginning of their own come first. A model has none: protobuf
// does not say what it is, so a name has to.
absl::StatusOr<FileKind> KindOfFile(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text = file.text();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return FileKind::kGraph;
  }
  // The second beginning of a zip file is that of an archive without members.
  static constexpr std::pair<std::string_view, FileKind> kBeginnings[] = {
      {"\x7f"
       "ELF",
       FileKind::kLibrary},
      {"\x93NUMPY", FileKind::kNpy},
      {"PK\x03\x04", FileKind::kNpz},
      {"PK\x05\x06", FileKind::kNpz}};
  for (const auto& [beginning, kind] : kBeginnings) {
    if (text.starts_with(beginning)) return kind;
  }
  if (LooksLikeParams(file.bytes())) return FileKind::kParams;
  const std::string extension = std::filesystem::path(path).extension();
  for (const auto& [known, kind] : kExtensions) {
    if (extension == known) return kind;
  }
  if (IsModel(path)) return FileKind::kModel;
  return InvalidArgument(
      "{}: {}, expected a graph JSON, a shared library, an .onnx model, or a "
      ".params, .npy, .npz or .pb file",
      path, FirstBytes(file.bytes()));
}

absl::Status InspectFile(const std::string& path, const ParamFileNames& params,
                         const ModelSpec& model, Inspection* inspection) {
  if (IsDump(path)) return InspectDump(path, inspection);
  NODEWISE_ASSIGN_OR_RETURN(const FileKind kind, KindOfFile(path));
  if (kind == FileKind::kGraph) return InspectGraph(path, params, inspection);
  if (kind == FileKind::kLibrary) return InspectLibrary(path, inspection);
  if (kind == FileKind::kModel) return InspectModel(path, model, inspection);
  const auto* const format = std::ranges::find(
      kExtensions, kind, &std::pair<std::string_view, FileKind>::second);
  return InspectTensors(path, std::string(format->first), inspection);
}

// These names only tell inputs and parameters apart, so that a damaged file is
// worth no error here.
absl::StatusOr<ParamFileNames> ParamNamesIn(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto params = OpenParams(path);
  if (absl::IsUnavailable(params.status())) return params.status();
  if (!params.ok()) return std::nullopt;
  std::set<std::string> names;
  for (const NamedTensor& entry : params->tensors) names.insert(entry.name);
  return names;
}

// Parts that were read before a failure are still shown, with the damage among
// the errors.
void ShowInspection(const std::string& path, const Inspection& inspection,
                    Report* report) {
  if (!inspection.damage.ok()) {
    report->errors.push_back(FindingOf(inspection.damage));
  }
  if (inspection.text.empty()) return;
  if (!report->text.empty()) report->text += '\n';
  report->text += inspection.text;
  report->json.BeginObject();
  report->json.Add("path", path);
  report->json.Append(inspection.json);
  report->json.EndObject();
}

void AddLine(const std::string& title, const std::string& value,
             Inspection* inspection) {
  AddText(inspection, "  {:<10} {}\n", title, value);
}

void AddTable(const std::string& title, const std::string& count,
              const TextTable& table, Inspection* inspection) {
  AddLine(title, count, inspection);
  inspection->text.Add(table, 4, inspection->max_lines);
}

void AddList(const std::string& title, const std::vector<std::string>& lines,
             Inspection* inspection) {
  AddTable(title, std::to_string(lines.size()), LinesOf(lines), inspection);
}

void AddTensors(const std::vector<NamedTensor>& tensors,
                Inspection* inspection) {
  const auto list =
      ListTensors(tensors.size(), [&](size_t i) { return tensors[i]; });
  AddTensorList(list.value(), inspection);
}

void AddMissing(const std::vector<std::string>& missing, bool is_cut,
                Inspection* inspection) {
  AddMembers(inspection, "cut", is_cut, "missing", missing);
  if (!is_cut) return;
  AddText(
      inspection, "  cut short: {} missing ({} writes what is complete)\n",
      missing.empty() ? std::string("all") : CountOf(missing.size(), "tensor"),
      NameOf(Way::kRecovery));
  inspection->text.Add(LinesOf(missing), 4, inspection->max_lines);
}

absl::Status InspectTensors(const std::string& path, const std::string& format,
                            Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const FileContent content, Read(path, format));
  // Nothing of a file that was cut in its head can be shown; reading it as a
  // whole file says where it ends.
  const PartialParams& partial = content.partial;
  const Params& params = partial.params;
  if (partial.is_cut && params.tensors.empty() && partial.missing.empty()) {
    return OpenParams(path).status();
  }
  NODEWISE_ASSIGN_OR_RETURN(const TensorList list, ListContent(content));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOfFile(path));
  AddText(inspection, "{}: tensors ({}), {}\n", Printable(path), format,
          CountOf(bytes, "byte"));
  AddMembers(inspection, "kind", "tensors", "format", format, "bytes", bytes);
  AddTensorList(list, inspection);
  if (params.trailing_bytes > 0) {
    AddFact(inspection, "behind the last", "{} that belong to no tensor",
            CountOf(params.trailing_bytes, "byte"));
  }
  if (format != ".params") return absl::OkStatus();
  AddMembers(inspection, "trailing_bytes", params.trailing_bytes);
  AddMissing(partial.missing, partial.is_cut, inspection);
  if (!partial.is_cut || inspection->may_be_cut) return absl::OkStatus();
  return OpenParams(path).status();
}

bool IsDump(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return false;
  // A damaged dump is one, too: inspecting it says what is wrong with it.
  const auto dump = OpenDump(path);
  return dump.ok() || !absl::IsNotFound(dump.status());
}

absl::Status InspectDump(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const Dump dump, OpenDump(path));
  AddText(inspection, "{}: dump of a run\n", Printable(dump.folder));
  AddMembers(inspection, "kind", "dump", "folder", dump.folder, "runs_beside",
             dump.runs_beside);
  if (dump.runs_beside > 0) {
    AddLine("beside it", CountOf(dump.runs_beside, "other run"), inspection);
  }
  AddRecords(dump, inspection);
  AddTensors(dump.tensors.tensors, inspection);
  if (dump.has_tensors) {
    AddMissing(dump.missing, dump.is_cut, inspection);
  } else {
    // There is no file of tensors out of which anything could be recovered.
    AddMembers(inspection, "cut", dump.is_cut, "missing", dump.missing);
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
      return NotFound(
          "{}: is not there, so that there is nothing to recover (a dump with "
          "tensors has it)",
          dump->tensors_path);
    }
  }
  NODEWISE_RETURN_IF_ERROR(RecoverParams(from, to));
  AddLine("recovered", Printable(to), inspection);
  inspection->json.Add("recovered", to);
  return absl::OkStatus();
}

}  // namespace nodewise
