#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraphFile = "graph.json";
constexpr const char* kParamsFile = "params.params";

// Makes the folder. One that holds something else would be another artefact
// afterwards than the one that was meant.
absl::Status PrepareFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  }
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == kGraphFile || name == kParamsFile) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: holds {}, expected an empty folder, or what convert left there",
        folder, name));
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot list the folder: {}", folder, error.message()));
}

class ConvertModel : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->AddPositional("MODEL", "an ONNX model", &load_.target.target);
    options->AddText("-o,--output", "DIR",
                     "the folder to write, with graph.json and params.params",
                     &output_);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
  }

  absl::StatusOr<Outcome> Run() override {
    if (output_.empty()) {
      return absl::InvalidArgumentError(
          "-o: is missing, expected the folder to write");
    }
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(
        const LoadedTarget loaded,
        LoadModelTarget(load_, InputOptions(), OpenSizes::kRefused, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    NODEWISE_RETURN_IF_ERROR(PrepareFolder(output_));
    NODEWISE_RETURN_IF_ERROR(Write(loaded.target->artefact()));
    Show(loaded, &outcome);
    return outcome;
  }

 private:
  // The graph comes last: a folder with a graph is complete.
  absl::Status Write(const Artefact& artefact) const {
    const fs::path folder = output_;
    NODEWISE_RETURN_IF_ERROR(
        WriteParams(folder / kParamsFile, artefact.params.tensors));
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file,
                              OutputFile::Create(folder / kGraphFile));
    NODEWISE_RETURN_IF_ERROR(file.Write(artefact.graph.text.text));
    return file.Commit();
  }

  void Show(const LoadedTarget& loaded, Outcome* outcome) const {
    const Artefact& artefact = loaded.target->artefact();
    const size_t operations = loaded.network->order().size();
    const size_t params = artefact.params.tensors.size();
    size_t functions = 0;
    for (const GraphNode& node : artefact.graph.nodes) {
      functions += node.kind == GraphNode::Kind::kInput ? 0 : 1;
    }
    outcome->text += fmt::format(
        "{}: {} in {}, {}\nwrote {}\n", Printable(load_.target.target),
        CountOf(operations, "operation"), CountOf(functions, "function node"),
        CountOf(params, "parameter"), Printable(output_));
    outcome->json.Add("operations", uint64_t{operations});
    outcome->json.Add("function_nodes", uint64_t{functions});
    outcome->json.Add("params", uint64_t{params});
    outcome->json.Add("written", output_);
  }

  LoadOptions load_;
  std::string output_;
};

}  // namespace

const CommandRow kConvertCommand = {
    "convert", "makes an artefact folder of an ONNX model",
    "examples:\n"
    "  nodewise convert model.onnx -o net && nodewise run net "
    "--random-inputs 1\n"
    "  nodewise convert model.onnx --dim batch=1 --no-fuse -o net\n"
    "\nThe folder needs no model afterwards; its functions are part of "
    "nodewise.\n"
    "\nExit status: 0 it was written, 2 it was not.\n",
    [] { return std::unique_ptr<Command>(new ConvertModel); }};

}  // namespace nodewise
