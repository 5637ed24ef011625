#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ir/operation_source.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/support/text_table.h"
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
    AddMembers(&report->json, "reference", evidence_.name, "lowered_to",
               compared_.lowered, "only_weights", compared_.are_weights_lowered,
               "error", compared_.error);
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
    AddObjects(
        &report->json, "outputs", compared_.outputs, [&](const auto& output) {
          const Metrics& metrics = output.metrics;
          const double scale =
              metrics.expected_norm > 0 ? metrics.expected_norm : 1;
          const double error = metrics.non_finite() > 0
                                   ? std::numeric_limits<double>::infinity()
                                   : metrics.difference_norm / scale;
          table.AddRow({output.key.node, ErrorText(error),
                        ErrorText(metrics.largest_error.error),
                        std::string(NameOf(output.verdict()))});
          AddMembers(&report->json, "name", output.key.node, "error", error,
                     "max_abs", metrics.largest_error.error, "verdict",
                     NameOf(output.verdict()));
        });
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
      AddObject(&report->json, {}, "tensor", range.value, "share", range.share);
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
      AddText(report, "\n{}: none makes something else\n",
              CountOf(compared_.judged, "layer"));
      return;
    }
    AddText(report, "\n{} of {} make something else{}:\n",
            compared_.layers.size(), CountOf(compared_.judged, "layer"),
            HasModel() ? "; the error of the outputs with one alone as in the "
                         "target, and with all but one"
                       : " of the tensors before them");
    report->text.Add(table, 2, 0);
    if (shown > most_layers_) {
      AddText(report, "  ... {} more ({} has them)\n", shown - most_layers_,
              NameOf(Way::kWholeDocument));
    }
  }

  void AddLayer(const ModelLayer& layer, JsonWriter* json) const {
    json->BeginObject();
    AddMembers(json, "name", layer.name, "kind", layer.kind, "alone",
               layer.alone, "left", layer.left, "own_error", layer.own_error,
               "reference", NamesOf(*evidence_.reference, layer.reference),
               "constants",
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
    AddMembers(&report->json, "suggested_keep", keep, "suggested_layers",
               found.suggested, "suggested_error", found.suggested_error,
               "nodes_to_exclude", excluded);
    if (names.empty()) {
      report->text += "no layer stands out: nothing to keep\n";
      return;
    }
    const bool is_float = compared_.lowered.find("-bit") == std::string::npos;
    AddText(report, "suggested: keep the first {}\n", found.suggested);
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
    AddMembers(&report->json, "pairs", pairing.pairs.size(), "pairs_by_numbers",
               by_numbers, "unpaired_reference", of_reference,
               "unpaired_target", of_target);
    AddText(report, "\n{} of values, {} by their numbers",
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
      AddText(report, "without a partner in the {}: {}: {}\n", side,
              CountOf(names.size(), "value"), ListOf(names, kMostAlone));
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

// Which tensors of a model each node of a target holds.

namespace {

constexpr size_t kNamedOperations = 3;
// Between more operations than these one knows little of where a node is.
constexpr size_t kMostBetween = 6;
constexpr std::string_view kUnknownOrder = "order not explained";

std::vector<std::string> NamesOf(const AlignedEntry& entry,
                                 const Network& network) {
  std::vector<std::string> names;
  for (const EntryMatch& match : entry.matches) {
    const NetworkValue& value = network.value(match.value);
    names.push_back(value.name);
    if (!match.without_input.has_value()) continue;
    const OperatorDef& def = network.operation(value.producer).attrs.def();
    names.back() +=
        fmt::format(" without {}", def.inputs[*match.without_input].name);
  }
  return names;
}

std::vector<std::string> OperationsIn(const AlignedEntry& entry,
                                      const Network& network) {
  std::vector<std::string> names;
  for (const OperationId id : entry.between) {
    names.push_back(network.operation(id).name);
  }
  return names;
}

// Where the operations are from that make what an entry holds, or that it is
// between.
std::vector<OperationSource> SourcesOf(const AlignedEntry& entry,
                                       const Network& network) {
  std::vector<OperationId> ids;
  for (const EntryMatch& match : entry.matches) {
    ids.push_back(network.value(match.value).producer);
  }
  if (ids.empty()) ids = entry.between;
  std::vector<OperationSource> sources;
  for (const OperationId id : ids) {
    if (id == kNoOperation) continue;
    auto source = SourceOf(network.operation(id));
    if (source.has_value()) sources.push_back(*std::move(source));
  }
  return sources;
}

// The first of several is enough to find the place.
std::string FirstOf(const std::vector<OperationSource>& sources) {
  return sources.empty() ? "" : sources[0].ToString();
}

bool HasSources(const Network& network) {
  const auto order = network.order();
  return std::any_of(order.begin(), order.end(), [&](OperationId id) {
    return SourceOf(network.operation(id)).has_value();
  });
}

std::string InsideOf(const AlignedEntry& entry, const Network& network) {
  if (entry.between.empty()) return "-";
  return fmt::format("- (inside of {})",
                     ListOf(OperationsIn(entry, network), kNamedOperations));
}

std::string LayoutOf(const EntryMatch& match) {
  return match.has_unknown_order ? std::string(kUnknownOrder)
                                 : match.layout.text;
}

void AddEntry(const AlignedEntry& entry, const std::string& key,
              const std::vector<std::string>& names, const Network& network,
              JsonWriter* json) {
  json->BeginObject();
  AddMembers(json, "entry", key, "tensors", names);
  if (entry.matches.empty()) {
    json->Add("inside_of", OperationsIn(entry, network));
  }
  AddSources(SourcesOf(entry, network), json);
  if (!entry.matches.empty()) {
    AddMembers(json, "distance", entry.matches[0].distance, "layout",
               LayoutOf(entry.matches[0]), "order_is_known",
               !entry.matches[0].has_unknown_order);
  }
  json->EndObject();
}

void ShowAlignment(const Alignment& alignment, const GraphIndex& index,
                   const Network& network, bool with_all_lines,
                   Report* report) {
  const Graph& graph = index.graph();
  TextTable table;
  std::vector<std::string> titles = {"Entry", "Shape", "Tensor of the model",
                                     "Distance", "Layout"};
  const bool has_sources = HasSources(network);
  if (has_sources) titles.emplace_back("From");
  table.AddRow(titles);
  report->json.BeginArray("entries");
  for (const AlignedEntry& entry : alignment.entries) {
    if (!entry.varies || !graph.IsFunction(index.NodeOf(entry.entry))) {
      continue;
    }
    const std::string key = index.KeyOf(entry.entry);
    const std::vector<std::string> names = NamesOf(entry, network);
    AddEntry(entry, key, names, network, &report->json);
    const bool is_matched = !entry.matches.empty();
    std::vector<std::string> row = {
        key,
        fmt::format("({})", fmt::join(graph.entry(entry.entry).shape, ", ")),
        is_matched ? fmt::format("{}", fmt::join(names, ", "))
                   : InsideOf(entry, network),
        is_matched ? fmt::format("{:.2g}", entry.matches[0].distance) : "",
        is_matched ? LayoutOf(entry.matches[0]) : ""};
    if (has_sources) row.push_back(FirstOf(SourcesOf(entry, network)));
    table.AddRow(row);
  }
  report->json.EndArray();
  const size_t nodes = alignment.CountVarying(graph);
  const size_t matched = alignment.CountMatched(index);
  AddMembers(&report->json, "nodes", nodes, "matched", matched);
  const size_t between = alignment.CountBetween(index, kMostBetween);
  report->json.Add("between", static_cast<uint64_t>(between));
  report->text += "\n";
  report->text.Add(table, 0, with_all_lines ? 0 : kShownLines + 1);
  AddText(report,
          "\n{} of {} that depend on inputs hold a tensor of the model\n",
          matched, CountOf(nodes, "node"));
  if (between > 0) {
    AddText(
        report,
        "{} more {} between those, with {} operations of the model at most\n",
        between, between == 1 ? "is" : "are", kMostBetween);
  }
}

}  // namespace

Report ReportOf(const AlignAnswer& answer, bool with_all_lines) {
  Report report;
  report.notes = answer.target.notes;
  ShowTarget(answer.target, &report);
  for (const auto* notes : {&answer.notes, &answer.beside.notes}) {
    report.notes.insert(report.notes.end(), notes->begin(), notes->end());
  }
  ShowOpaque(answer.beside.opaque, &report);
  ShowAlignment(answer.alignment, answer.target.target->index(),
                *answer.beside.network, with_all_lines, &report);
  return report;
}

}  // namespace nodewise
