#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/params.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraphFile = "graph.json";
constexpr const char* kParamsFile = "params.params";
constexpr const char* kSourceFile = "lib.c";

// Makes the folder. One that holds something else would be another artefact
// afterwards than the one that was meant: so would one with a library of
// functions that are not the graph's.
absl::Status PrepareFolder(const std::string& folder, bool emits_source) {
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
    if (emits_source && name == kSourceFile) continue;
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
    options->AddText("--emit", "LANGUAGE",
                     "c: write the functions too, as lib.c, to be compiled to "
                     "lib.so; the graph names those",
                     &emit_);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    options->AddFlag("--sensitivity",
                     "ranks the operations by what --precision does to the "
                     "outputs through each; needs no -o",
                     &load_.precision.sensitivity);
  }

  absl::StatusOr<Outcome> Run() override {
    const bool writes = !output_.empty();
    if (!writes && !load_.precision.sensitivity) {
      return absl::InvalidArgumentError(
          "-o: is missing, expected the folder to write");
    }
    if (!emit_.empty() && emit_ != "c") {
      return absl::InvalidArgumentError(
          fmt::format("--emit: is {}, expected c", Printable(emit_)));
    }
    Outcome outcome;
    load_.precision.measure_errors = true;
    NODEWISE_ASSIGN_OR_RETURN(
        const LoadedTarget loaded,
        LoadModelTarget(load_, InputOptions(), OpenSizes::kRefused, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    if (loaded.precision != nullptr) {
      ShowPrecision(*loaded.precision, &outcome);
    }
    if (!writes) return outcome;
    const Artefact& artefact = loaded.target->artefact();
    if (emit_.empty()) {
      NODEWISE_RETURN_IF_ERROR(PrepareFolder(output_, false));
      NODEWISE_RETURN_IF_ERROR(
          Write(artefact.params, artefact.graph.text.text));
    } else {
      NODEWISE_RETURN_IF_ERROR(WriteWithSource(artefact));
    }
    Show(loaded, &outcome);
    return outcome;
  }

 private:
  static absl::Status WriteText(const fs::path& path, std::string_view text) {
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
    NODEWISE_RETURN_IF_ERROR(file.Write(text));
    return file.Commit();
  }

  // The graph comes last: a folder with a graph is complete.
  absl::Status Write(const Params& params, std::string_view graph) const {
    const fs::path folder = output_;
    NODEWISE_RETURN_IF_ERROR(WriteParams(folder / kParamsFile, params.tensors));
    return WriteText(folder / kGraphFile, graph);
  }

  // What there is no C for leaves the folder as it is.
  absl::Status WriteWithSource(const Artefact& artefact) const {
    const auto emitted = EmitC(artefact.graph, AllOperators());
    if (!emitted.ok()) return At(load_.target.target, emitted.status());
    NODEWISE_RETURN_IF_ERROR(PrepareFolder(output_, true));
    NODEWISE_RETURN_IF_ERROR(
        WriteText(fs::path(output_) / kSourceFile, emitted->source));
    return Write(artefact.params, emitted->graph.text.text);
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
    if (!emit_.empty()) {
      outcome->text +=
          fmt::format("compile its functions, in that folder, with\n  {}\n",
                      kHowToCompileC);
    }
    outcome->json.Add("operations", uint64_t{operations});
    outcome->json.Add("function_nodes", uint64_t{functions});
    outcome->json.Add("params", uint64_t{params});
    outcome->json.Add("written", output_);
  }

  LoadOptions load_;
  std::string output_;
  std::string emit_;
};

}  // namespace

const CommandRow kConvertCommand = {
    "convert", "makes an artefact folder of an ONNX model",
    "examples:\n"
    "  nodewise convert model.onnx -o net && nodewise run net "
    "--random-inputs 1\n"
    "  nodewise convert model.onnx --dim batch=1 --no-fuse -o net\n"
    "  nodewise convert model.onnx --emit c -o net && cd net && cc -O2 "
    "-shared -fPIC lib.c -o lib.so -lm\n"
    "  nodewise convert model.onnx --precision int8 --calibrate x.npz -o net\n"
    "  nodewise convert model.onnx --precision int8 --calibrate x.npz "
    "--sensitivity\n"
    "\nThe folder needs no model afterwards; its functions are part of "
    "nodewise,\nor with --emit c of the library that a C compiler makes of "
    "lib.c.\n"
    "\nExit status: 0 it was written, 2 it was not.\n",
    [] { return std::unique_ptr<Command>(new ConvertModel); }};

}  // namespace nodewise
