#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/inspect.h"
#include "apps/nodewise/target_options.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

enum class Kind { kGraph, kLibrary, kNpy, kNpz, kParams, kPb, kModel };

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

// The content decides, since a file may have been renamed. One that is damaged
// at the front is judged by its name, so that its reader says what is wrong
// with it.
absl::StatusOr<Kind> KindOf(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text = file.text();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return Kind::kGraph;
  }
  if (BeginsWith(text,
                 "\x7f"
                 "ELF")) {
    return Kind::kLibrary;
  }
  if (BeginsWith(text, "\x93NUMPY")) return Kind::kNpy;
  if (BeginsWith(text, "PK\x03\x04") || BeginsWith(text, "PK\x05\x06")) {
    return Kind::kNpz;
  }
  if (LooksLikeParams(file.bytes())) return Kind::kParams;
  const std::string extension = fs::path(path).extension();
  if (extension == ".json") return Kind::kGraph;
  if (extension == ".so") return Kind::kLibrary;
  if (extension == ".npy") return Kind::kNpy;
  if (extension == ".npz") return Kind::kNpz;
  if (extension == ".params") return Kind::kParams;
  if (extension == ".pb") return Kind::kPb;
  if (IsModel(path)) return Kind::kModel;
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}, expected a graph JSON, a shared library, an .onnx model, or a "
      ".params, .npy, .npz or .pb file",
      path, FirstBytes(file.bytes())));
}

absl::Status Inspect(const std::string& path, const ParamNames& params,
                     const ModelOptions& model, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const Kind kind, KindOf(path));
  switch (kind) {
    case Kind::kGraph:
      return InspectGraph(path, params, inspection);
    case Kind::kLibrary:
      return InspectLibrary(path, inspection);
    case Kind::kNpy:
      return InspectTensors(path, ".npy", inspection);
    case Kind::kNpz:
      return InspectTensors(path, ".npz", inspection);
    case Kind::kParams:
      return InspectTensors(path, ".params", inspection);
    case Kind::kPb:
      return InspectTensors(path, ".pb", inspection);
    case Kind::kModel:
      return InspectModel(path, model, inspection);
  }
  return absl::OkStatus();
}

// Returns the names in a params file, or none if it is damaged: inspecting it
// will say where. What cannot be read now may be readable then.
absl::StatusOr<ParamNames> NamesIn(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto params = OpenParams(path);
  if (absl::IsUnavailable(params.status())) return params.status();
  if (!params.ok()) return std::nullopt;
  std::set<std::string> names;
  for (const NamedTensor& entry : params->tensors) names.insert(entry.name);
  return names;
}

class InspectFiles : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->AddFlag("--all", "every line of lists that are cut otherwise",
                     &all_);
    options->AddText("--function", "NAME",
                     "of a VM library, the function whose graph to show: main, "
                     "if it has one",
                     &function_);
    options->AddText("--recover", "OUT",
                     "writes the complete tensors of a dump or a .params file "
                     "that was cut short to OUT",
                     &recover_);
    AddModelOptions(options, &model_);
    options->AddPositional("FILE",
                           "graph JSONs, compiled libraries, ONNX models, "
                           ".params, .npy, .npz and .pb files, or folders with "
                           "an artefact or a dump",
                           &paths_);
  }

  absl::StatusOr<Outcome> Run() override {
    if (!recover_.empty() && paths_.size() != 1) {
      return absl::InvalidArgumentError(fmt::format(
          "--recover: found {} files, expected one", paths_.size()));
    }
    NODEWISE_RETURN_IF_ERROR(CheckOptionsAreMeant());
    Outcome outcome;
    outcome.json.BeginArray("files");
    for (const std::string& path : paths_) {
      std::error_code error;
      if (fs::is_directory(path, error) && !IsDumpFolder(path)) {
        AddFolder(path, &outcome);
      } else {
        AddFile(path, std::nullopt, &outcome);
      }
    }
    outcome.json.EndArray();
    if (!outcome.errors.empty()) outcome.status = Outcome::Status::kError;
    return outcome;
  }

 private:
  // Refuses options that apply to none of the files. An unreadable file counts
  // as one to which they apply: its reader will say what is wrong.
  absl::Status CheckOptionsAreMeant() const {
    if (!model_.any() && function_.empty()) return absl::OkStatus();
    bool has_model = false;
    bool has_vm_library = false;
    for (const std::string& file : AllFiles()) {
      const auto kind = KindOf(file);
      has_model = has_model || !kind.ok() || *kind == Kind::kModel;
      has_vm_library = has_vm_library || !kind.ok() ||
                       (*kind == Kind::kLibrary && MayBeVmLibrary(file));
    }
    if (model_.any() && !has_model) {
      return absl::InvalidArgumentError(
          fmt::format("{}: found no .onnx file, expected one with it",
                      model_.dims.empty() ? "--freeze" : "--dim"));
    }
    if (!function_.empty() && !has_vm_library) {
      return absl::InvalidArgumentError(
          "--function: found no VM library, expected one with it");
    }
    return absl::OkStatus();
  }

  // Includes the files in folders with an artefact, and excludes dumps.
  std::vector<std::string> AllFiles() const {
    std::vector<std::string> all;
    for (const std::string& path : paths_) {
      if (IsDumpFolder(path)) continue;
      std::error_code error;
      std::vector<std::string> files = {path};
      if (fs::is_directory(path, error)) {
        const auto found = FindArtefact(path);
        if (found.ok()) files = PathsIn(*found);
      }
      all.insert(all.end(), files.begin(), files.end());
    }
    return all;
  }

  void AddFolder(const std::string& path, Outcome* outcome) const {
    const auto files = FindArtefact(path);
    if (!files.ok()) return AddError(files.status(), outcome);
    const auto params = NamesIn(files->params);
    if (!params.ok()) return AddError(params.status(), outcome);
    for (const std::string& file : PathsIn(*files)) {
      AddFile(file, *params, outcome);
    }
  }

  void AddFile(const std::string& path, const ParamNames& params,
               Outcome* outcome) const {
    Inspection inspection;
    inspection.max_lines = all_ ? 0 : kShownLines;
    inspection.may_be_cut = !recover_.empty();
    inspection.function = function_;
    absl::Status status = IsDumpFolder(path)
                              ? InspectDump(path, &inspection)
                              : Inspect(path, params, model_, &inspection);
    if (!inspection.damage.ok()) AddError(inspection.damage, outcome);
    if (status.ok()) status = RecoverTo(path, &inspection);
    if (!status.ok()) AddError(status, outcome);
    if (inspection.text.empty()) return;
    if (!outcome->text.empty()) outcome->text += '\n';
    outcome->text += inspection.text;
    outcome->json.BeginObject();
    outcome->json.Add("path", path);
    outcome->json.Append(inspection.json);
    outcome->json.EndObject();
  }

  static bool IsDumpFolder(const std::string& path) {
    std::error_code error;
    return fs::is_directory(path, error) && IsDump(path);
  }
  absl::Status RecoverTo(const std::string& path,
                         Inspection* inspection) const {
    if (recover_.empty()) return absl::OkStatus();
    return Recover(path, recover_, inspection);
  }

  static void AddError(const absl::Status& status, Outcome* outcome) {
    outcome->errors.push_back(FindingOf(status));
  }

  std::vector<std::string> paths_;
  bool all_ = false;
  std::string function_;
  std::string recover_;
  ModelOptions model_;
};

}  // namespace

void AddLine(const std::string& title, const std::string& value,
             Inspection* inspection) {
  inspection->text += fmt::format("  {:<10} {}\n", title, value);
}

void AddList(const std::string& title, const std::vector<std::string>& lines,
             Inspection* inspection) {
  TextTable table;
  for (const std::string& line : lines) table.AddRow({line});
  AddLine(title, fmt::format("{}", lines.size()), inspection);
  inspection->text += table.ToString(4, inspection->max_lines, LineWidth());
}

const CommandRow kInspectCommand = {
    "inspect", "shows what is in a file, running nothing of it",
    "examples:\n"
    "  nodewise inspect build/mlp\n"
    "  nodewise inspect lib.so params.params --json\n"
    "  nodewise inspect model.onnx --dim batch=1\n"
    "\nExit status: 0, or 2 if a file is damaged or of no known kind.\n",
    [] { return std::unique_ptr<Command>(new InspectFiles); }};

}  // namespace nodewise
