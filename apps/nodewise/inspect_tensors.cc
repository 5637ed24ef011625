#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "apps/nodewise/error_text.h"
#include "apps/nodewise/inspect.h"
#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/text_table.h"
#include "nodewise/contrib/tensor_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// TVM does not mind bytes behind the last tensor; whoever looks at the file
// may.
absl::StatusOr<std::vector<NamedTensor>> Read(const std::string& path,
                                              const std::string& format,
                                              size_t* trailing_bytes) {
  if (format != ".params") return ReadTensorFile(path);
  NODEWISE_ASSIGN_OR_RETURN(Params params, OpenParams(path));
  *trailing_bytes = params.trailing_bytes;
  return std::move(params.tensors);
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
  if (summary.nans > 0) row.push_back(absl::StrFormat("NaN %d", summary.nans));
  if (summary.infinities > 0) {
    row.push_back(absl::StrFormat("Inf %d", summary.infinities));
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

}  // namespace

absl::Status InspectTensors(const std::string& path, const std::string& format,
                            Inspection* inspection) {
  size_t trailing_bytes = 0;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors,
                            Read(path, format, &trailing_bytes));
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  inspection->text +=
      absl::StrFormat("%s: tensors (%s), %s\n", Printable(path), format,
                      CountOf(error ? 0 : bytes, "byte"));
  inspection->json.Add("kind", "tensors");
  inspection->json.Add("format", format);
  inspection->json.Add("bytes", error ? uint64_t{0} : bytes);
  TextTable table;
  inspection->json.BeginArray("tensors");
  for (const NamedTensor& entry : tensors) {
    AddTensor(entry, &table, &inspection->json);
  }
  inspection->json.EndArray();
  AddLine("tensors", absl::StrFormat("%d", tensors.size()), inspection);
  inspection->text += table.ToString(4, inspection->max_lines);
  if (trailing_bytes > 0) {
    AddLine("behind the last",
            CountOf(trailing_bytes, "byte") + " that belong to no tensor",
            inspection);
  }
  if (format == ".params") {
    inspection->json.Add("trailing_bytes", uint64_t{trailing_bytes});
  }
  return absl::OkStatus();
}

}  // namespace nodewise
