#include "nodewise/report/models_report.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nodewise/report/model_report.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostAlone = 8;

std::string ErrorText(double error) { return fmt::format("{:.2g}", error); }

std::vector<std::string> NamesOf(const Network& network,
                                 const std::vector<OperationId>& operations) {
  std::vector<std::string> names;
  for (const OperationId id : operations) {
    names.push_back(network.operation(id).name);
  }
  return names;
}

std::vector<std::string> NamesOf(const Network& network,
                                 const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId id : values) names.push_back(network.value(id).name);
  return names;
}

class ModelsReport {
 public:
  ModelsReport(const ModelsEvidence& evidence, size_t most_layers)
      : evidence_(evidence),
        compared_(evidence.compared),
        most_layers_(most_layers) {}

  void Show(Report* report) const {
    report->json.BeginObject("models");
    report->json.Add("reference", evidence_.name);
    report->json.Add("lowered_to", compared_.lowered);
    report->json.Add("only_weights", compared_.are_weights_lowered);
    report->json.Add("error", compared_.error);
    if (HasModel()) ShowOutputs(report);
    // Where outputs do not go together, no layer was asked.
    ShowNarrowRanges(report);
    if (compared_.missing_outputs.empty()) ShowLayers(report);
    ShowCurve(report);
    ShowUnpaired(report);
    report->json.EndObject();
  }

 private:
  // Or a file of tensors, of which nothing can be run.
  bool HasModel() const { return evidence_.target != nullptr; }

  void ShowOutputs(Report* report) const {
    TextTable table;
    table.AddRow({"output", "off by", "largest", ""});
    report->json.BeginArray("outputs");
    for (const TensorComparison& output : compared_.outputs) {
      const Metrics& metrics = output.metrics;
      const double scale =
          metrics.expected_norm > 0 ? metrics.expected_norm : 1;
      const double error = metrics.non_finite() > 0
                               ? std::numeric_limits<double>::infinity()
                               : metrics.difference_norm / scale;
      table.AddRow({output.key.node, ErrorText(error),
                    ErrorText(metrics.largest_error.error),
                    std::string(NameOf(output.verdict()))});
      report->json.BeginObject();
      report->json.Add("name", output.key.node);
      report->json.Add("error", error);
      report->json.Add("max_abs", metrics.largest_error.error);
      report->json.Add("verdict", NameOf(output.verdict()));
      report->json.EndObject();
    }
    report->json.EndArray();
    report->json.Add("missing_outputs", compared_.missing_outputs);
    report->text += "\n";
    report->text.Add(table, 0, kShownLines + 1);
    for (const std::string& missing : compared_.missing_outputs) {
      report->text += missing + "\n";
    }
  }

  void ShowNarrowRanges(Report* report) const {
    report->json.BeginArray("narrow_ranges");
    TextTable table;
    table.AddRow({"tensor", "cut off"});
    for (const NarrowRange& range : compared_.narrow_ranges) {
      table.AddRow({range.value, fmt::format("{:.2g} %", 100 * range.share)});
      report->json.BeginObject();
      report->json.Add("tensor", range.value);
      report->json.Add("share", range.share);
      report->json.EndObject();
    }
    report->json.EndArray();
    if (compared_.narrow_ranges.empty()) return;
    report->text +=
        "\nranges of the target that are too narrow for what the reference "
        "makes:\n";
    report->text.Add(table, 2, most_layers_ + 1);
  }

  void ShowLayers(Report* report) const {
    TextTable table;
    table.AddRow(HasModel()
                     ? std::vector<std::string>{"layer", "kind", "alone",
                                                "left without it", "own error"}
                     : std::vector<std::string>{"layer", "kind", "off by"});
    report->json.Add("judged", uint64_t{compared_.judged});
    report->json.BeginArray("layers");
    size_t shown = 0;
    for (const ModelLayer& layer : compared_.layers) {
      AddLayer(layer, &report->json);
      if (++shown > most_layers_) continue;
      if (HasModel()) {
        table.AddRow({layer.name, layer.kind, ErrorText(layer.alone),
                      layer.left.has_value() ? ErrorText(*layer.left) : "",
                      ErrorText(layer.own_error)});
      } else {
        table.AddRow({layer.name, layer.kind, ErrorText(layer.own_error)});
      }
    }
    report->json.EndArray();
    if (compared_.layers.empty()) {
      report->text += fmt::format("\n{}: none makes something else\n",
                                  CountOf(compared_.judged, "layer"));
      return;
    }
    report->text += fmt::format(
        "\n{} of {} make something else{}:\n", compared_.layers.size(),
        CountOf(compared_.judged, "layer"),
        HasModel() ? "; the error of the outputs with one alone as in the "
                     "target, and with all but one"
                   : " of the tensors before them");
    report->text.Add(table, 2, 0);
    if (shown > most_layers_) {
      report->text +=
          fmt::format("  ... {} more ({} has them)\n", shown - most_layers_,
                      NameOf(Way::kWholeDocument));
    }
  }

  void AddLayer(const ModelLayer& layer, JsonWriter* json) const {
    json->BeginObject();
    json->Add("name", layer.name);
    json->Add("kind", layer.kind);
    json->Add("alone", layer.alone);
    if (layer.left.has_value()) json->Add("left", *layer.left);
    json->Add("own_error", layer.own_error);
    json->Add("reference", NamesOf(*evidence_.reference, layer.reference));
    json->Add("constants",
              NamesOf(*evidence_.reference, layer.reference_constants));
    if (HasModel()) {
      json->Add("target", NamesOf(*evidence_.target, layer.target));
    }
    json->EndObject();
  }

  void ShowCurve(Report* report) const {
    const Sensitivity& found = compared_.sensitivity;
    if (found.curve.empty()) return;
    report->text +=
        "\nwith the first layers of the list kept as in the reference:\n";
    nodewise::ShowCurve(found, {"first kept", "outputs off by"}, &ErrorText,
                        report);
    ShowKeepList(report);
  }

  // onnxruntime's quantize_dynamic() makes a product and a sum of each Gemm
  // before it looks at the names, and names the product after the Gemm.
  std::vector<std::string> NamesToExclude() const {
    std::vector<std::string> names = compared_.keep;
    if (!HasModel() || !QuantisesDynamically(*evidence_.target)) return names;
    const Network& reference = *evidence_.reference;
    for (const std::string& name : compared_.keep) {
      const auto id = reference.FindOperation(name);
      if (id.ok() && reference.operation(*id).kind() == "Gemm") {
        names.push_back(name + "_MatMul");
      }
    }
    return names;
  }

  static bool QuantisesDynamically(const Network& network) {
    return std::any_of(
        network.order().begin(), network.order().end(), [&](OperationId id) {
          return network.operation(id).kind() == "DynamicQuantizeLinear";
        });
  }

  // Each tool that makes such a model takes the list in words of its own.
  void ShowKeepList(Report* report) const {
    const Sensitivity& found = compared_.sensitivity;
    const std::vector<std::string>& names = compared_.keep;
    const std::vector<std::string> excluded = NamesToExclude();
    std::string quoted;
    for (const std::string& name : excluded) {
      quoted +=
          fmt::format("{}\"{}\"", quoted.empty() ? "" : ", ", Printable(name));
    }
    const std::string keep = Sensitivity::ExpressionFor(names);
    report->json.Add("suggested_keep", keep);
    report->json.Add("suggested_layers", uint64_t{found.suggested});
    report->json.Add("suggested_error", found.suggested_error);
    report->json.Add("nodes_to_exclude", excluded);
    if (names.empty()) {
      report->text += "no layer stands out: nothing to keep\n";
      return;
    }
    const bool is_float = compared_.lowered.find("-bit") == std::string::npos;
    report->text +=
        fmt::format("suggested: keep the first {}\n", found.suggested);
    TextTable table;
    table.AddRow({"nodewise convert",
                  fmt::format("{} '{}'", NameOf(Way::kKeep), Printable(keep))});
    table.AddRow({is_float ? "onnxconverter-common" : "onnxruntime",
                  fmt::format("{}=[{}]",
                              is_float ? "node_block_list" : "nodes_to_exclude",
                              quoted)});
    report->text.Add(table, 2, 0);
  }

  void ShowUnpaired(Report* report) const {
    const ModelPairing& pairing = compared_.pairing;
    const auto of_reference =
        NamesOf(*evidence_.reference, pairing.reference_alone);
    const auto of_target =
        HasModel() ? NamesOf(*evidence_.target, pairing.target_alone)
                   : compared_.tensors_alone;
    const auto by_numbers = std::count_if(
        pairing.pairs.begin(), pairing.pairs.end(), [](const ValuePair& pair) {
          return pair.way == ValuePair::Way::kNumbers;
        });
    report->json.Add("pairs", uint64_t{pairing.pairs.size()});
    report->json.Add("pairs_by_numbers", static_cast<uint64_t>(by_numbers));
    report->json.Add("unpaired_reference", of_reference);
    report->json.Add("unpaired_target", of_target);
    report->text +=
        fmt::format("\n{} of values, {} by their numbers",
                    CountOf(pairing.pairs.size(), "pair"), by_numbers);
    if (of_reference.empty() && of_target.empty()) {
      report->text += "; every value has a partner\n";
      return;
    }
    report->text += "\n";
    const std::pair<std::string_view, const std::vector<std::string>&> sides[] =
        {{"reference", of_reference}, {"target", of_target}};
    for (const auto& [side, names] : sides) {
      if (names.empty()) continue;
      report->text += fmt::format("without a partner in the {}: {}: {}\n", side,
                                  CountOf(names.size(), "value"),
                                  ListOf(names, kMostAlone));
    }
  }

  const ModelsEvidence& evidence_;
  const ModelComparison& compared_;
  const size_t most_layers_;
};

}  // namespace

void ShowModels(const ModelsEvidence& evidence, size_t most_layers,
                Report* report) {
  ModelsReport(evidence, most_layers).Show(report);
}

}  // namespace nodewise
