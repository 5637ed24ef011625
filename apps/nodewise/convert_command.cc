#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "apps/nodewise/artefact_folder.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/model_passes.h"
#include "apps/nodewise/target_support.h"
#include "fmt/format.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
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
    options->AddText("--passes", "LIST",
                     "changes the network first: names of passes with commas "
                     "between them; help lists those that there are",
                     &load_.passes);
    options->AddText("--text", "FILE",
                     "writes the network as text, after the passes; - is "
                     "stdout. Needs no -o",
                     &text_);
    AddLoweringOptions(options, &load_.lowering);
    AddModelOptions(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    options->AddFlag("--sensitivity",
                     "ranks the operations by what --precision does to the "
                     "outputs through each; needs no -o",
                     &load_.precision.sensitivity);
  }

  absl::StatusOr<Outcome> Run() override {
    Outcome outcome;
    if (load_.passes == "help") {
      outcome.text = PassHelp();
      return outcome;
    }
    NODEWISE_RETURN_IF_ERROR(CheckOptions());
    NODEWISE_RETURN_IF_ERROR(CheckPasses(load_.passes));
    load_.precision.measure_errors = true;
    if (!emit_.empty()) load_.lowering.no_layouts = true;  // C gains nothing.
    const bool writes = !output_.empty();
    // A text holds what no graph can: open sizes, unknown operators.
    load_.keeps_opaque = !writes && !text_.empty();
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded, Load(&outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    if (writes && !loaded.opaque->operators.empty()) {
      return absl::UnimplementedError(fmt::format(
          "{}: has opaque operations, which no artefact can hold ({}), "
          "expected a part without them (nodewise extract)",
          Printable(load_.target.target), loaded.opaque->text));
    }
    if (loaded.precision != nullptr) {
      ShowPrecision(*loaded.precision, &outcome);
    }
    if (loaded.passes != nullptr) {
      outcome.text += ShowPasses(*loaded.passes, &outcome.json);
    }
    if (!text_.empty()) {
      NODEWISE_RETURN_IF_ERROR(WriteText(*loaded.network, &outcome));
    }
    if (!writes) return outcome;
    NODEWISE_RETURN_IF_ERROR(Write(loaded.target->artefact()));
    Show(loaded, &outcome);
    return outcome;
  }

 private:
  absl::Status CheckOptions() const {
    if (output_.empty() && text_.empty() && !load_.precision.sensitivity) {
      return absl::InvalidArgumentError(
          "-o: is missing, expected the folder to write (or --text FILE)");
    }
    if (!emit_.empty() && emit_ != "c") {
      return absl::InvalidArgumentError(
          fmt::format("--emit: is {}, expected c", Printable(emit_)));
    }
    if (text_ == "-" && !output_.empty()) {
      return absl::InvalidArgumentError(
          "--text -: is given with -o, expected one of them, or a file");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Session> Load(Outcome* outcome) const {
    NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec,
                              SpecOf(load_, InputOptions()));
    DiagnosticList faults;
    InputFiles files;
    // What is not a model is refused as one.
    const bool stays_network = load_.keeps_opaque || !IsModelOrText(spec.path);
    auto opened = stays_network ? OpenNetwork(spec, &files, &faults)
                                : OpenWithoutInputs(spec, &files, &faults);
    return Opened(std::move(opened), faults, outcome);
  }

  // On stdout the text stands alone, so that it can be read back from there.
  absl::Status WriteText(const Network& network, Outcome* outcome) const {
    const std::string text = NetworkToText(network.data());
    if (text_ == "-") {
      for (std::string& line : LinesOf(outcome->text)) {
        outcome->notes.push_back(std::move(line));
      }
      outcome->text = text;
      outcome->json.Add("network", text);
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(text_));
    NODEWISE_RETURN_IF_ERROR(file.Write(text));
    NODEWISE_RETURN_IF_ERROR(file.Commit());
    outcome->text += fmt::format("wrote {}\n", Printable(text_));
    outcome->json.Add("text", text_);
    return absl::OkStatus();
  }

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

  void Show(const Session& loaded, Outcome* outcome) const {
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
  std::string text_;
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
    "  nodewise convert model.onnx --passes merge_quantised --text after.txt\n"
    "\nThe folder needs no model afterwards; its functions are part of "
    "nodewise,\nor with --emit c of the library that a C compiler makes of "
    "lib.c.\n"
    "\nExit status: 0 it was written, 2 it was not.\n",
    [] { return std::unique_ptr<Command>(new ConvertModel); }};

}  // namespace nodewise
