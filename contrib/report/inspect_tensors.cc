#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file_reader.h"

namespace nodewise {
namespace {

// What could be read. TVM ignores bytes after the last tensor; a user who looks
// at the file may not. A killed run leaves a cut .params file.
struct FileContent {
  // Tensors of .params files stay on the disk; those of others are read one
  // after the other.
  std::vector<NamedTensor> tensors;
  std::unique_ptr<TensorFileReader> file;
  size_t trailing_bytes = 0;
  std::vector<std::string> missing;
  bool is_cut = false;
};

absl::StatusOr<FileContent> Read(const std::string& path,
                                 const std::string& format) {
  FileContent content;
  if (format != ".params") {
    NODEWISE_ASSIGN_OR_RETURN(content.file, TensorFileReader::Open(path));
    return content;
  }
  NODEWISE_ASSIGN_OR_RETURN(PartialParams partial, OpenPartialParams(path));
  content.tensors = std::move(partial.params.tensors);
  content.trailing_bytes = partial.params.trailing_bytes;
  content.missing = std::move(partial.missing);
  content.is_cut = partial.is_cut;
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
  json->Add("name", entry.name);
  json->Add("dtype", ToString(entry.tensor.dtype()));
  json->Add("shape", entry.tensor.shape());
  json->Add("bytes", uint64_t{entry.tensor.bytes()});
  AddSummary(summary, json);
  json->EndObject();
}

// What there is to say of all tensors, made before anything of it is shown.
struct TensorList {
  size_t count = 0;
  TextTable table;
  JsonWriter json;
};

// Each tensor is gone before `tensor_at` returns the next.
absl::StatusOr<TensorList> ListTensors(
    size_t count,
    absl::FunctionRef<absl::StatusOr<NamedTensor>(size_t)> tensor_at) {
  TensorList list;
  list.count = count;
  list.json.BeginArray("tensors");
  for (size_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, tensor_at(i));
    AddTensor(entry, &list.table, &list.json);
  }
  list.json.EndArray();
  return list;
}

void AddList(const TensorList& list, Inspection* inspection) {
  inspection->json.Append(list.json);
  AddLine("tensors", fmt::format("{}", list.count), inspection);
  inspection->text.Add(list.table, 4, inspection->max_lines);
}

absl::StatusOr<TensorList> ListContent(const FileContent& content) {
  if (content.file == nullptr) {
    return ListTensors(content.tensors.size(),
                       [&](size_t i) { return content.tensors[i]; });
  }
  const std::vector<std::string>& names = content.file->names();
  return ListTensors(
      names.size(), [&](size_t i) -> absl::StatusOr<NamedTensor> {
        NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, content.file->Read(i));
        return NamedTensor{names[i], std::move(tensor)};
      });
}

}  // namespace

void AddTensors(const std::vector<NamedTensor>& tensors,
                Inspection* inspection) {
  const auto list =
      ListTensors(tensors.size(), [&](size_t i) { return tensors[i]; });
  AddList(list.value(), inspection);
}

void AddMissing(const std::vector<std::string>& missing, bool is_cut,
                Inspection* inspection) {
  inspection->json.Add("cut", is_cut);
  inspection->json.Add("missing", missing);
  if (!is_cut) return;
  inspection->text += fmt::format(
      "  cut short: {} missing ({} writes what is complete)\n",
      missing.empty() ? std::string("all") : CountOf(missing.size(), "tensor"),
      NameOf(Way::kRecovery));
  TextTable table;
  for (const std::string& name : missing) table.AddRow({name});
  inspection->text.Add(table, 4, inspection->max_lines);
}

absl::Status InspectTensors(const std::string& path, const std::string& format,
                            Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const FileContent content, Read(path, format));
  if (content.is_cut && content.tensors.empty() && content.missing.empty()) {
    return OpenParams(path).status();
  }
  NODEWISE_ASSIGN_OR_RETURN(const TensorList list, ListContent(content));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOfFile(path));
  inspection->text += fmt::format("{}: tensors ({}), {}\n", Printable(path),
                                  format, CountOf(bytes, "byte"));
  inspection->json.Add("kind", "tensors");
  inspection->json.Add("format", format);
  inspection->json.Add("bytes", bytes);
  AddList(list, inspection);
  if (content.trailing_bytes > 0) {
    AddLine(
        "behind the last",
        CountOf(content.trailing_bytes, "byte") + " that belong to no tensor",
        inspection);
  }
  if (format != ".params") return absl::OkStatus();
  inspection->json.Add("trailing_bytes", uint64_t{content.trailing_bytes});
  AddMissing(content.missing, content.is_cut, inspection);
  if (!content.is_cut || inspection->may_be_cut) return absl::OkStatus();
  return OpenParams(path).status();
}

}  // namespace nodewise
