#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "apps/nodewise/build_parts.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/output_files.h"
#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/report/model_report.h"
#include "nodewise/session/model_file.h"
#include "nodewise/session/target_support.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Reads a model, changes it as it is told, and writes what is left as a graph
// with parameters, as C besides, or as text.
class ConvertModel : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"MODEL", "", "an ONNX model", &load_.target.target},
        {"-o,--output", "DIR",
         "the folder to write, with graph.json and params.params", &output_},
        {"--emit", "LANGUAGE",
         "c: write the functions too, as lib.c, to be compiled to lib.so; the "
         "graph names those",
         &emit_},
        {"--passes", "LIST",
         "changes the network first: names of passes with commas between them; "
         "help lists those that there are",
         &load_.passes},
        {"--text", "FILE",
         "writes the network as text, after the passes; - is stdout. Needs no "
         "-o",
         &text_},
    });
    AddLoweringOptions(options, &load_.lowering);
    AddInputOptions(options, &load_.inputs);
    AddModelOptions(options, &load_.model);
    AddPrecisionOptions(options, &load_.precision);
    options->Add({
        {"--sensitivity", "",
         "ranks the operations by what --precision does to the outputs through "
         "each; needs no -o",
         &load_.precision.sensitivity},
    });
  }

  absl::StatusOr<Report> Run() override {
    Report report;
    // --passes help asks about no model, so the other options need not be
    // right.
    if (load_.passes == "help") {
      report.text += PassHelp();
      return report;
    }
    NODEWISE_RETURN_IF_ERROR(CheckOptions());
    NODEWISE_RETURN_IF_ERROR(CheckPasses(load_.passes));
    // Only this verb shows these errors; for others the reference would run in
    // vain.
    load_.precision.measure_errors = true;
    if (!emit_.empty()) load_.lowering.no_layouts = true;  // C gains nothing.
    const bool writes = !output_.empty();
    // A text holds what no graph can: open sizes, unknown operators.
    load_.keeps_opaque = !writes && !text_.empty();
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded, Load(&report));
    if (report.status != Report::Status::kOk) return report;
    // A text may have unknown operators: it is for reading, and runs nowhere.
    if (writes && !loaded.opaque->operators.empty()) {
      return Unimplemented(
          "{}: has opaque operations, which no artefact can hold ({}), "
          "expected a part without them (nodewise extract)",
          Printable(load_.target.target), loaded.opaque->text);
    }
    // What was changed is shown even where nothing is written.
    if (loaded.precision != nullptr) ShowPrecision(*loaded.precision, &report);
    if (loaded.passes != nullptr) ShowPasses(*loaded.passes, &report);
    if (!text_.empty()) {
      NODEWISE_RETURN_IF_ERROR(WriteText(*loaded.network, &report));
    }
    if (!writes) return report;
    // The report comes last, so that it never speaks of a folder that is not
    // there.
    NODEWISE_RETURN_IF_ERROR(Write(loaded.target->artefact()));
    Show(loaded, &report);
    return report;
  }

 private:
  // A folder, a text and a table of sensitivity are answers of their own;
  // without all three there is none.
  absl::Status CheckOptions() const {
    if (output_.empty() && text_.empty() && !load_.precision.sensitivity) {
      return InvalidArgument(
          "-o: is missing, expected the folder to write (or --text FILE)");
    }
    if (!emit_.empty() && emit_ != "c") {
      return InvalidArgument("--emit: is {}, expected c", Printable(emit_));
    }
    if (text_ == "-" && !output_.empty()) {
      return InvalidArgument(
          "--text -: is given with -o, expected one of them, or a file");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Session> Load(Report* report) const {
    NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec, SpecOf(load_));
    DiagnosticList faults;
    InputFiles files;
    // A file of another kind goes the way of a model, too, whose reader refuses
    // it.
    const bool stays_network = load_.keeps_opaque || !IsModelOrText(spec.path);
    // Inputs that were given decide sizes; then they must fit, and are checked.
    auto opened = stays_network ? OpenNetwork(spec, &files, &faults)
                  : !spec.inputs.is_empty()
                      ? OpenTarget(spec, &faults)
                      : OpenWithoutInputs(spec, &files, &faults);
    return Opened(std::move(opened), faults, report);
  }

  // On stdout the text stands alone, so that it can be read back from there.
  absl::Status WriteText(const Network& network, Report* report) const {
    const std::string text = NetworkToText(network.data());
    if (text_ == "-") {
      const std::vector<std::string> lines =
          absl::StrSplit(report->text.ToString(), '\n', absl::SkipEmpty());
      report->notes.insert(report->notes.end(), lines.begin(), lines.end());
      report->text.clear();
      report->text += text;
      report->json.Add("network", text);
      return absl::OkStatus();
    }
    return WriteAskedFile(text_, text, "text", report);
  }

  // If there is no C for an operation, the folder stays as it is.
  absl::Status Write(const Artefact& artefact) const {
    // The text of the graph is written as it stands, and not made anew.
    ArtefactTexts texts;
    texts.graph = artefact.graph.text.text;
    if (!emit_.empty()) {
      // The graph that comes back names the functions of the C.
      auto emitted = EmitModelC(artefact.graph);
      if (!emitted.ok()) return At(load_.target.target, emitted.status());
      texts.graph = emitted->graph.text.text;
      texts.source = std::move(emitted->source);
    }
    return WriteArtefactFolder(output_, texts, artefact.params);
  }

  // Fused operations share a node, so that there are fewer nodes than
  // operations.
  void Show(const Session& loaded, Report* report) const {
    const Artefact& artefact = loaded.target->artefact();
    const size_t operations = loaded.network->order().size();
    const size_t params = artefact.params.tensors.size();
    const auto functions = static_cast<size_t>(
        std::ranges::count_if(artefact.graph.nodes, [](const GraphNode& node) {
          return node.kind != GraphNode::Kind::kInput;
        }));
    report->text += fmt::format(
        "{}: {} in {}, {}\nwrote {}\n", Printable(load_.target.target),
        CountOf(operations, "operation"), CountOf(functions, "function node"),
        CountOf(params, "parameter"), Printable(output_));
    // The library is the user's to make: flags and targets are theirs.
    if (!emit_.empty()) {
      report->text +=
          fmt::format("compile its functions, in that folder, with\n  {}\n",
                      kHowToCompileC);
    }
    report->json.Add("operations", uint64_t{operations});
    report->json.Add("function_nodes", uint64_t{functions});
    report->json.Add("params", uint64_t{params});
    report->json.Add("written", output_);
  }

  LoadOptions load_;
  std::string output_, emit_, text_;
};

}  // namespace

const CommandRow kConvertCommand = {"convert",
                                    "makes an artefact folder of an ONNX model",
                                    R"(examples:
  nodewise convert model.onnx -o net && nodewise run net --random-inputs 1
  nodewise convert model.onnx --dim batch=1 --no-fuse -o net
  nodewise convert model.onnx --emit c -o net &&
    cc -O2 -shared -fPIC net/lib.c -o net/lib.so -lm
  nodewise convert model.onnx --precision int8 --calibrate x.npz -o net
  nodewise convert model.onnx --precision int8 --calibrate x.npz --sensitivity
  nodewise convert model.onnx --passes merge_quantised --text after.txt

The folder needs no model afterwards; its functions are part of nodewise,
or with --emit c of the library that a C compiler makes of lib.c.

Exit status: 0 it was written, 2 it was not.
)",
                                    &MakeCommand<ConvertModel>};

}  // namespace nodewise
