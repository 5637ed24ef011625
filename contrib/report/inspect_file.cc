// What kind of file it is, and what all kinds share.

#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/report/inspection.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

bool BeginsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::string FirstBytes(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return "is empty";
  std::string text = "begins with the bytes";
  for (const uint8_t byte : bytes.subspan(0, 4)) {
    text += fmt::format(" {:02x}", byte);
  }
  return text;
}

}  // namespace

absl::StatusOr<FileKind> KindOfFile(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text = file.text();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return FileKind::kGraph;
  }
  if (BeginsWith(text,
                 "\x7f"
                 "ELF")) {
    return FileKind::kLibrary;
  }
  if (BeginsWith(text, "\x93NUMPY")) return FileKind::kNpy;
  if (BeginsWith(text, "PK\x03\x04") || BeginsWith(text, "PK\x05\x06")) {
    return FileKind::kNpz;
  }
  if (LooksLikeParams(file.bytes())) return FileKind::kParams;
  const std::string extension = fs::path(path).extension();
  if (extension == ".json") return FileKind::kGraph;
  if (extension == ".so") return FileKind::kLibrary;
  if (extension == ".npy") return FileKind::kNpy;
  if (extension == ".npz") return FileKind::kNpz;
  if (extension == ".params") return FileKind::kParams;
  if (extension == ".pb") return FileKind::kPb;
  if (IsModel(path)) return FileKind::kModel;
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}, expected a graph JSON, a shared library, an .onnx model, or a "
      ".params, .npy, .npz or .pb file",
      path, FirstBytes(file.bytes())));
}

absl::Status InspectFile(const std::string& path, const ParamNames& params,
                         const ModelSpec& model, Inspection* inspection) {
  if (IsDump(path)) return InspectDump(path, inspection);
  NODEWISE_ASSIGN_OR_RETURN(const FileKind kind, KindOfFile(path));
  switch (kind) {
    case FileKind::kGraph:
      return InspectGraph(path, params, inspection);
    case FileKind::kLibrary:
      return InspectLibrary(path, inspection);
    case FileKind::kNpy:
      return InspectTensors(path, ".npy", inspection);
    case FileKind::kNpz:
      return InspectTensors(path, ".npz", inspection);
    case FileKind::kParams:
      return InspectTensors(path, ".params", inspection);
    case FileKind::kPb:
      return InspectTensors(path, ".pb", inspection);
    case FileKind::kModel:
      return InspectModel(path, model, inspection);
  }
  return absl::OkStatus();
}

absl::StatusOr<ParamNames> ParamNamesIn(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto params = OpenParams(path);
  if (absl::IsUnavailable(params.status())) return params.status();
  if (!params.ok()) return std::nullopt;
  std::set<std::string> names;
  for (const NamedTensor& entry : params->tensors) names.insert(entry.name);
  return names;
}

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
  inspection->text += fmt::format("  {:<10} {}\n", title, value);
}

void AddList(const std::string& title, const std::vector<std::string>& lines,
             Inspection* inspection) {
  TextTable table;
  for (const std::string& line : lines) table.AddRow({line});
  AddLine(title, fmt::format("{}", lines.size()), inspection);
  inspection->text.Add(table, 4, inspection->max_lines);
}

}  // namespace nodewise
