// A model beside another one: what goes with what, and what is left over.
//
// Layers are in the order of what they cost alone. The curve says what is left
// of the error with the first of them kept as they were, and the list below it
// names them in the words of the tools that make such models.

#include <algorithm>
#include <limits>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostAlone = 8;

class ModelsReport {
 public:
  ModelsReport(const ModelsEvidence& evidence, size_t most_layers,
               Report* report)
      : evidence_(evidence), most_layers_(most_layers), report_(*report) {}

  void Show() {
    json_->BeginObject("models");
    AddMembers(json_, "reference", evidence_.name, "lowered_to",
               compared_.lowered, "only_weights", compared_.are_weights_lowered,
               "error", compared_.error);
    if (HasModel()) ShowOutputs();
    // Where outputs do not go together, no layer was asked.
    ShowNarrowRanges();
    if (compared_.missing_outputs.empty()) ShowLayers();
    ShowKept();
    ShowUnpaired();
    json_->EndObject();
  }

 private:
  // Whether the target is a model, and not a file of tensors, of which nothing
  // can be run.
  bool HasModel() const { return evidence_.target != nullptr; }

  // An output with NaN or an infinity on one side alone is off beyond measure.
  void ShowOutputs() {
    TextTable table;
    table.AddRow({"output", "off by", "largest", ""});
    AddObjects(json_, "outputs", compared_.outputs, [&](const auto& output) {
      const Metrics& metrics = output.metrics;
      // An output of zeros has no size that an error could be a part of.
      const double scale =
          metrics.expected_norm > 0 ? metrics.expected_norm : 1;
      const double error = metrics.non_finite() > 0
                               ? std::numeric_limits<double>::infinity()
                               : metrics.difference_norm / scale;
      const double largest = metrics.largest_error.error;
      const std::string verdict(NameOf(output.verdict()));
      table.AddRow(
          {output.key.node, ShortError(error), ShortError(largest), verdict});
      AddMembers(json_, "name", output.key.node, "error", error, "max_abs",
                 largest, "verdict", verdict);
    });
    json_->Add("missing_outputs", compared_.missing_outputs);
    report_.text += "\n";
    report_.text.Add(table, 0, kShownLines + 1);
    for (const std::string& missing : compared_.missing_outputs) {
      report_.text += missing + "\n";
    }
  }

  void ShowNarrowRanges() {
    TextTable table;
    table.AddRow({"tensor", "cut off"});
    AddObjects(json_, "narrow_ranges", compared_.narrow_ranges,
               [&](const auto& range) {
                 table.AddRow(
                     {range.value, fmt::format("{:.2g} %", 100 * range.share)});
                 AddMembers(json_, "tensor", range.value, "share", range.share);
               });
    if (compared_.narrow_ranges.empty()) return;
    report_.text +=
        "\nranges of the target that are too narrow for what the reference "
        "makes:\n";
    report_.text.Add(table, 2, most_layers_ + 1);
  }

  // Tensors of a file have errors of their own and nothing else: what a layer
  // costs is found by running it in the place of another.
  std::vector<std::string> RowOf(const ModelLayer& layer) const {
    const std::string own_error = ShortError(layer.own_error);
    if (!HasModel()) return {layer.name, layer.kind, own_error};
    return {layer.name, layer.kind, ShortError(layer.alone),
            layer.left.has_value() ? ShortError(*layer.left) : "", own_error};
  }

  // The document has all layers, and the text those that cost the most.
  void ShowLayers() {
    TextTable table;
    table.AddRow(HasModel()
                     ? std::vector<std::string>{"layer", "kind", "alone",
                                                "left without it", "own error"}
                     : std::vector<std::string>{"layer", "kind", "off by"});
    AddMember(json_, "judged", compared_.judged);
    size_t count = 0;
    AddObjects(json_, "layers", compared_.layers, [&](const auto& layer) {
      AddLayer(layer);
      if (++count <= most_layers_) table.AddRow(RowOf(layer));
    });
    if (compared_.layers.empty()) {
      AddText(&report_, "\n{}: none makes something else\n",
              CountOf(compared_.judged, "layer"));
      return;
    }
    AddText(&report_, "\n{} of {} make something else{}:\n", count,
            CountOf(compared_.judged, "layer"),
            HasModel() ? "; the error of the outputs with one alone as in the "
                         "target, and with all but one"
                       : " of the tensors before them");
    report_.text.Add(table, 2, 0);
    if (count > most_layers_) {
      AddText(&report_, "  ... {} more ({} has them)\n", count - most_layers_,
              NameOf(Way::kWholeDocument));
    }
  }

  void AddLayer(const ModelLayer& layer) {
    const Network& reference = *evidence_.reference;
    AddMembers(json_, "name", layer.name, "kind", layer.kind, "alone",
               layer.alone, "left", layer.left, "own_error", layer.own_error,
               "reference", OperationNames(reference, layer.reference),
               "constants",
               OperationNames(reference, layer.reference_constants));
    if (HasModel()) {
      json_->Add("target", OperationNames(*evidence_.target, layer.target));
    }
  }

  // There is a curve only for a target of lower precision: keeping a layer as
  // it was does not mend one that is wrong.
  void ShowKept() {
    const Sensitivity& found = compared_.sensitivity;
    if (found.curve.empty()) return;
    report_.text +=
        "\nwith the first layers of the list kept as in the reference:\n";
    ShowCurve(found, {"first kept", "outputs off by"}, &ShortError, &report_);
    ShowKeepList();
  }

  // onnxruntime's quantize_dynamic() makes a product and a sum of each Gemm
  // before it looks at the names, and names the product after the Gemm.
  std::vector<std::string> NamesToExclude() const {
    std::vector<std::string> names = compared_.keep;
    const bool is_dynamic =
        HasModel() &&
        std::ranges::any_of(evidence_.target->order(), [&](OperationId id) {
          return evidence_.target->operation(id).kind() ==
                 "DynamicQuantizeLinear";
        });
    if (!is_dynamic) return names;
    const Network& reference = *evidence_.reference;
    for (const std::string& name : compared_.keep) {
      const auto id = reference.FindOperation(name);
      if (id.ok() && reference.operation(*id).kind() == "Gemm") {
        names.push_back(name + "_MatMul");
      }
    }
    return names;
  }

  // Each tool that makes such a model takes the list in words of its own.
  void ShowKeepList() {
    const Sensitivity& found = compared_.sensitivity;
    const std::vector<std::string> excluded = NamesToExclude();
    const std::string keep = Sensitivity::ExpressionFor(compared_.keep);
    AddMembers(json_, "suggested_keep", keep, "suggested_layers",
               found.suggested, "suggested_error", found.suggested_error,
               "nodes_to_exclude", excluded);
    if (compared_.keep.empty()) {
      report_.text += "no layer stands out: nothing to keep\n";
      return;
    }
    std::vector<std::string> quoted;
    for (const std::string& name : excluded) {
      quoted.push_back(fmt::format("\"{}\"", Printable(name)));
    }
    const bool is_float = compared_.lowered.find("-bit") == std::string::npos;
    AddText(&report_, "suggested: keep the first {}\n", found.suggested);
    TextTable table;
    table.AddRow({"nodewise convert",
                  fmt::format("{} '{}'", NameOf(Way::kKeep), Printable(keep))});
    table.AddRow({is_float ? "onnxconverter-common" : "onnxruntime",
                  fmt::format("{}=[{}]",
                              is_float ? "node_block_list" : "nodes_to_exclude",
                              fmt::join(quoted, ", "))});
    report_.text.Add(table, 2, 0);
  }

  // Values without a partner show how far the two models go together at all: a
  // comparison of few pairs says little.
  void ShowUnpaired() {
    const ModelPairing& pairing = compared_.pairing;
    const auto of_reference =
        ValueNames(*evidence_.reference, pairing.reference_alone);
    const auto of_target =
        HasModel() ? ValueNames(*evidence_.target, pairing.target_alone)
                   : compared_.tensors_alone;
    const auto by_numbers = std::ranges::count(
        pairing.pairs, ValuePair::Way::kNumbers, &ValuePair::way);
    AddMembers(json_, "pairs", pairing.pairs.size(), "pairs_by_numbers",
               by_numbers, "unpaired_reference", of_reference,
               "unpaired_target", of_target);
    AddText(&report_, "\n{} of values, {} by their numbers",
            CountOf(pairing.pairs.size(), "pair"), by_numbers);
    if (of_reference.empty() && of_target.empty()) {
      report_.text += "; every value has a partner\n";
      return;
    }
    report_.text += "\n";
    const std::pair<std::string_view, const std::vector<std::string>&> sides[] =
        {{"reference", of_reference}, {"target", of_target}};
    for (const auto& [side, names] : sides) {
      if (names.empty()) continue;
      AddText(&report_, "without a partner in the {}: {}: {}\n", side,
              CountOf(names.size(), "value"), ListOf(names, kMostAlone));
    }
  }

  const ModelsEvidence& evidence_;
  const ModelComparison& compared_ = evidence_.compared;
  const size_t most_layers_;
  Report& report_;
  JsonWriter* const json_ = &report_.json;
};

}  // namespace

void ShowModels(const ModelsEvidence& evidence, size_t most_layers,
                Report* report) {
  ModelsReport(evidence, most_layers, report).Show();
}

}  // namespace nodewise
