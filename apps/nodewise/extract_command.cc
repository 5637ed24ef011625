#include <set>

#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/output_files.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A part of a model shows a fault as well as the whole, and is easier to send.
class ExtractModel : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"MODEL", "", "an ONNX model", &model_},
        {"--from", "NAME",
         "a value that becomes an input, or an operation whose inputs do; may "
         "be given again. Without any: the inputs of the model",
         &from_},
        {"--to", "NAME",
         "a value that becomes an output, or an operation whose outputs do; "
         "may be given again",
         &to_},
        {"-o,--output", "FILE", "the ONNX model to write", &output_},
    });
    AddModelOptions(options, &options_);
  }

  absl::StatusOr<Report> Run() override {
    // A part may begin with the model's inputs, but its end has to be named.
    if (to_.empty()) {
      return InvalidArgument(
          "--to: is missing, expected what the part is to end with");
    }
    if (output_.empty()) {
      return InvalidArgument("-o: is missing, expected the file to write");
    }
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(options_));
    // All faults of the model are reported, not the first alone.
    DiagnosticList diagnostics;
    const auto network = LoadModel(model_, spec, &diagnostics);
    if (!network.ok()) {
      if (!diagnostics.HasErrors()) return network.status();
      report.AddErrors(diagnostics);
      return report;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto from, Find(*network, from_, true));
    NODEWISE_ASSIGN_OR_RETURN(const auto to, Find(*network, to_, false));
    const auto part = ExtractNetwork(*network, from, to);
    if (!part.ok()) return At(model_, part.status());
    NODEWISE_ASSIGN_OR_RETURN(const std::string bytes, ExportOnnx(*part));
    NODEWISE_RETURN_IF_ERROR(WriteWholeFile(output_, bytes));
    Show(*part, &report);
    return report;
  }

 private:
  // Returns the values of these names. An operation stands for the values other
  // than constants that it reads, or for those that it makes.
  absl::StatusOr<std::vector<ValueId>> Find(
      const Network& network, const std::vector<std::string>& names,
      bool is_from) const {
    // Each value once, in the order in which it was named: that is the order of
    // the part's inputs and outputs.
    std::vector<ValueId> values;
    std::set<ValueId> taken;
    const auto add = [&](ValueId id) {
      if (id != kNoValue && taken.insert(id).second) values.push_back(id);
    };
    for (const std::string& name : names) {
      // Models may have a value and an operation of one name; the value counts,
      // since an operation can be named by what it makes.
      const auto value = network.FindValue(name);
      if (value.ok()) {
        add(*value);
        continue;
      }
      const auto operation = network.FindOperation(name);
      if (!operation.ok()) return NoSuchName(value.status());
      const Operation& found = network.operation(*operation);
      for (const ValueId id : is_from ? found.inputs : found.outputs) {
        // A constant goes with the operation, and need not become an input.
        const bool is_constant =
            id != kNoValue &&
            network.value(id).kind == NetworkValue::Kind::kConstant;
        if (!is_constant) add(id);
      }
    }
    return values;
  }

  // The user may have read the name in the model's file, so the message says
  // what of a file is left out.
  absl::Status NoSuchName(const absl::Status& status) const {
    return NotFound(
        "{}: {}; what is made of constants alone and what nothing uses are "
        "left out when a model is read",
        model_, MessageOf(status));
  }

  // The names of inputs and outputs are what a caller needs next.
  void Show(const Network& network, Report* report) const {
    report->text += fmt::format("{}: {}, {}, {}\nwrote {}\n", Printable(model_),
                                CountOf(network.order().size(), "operation"),
                                CountOf(network.inputs().size(), "input"),
                                CountOf(network.outputs().size(), "output"),
                                Printable(output_));
    report->json.Add("operations", uint64_t{network.order().size()});
    report->json.Add("inputs", NamesOf(network, network.inputs()));
    report->json.Add("outputs", NamesOf(network, network.outputs()));
    report->json.Add("written", output_);
  }

  static std::vector<std::string> NamesOf(const Network& network,
                                          absl::Span<const ValueId> values) {
    std::vector<std::string> names;
    for (const ValueId id : values) names.push_back(network.value(id).name);
    return names;
  }

  std::string model_, output_;
  std::vector<std::string> from_, to_;
  ModelOptions options_;
};

}  // namespace

const CommandRow kExtractCommand = {"extract",
                                    "cuts a part out of an ONNX model",
                                    R"(examples:
  nodewise extract model.onnx --to conv1 -o front.onnx
  nodewise extract model.onnx --from a --from b --to c -o part.onnx

Exit status: 0 it was written, 2 it was not.
)",
                                    &MakeCommand<ExtractModel>};

}  // namespace nodewise
