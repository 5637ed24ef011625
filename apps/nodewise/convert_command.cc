#include <memory>
#include <utility>

#include "apps/nodewise/artefact_folder.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/model_options.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

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
    if (!emit_.empty()) load_.lowering.no_layouts = true;  // C gains nothing.
    InputFiles files;
    NODEWISE_ASSIGN_OR_RETURN(
        const LoadedTarget loaded,
        LoadModelTarget(load_, InputOptions(), OpenSizes::kRefused, &files,
                        &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    if (!loaded.opaque->operators.empty()) {
      return absl::UnimplementedError(fmt::format(
          "{}: has opaque operations, which no artefact can hold ({}), "
          "expected a part without them (nodewise extract)",
          Printable(load_.target.target), loaded.opaque->text));
    }
    if (loaded.precision != nullptr) {
      ShowPrecision(*loaded.precision, &outcome);
    }
    if (!writes) return outcome;
    NODEWISE_RETURN_IF_ERROR(Write(loaded.target->artefact()));
    Show(loaded, &outcome);
    return outcome;
  }

 private:
  // What there is no C for leaves the folder as it is.
  absl::Status Write(const Artefact& artefact) const {
    ArtefactTexts texts;
    texts.graph = artefact.graph.text.text;
    if (!emit_.empty()) {
      auto emitted = EmitModelC(artefact.graph);
      if (!emitted.ok()) return At(load_.target.target, emitted.status());
      texts.graph = emitted->graph.text.text;
      texts.source = std::move(emitted->source);
    }
    return WriteArtefactFolder(output_, texts, artefact.params);
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
    "  nodewise convert model.onnx --emit c -o net &&\n"
    "    cc -O2 -shared -fPIC net/lib.c -o net/lib.so -lm\n"
    "  nodewise convert model.onnx --precision int8 --calibrate x.npz -o net\n"
    "  nodewise convert model.onnx --precision int8 --calibrate x.npz "
    "--sensitivity\n"
    "\nThe folder needs no model afterwards; its functions are part of "
    "nodewise,\nor with --emit c of the library that a C compiler makes of "
    "lib.c.\n"
    "\nExit status: 0 it was written, 2 it was not.\n",
    [] { return std::unique_ptr<Command>(new ConvertModel); }};

}  // namespace nodewise
