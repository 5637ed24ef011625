#include <algorithm>
#include <filesystem>
#include <system_error>

#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// Reads files and shows what is in them; a fault in one does not keep the
// others from being shown.
class InspectFiles : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        AllLinesOption(&all_),
        {"--function", "NAME",
         "in a VM library, the function whose graph to show: main, if it has "
         "one",
         &function_},
        {"--node", "NAME",
         "one operation of an ONNX model: what it reads and makes, and the "
         "module and line of the program that it is from",
         &node_},
        {"--recover", "OUT",
         "writes the complete tensors of a dump or a .params file that was cut "
         "short to OUT",
         &recover_},
    });
    AddModelOptions(options, &model_);
    options->Add({
        {"FILE", "",
         "graph JSONs, compiled libraries, ONNX models, .params, .npy, .npz "
         "and .pb files, or folders with an artefact or a dump",
         &paths_},
    });
  }

  absl::StatusOr<Report> Run() override {
    if (!recover_.empty() && paths_.size() != 1) {
      return InvalidArgument("--recover: found {} files, expected one",
                             paths_.size());
    }
    // Files are looked at before the first one is shown.
    NODEWISE_RETURN_IF_ERROR(CheckOptionsApply());
    NODEWISE_ASSIGN_OR_RETURN(spec_, SpecOf(model_));
    Report report;
    report.json.BeginArray("files");
    for (const std::string& path : paths_) {
      std::error_code error;
      // A dump is one thing, although its files lie in a folder.
      if (fs::is_directory(path, error) && !IsDump(path)) {
        AddFolder(path, &report);
      } else {
        AddFile(path, std::nullopt, &report);
      }
    }
    report.json.EndArray();
    // What could be read has been shown by then.
    if (!report.errors.empty()) report.status = Report::Status::kError;
    return report;
  }

 private:
  // Refuses options that apply to none of the files. An unreadable file counts
  // as one to which they apply: its reader will say what is wrong.
  absl::Status CheckOptionsApply() const {
    const bool has_model_options =
        std::ranges::any_of(GivenOptionsOf(model_),
                            [](const auto& option) { return option.first; });
    if (!has_model_options && function_.empty() && node_.empty()) {
      return absl::OkStatus();
    }
    // One file that they apply to is enough: *.onnx and a library may be named
    // together.
    bool has_model = false;
    bool has_vm_library = false;
    for (const std::string& file : AllFiles()) {
      const auto kind = KindOfFile(file);
      has_model = has_model || !kind.ok() || *kind == FileKind::kModel;
      has_vm_library = has_vm_library || !kind.ok() ||
                       (*kind == FileKind::kLibrary && MayBeVmLibrary(file));
    }
    if ((has_model_options || !node_.empty()) && !has_model) {
      return InvalidArgument(
          "{}: found no .onnx file, expected one with it",
          !node_.empty() ? "--node"
                         : (model_.dims.empty() ? "--freeze" : "--dim"));
    }
    if (!function_.empty() && !has_vm_library) {
      return InvalidArgument(
          "--function: found no VM library, expected one with it");
    }
    return absl::OkStatus();
  }

  // Includes the files in folders with an artefact, and excludes dumps.
  // A path that does not exist stays in the list: its reader will say so.
  std::vector<std::string> AllFiles() const {
    std::vector<std::string> all;
    for (const std::string& path : paths_) {
      if (IsDump(path)) continue;
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

  // Shows each file of an artefact as if it had been named.
  void AddFolder(const std::string& path, Report* report) const {
    const auto files = FindArtefact(path);
    if (!files.ok()) return AddError(files.status(), report);
    // A graph alone does not say which of its inputs are parameters.
    const auto params = ParamNamesIn(files->params);
    if (!params.ok()) return AddError(params.status(), report);
    for (const std::string& file : PathsIn(*files)) {
      AddFile(file, *params, report);
    }
  }

  void AddFile(const std::string& path, const ParamFileNames& params,
               Report* report) const {
    // What was found before an error is shown as well.
    Inspection inspection;
    inspection.max_lines = all_ ? 0 : kShownLines;
    inspection.may_be_cut = !recover_.empty();
    inspection.function = function_;
    inspection.node = node_;
    absl::Status status = InspectFile(path, params, spec_, &inspection);
    if (status.ok() && !recover_.empty()) {
      status = Recover(path, recover_, &inspection);
    }
    ShowInspection(path, inspection, report);
    if (!status.ok()) AddError(status, report);
  }

  // The status follows when all files have been shown.
  static void AddError(const absl::Status& status, Report* report) {
    report->errors.push_back(FindingOf(status));
  }

  std::vector<std::string> paths_;
  bool all_ = false;
  std::string function_, node_, recover_;
  ModelOptions model_;
  ModelSpec spec_;
};

}  // namespace

const CommandRow kInspectCommand = {
    "inspect", "shows what is in a file, running nothing of it",
    R"(examples:
  nodewise inspect build/mlp
  nodewise inspect lib.so params.params --json
  nodewise inspect model.onnx --dim batch=1
  nodewise inspect model.onnx --node conv1

Exit status: 0, or 2 if a file is damaged or of no known kind.
)",
    &MakeCommand<InspectFiles>};

}  // namespace nodewise
