#include "nodewise/report/value_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/report/source_report.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

class ValueReport {
 public:
  ValueReport(const ValueEvidence& evidence,
              absl::Span<const NamedCulprit> named)
      : index_(*evidence.index),
        network_(*evidence.network),
        result_(evidence.result),
        evidence_(evidence),
        named_(named) {}

  void Show(Report* report) const {
    report->text += "\n";
    report->json.BeginArray("culprits");
    for (size_t i = 0; i < result_.culprits.size(); ++i) {
      AddCulprit(i, i < evidence_.most_shown, report);
    }
    if (result_.culprits.size() > evidence_.most_shown) {
      report->text += fmt::format(
          "{} more ({} has them)\n\n",
          CountOf(result_.culprits.size() - evidence_.most_shown, "culprit"),
          NameOf(Way::kWholeDocument));
    }
    report->json.EndArray();
    if (!evidence_.side.empty()) report->json.Add("side", evidence_.side);
    if (result_.culprits.empty()) report->text += "no culprit\n\n";
    AddVerdicts(report);
  }

 private:
  std::vector<std::string> OutputsIn(
      const std::vector<OperationId>& region) const {
    std::vector<std::string> names;
    for (const OperationId id : region) {
      for (const ValueId output : network_.operation(id).outputs) {
        if (output != kNoValue) names.push_back(network_.value(output).name);
      }
    }
    return names;
  }

  std::vector<std::string> NamesOf(
      const std::vector<OperationId>& region) const {
    std::vector<std::string> names;
    for (const OperationId id : region) {
      names.push_back(network_.operation(id).name);
    }
    return names;
  }

  std::string ExpectedName(const ValueCulprit& culprit) const {
    return culprit.expected == kNoValue ? ""
                                        : network_.value(culprit.expected).name;
  }

  void ShowText(const ValueCulprit& culprit, const std::string& kind,
                const std::string& reason, ReportText* text) const {
    TextTable table;
    if (!culprit.operations.empty()) {
      table.AddRow({evidence_.side.empty() ? "operations" : "stands for",
                    ListOf(NamesOf(culprit.operations))});
    }
    AddSourceRows(SourcesOfCulprit(named_, index_.KeyOf(culprit.node)), &table);
    table.AddRow({"reason", reason});
    AddMapText(culprit, &table);
    AddDoubts(culprit, &table);
    for (const Explanation& explanation : Shown(culprit)) {
      table.AddRow(
          {"explained by", network_.operation(explanation.operation).name +
                               ": " + explanation.what});
    }
    if (culprit.gave_up) {
      table.AddRow(
          {"gave up", fmt::format("after {}: there are more, which "
                                  "may explain it as well",
                                  CountOf(culprit.edits_tried, "change"))});
    }
    table.AddRow({"evidence", EvidenceFor(culprit)});
    if (!culprit.sets.empty() && culprit.sets.size() < evidence_.sets.size()) {
      table.AddRow({"shown by", SetsOf(culprit) + " alone"});
    }
    *text += fmt::format("culprit: {}{}, {}\n",
                         Printable(index_.KeyOf(culprit.node)), evidence_.owner,
                         kind);
    text->Add(table, 2);
    *text += "\n";
  }

  void AddCulprit(size_t number, bool is_shown, Report* report) const {
    const ValueCulprit& culprit = result_.culprits[number];
    const std::string kind = KindOf(evidence_, number);
    const std::string key = index_.KeyOf(culprit.node);
    const std::string expected = ExpectedName(culprit);
    const std::string reason = ReasonFor(evidence_, number);
    if (is_shown) ShowText(culprit, kind, reason, &report->text);
    JsonWriter& json = report->json;
    json.BeginObject();
    json.Add("node", key);
    json.Add("node_index", uint64_t{Index(culprit.node)});
    json.Add("output", uint64_t{index_.OutputOf(culprit.entry)});
    json.Add("kind", kind);
    json.Add("source_nodes", NamesOf(culprit.operations));
    AddSources(SourcesOfCulprit(named_, key), &json);
    json.Add("source_tensors", OutputsIn(culprit.operations));
    json.Add("region", NamesOf(culprit.region));
    json.Add("parts", KeysOf(culprit.parts));
    json.Add("alike", ValueNames(culprit.alike));
    json.BeginArray("explanations");
    for (const Explanation& explanation : culprit.explanations) {
      json.BeginObject();
      json.Add("source_node", network_.operation(explanation.operation).name);
      json.Add("what", explanation.what);
      json.EndObject();
    }
    json.EndArray();
    AddMapJson(culprit, &json);
    json.Add("edits_tried", static_cast<uint64_t>(culprit.edits_tried));
    json.Add("gave_up", culprit.gave_up);
    json.Add("input_sets",
             std::vector<int64_t>(culprit.sets.begin(), culprit.sets.end()));
    json.BeginObject("evidence");
    json.Add("reason", reason);
    json.Add("entry", index_.KeyOf(culprit.entry));
    json.Add("expected", expected);
    json.Add("share_explained", culprit.share_explained);
    json.EndObject();
    json.EndObject();
  }

  std::vector<std::string> KeysOf(const std::vector<NodeId>& nodes) const {
    std::vector<std::string> keys;
    for (const NodeId node : nodes) keys.push_back(index_.KeyOf(node));
    return keys;
  }

  std::vector<std::string> ValueNames(const std::vector<ValueId>& ids) const {
    std::vector<std::string> names;
    for (const ValueId id : ids) names.push_back(network_.value(id).name);
    return names;
  }

  // What the values cannot decide.
  void AddDoubts(const ValueCulprit& culprit, TextTable* table) const {
    constexpr size_t kMostNames = 4;
    if (!culprit.parts.empty()) {
      table->AddRow(
          {"made by", fmt::format("{} as well, and any of them may be wrong: "
                                  "what they make is not a tensor of {}",
                                  ListOf(KeysOf(culprit.parts), kMostNames),
                                  evidence_.called)});
    }
    if (!culprit.alike.empty()) {
      table->AddRow(
          {"or", fmt::format("{}: made of the same numbers, so that their "
                             "values do not say which one is meant",
                             ListOf(ValueNames(culprit.alike), kMostNames))});
    }
  }

  // What the node reads of others, each once.
  std::vector<EntryId> ReadsOf(const ValueCulprit& culprit) const {
    const Graph& graph = index_.graph();
    std::vector<EntryId> reads;
    for (const EntryRef& ref : graph.node(culprit.node).inputs) {
      const EntryId read = graph.EntryOf(ref);
      if (result_.entries[Index(read)].state != EntryState::kConstant &&
          std::find(reads.begin(), reads.end(), read) == reads.end()) {
        reads.push_back(read);
      }
    }
    return reads;
  }

  std::vector<std::string> TensorsIn(EntryId entry) const {
    std::vector<std::string> names;
    for (const HeldTensor& tensor : result_.entries[Index(entry)].tensors) {
      names.push_back(network_.value(tensor.value).name);
    }
    return names;
  }

  std::string LayoutOf(EntryId entry) const {
    const LocatedEntry& located = result_.entries[Index(entry)];
    return located.tensors.empty() ? "" : located.tensors[0].layout.text;
  }

  // "conv_add_relu:0: stem_act, side 1 in blocks of 8"
  std::string MapLine(EntryId entry) const {
    constexpr size_t kMostNames = 3;
    const std::vector<std::string> names = TensorsIn(entry);
    const std::string layout = LayoutOf(entry);
    return fmt::format(
        "{}: {}{}{}", Printable(index_.KeyOf(entry)),
        names.empty() ? "no tensor of the model" : ListOf(names, kMostNames),
        layout.empty() ? "" : ", ", layout);
  }

  void AddMapText(const ValueCulprit& culprit, TextTable* table) const {
    constexpr size_t kMostShown = 4;
    const std::vector<EntryId> reads = ReadsOf(culprit);
    for (size_t i = 0; i < reads.size() && i < kMostShown; ++i) {
      table->AddRow({"reads", MapLine(reads[i])});
    }
    if (culprit.expected != kNoValue) {
      table->AddRow({"should make", MapLine(culprit.entry)});
    }
  }

  void AddMapJson(const ValueCulprit& culprit, JsonWriter* json) const {
    json->BeginArray("inputs");
    for (const EntryId entry : ReadsOf(culprit)) {
      json->BeginObject();
      json->Add("entry", index_.KeyOf(entry));
      json->Add("tensors", TensorsIn(entry));
      json->Add("layout", LayoutOf(entry));
      json->EndObject();
    }
    json->EndArray();
    json->Add("layout", LayoutOf(culprit.entry));
  }

  static std::string EvidenceFor(const ValueCulprit& culprit) {
    if (culprit.share_explained > 0) {
      return fmt::format(
          "had it held that, {:.0f} % of what reads it would be right",
          100 * culprit.share_explained);
    }
    return culprit.explanations.empty()
               ? "none: the nodes behind it could not be judged"
               : "the change explains all its numbers";
  }

  std::string SetsOf(const ValueCulprit& culprit) const {
    std::vector<std::string> names;
    for (const size_t set : culprit.sets) names.push_back(evidence_.sets[set]);
    return ListOf(names);
  }

  // Several changes may have one effect; the document has them all.
  static absl::Span<const Explanation> Shown(const ValueCulprit& culprit) {
    constexpr size_t kMostShown = 4;
    return absl::MakeConstSpan(culprit.explanations).subspan(0, kMostShown);
  }

  void AddVerdicts(Report* report) const {
    const Graph& graph = index_.graph();
    std::vector<size_t> counts(5);
    size_t total = 0;
    report->json.BeginArray("verdicts");
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.IsFunction(NodeId{n})) continue;
      EntryState state = EntryState::kConstant;
      std::vector<std::string> tensors;
      LocatedEntry worst;
      std::string layout;
      for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
           ++e) {
        state = std::max(state, result_.entries[e].state);
        for (std::string& name : TensorsIn(EntryId{e})) {
          tensors.push_back(std::move(name));
        }
        if (layout.empty()) layout = LayoutOf(EntryId{e});
        worst.distance = std::max(worst.distance, result_.entries[e].distance);
        worst.received = std::max(worst.received, result_.entries[e].received);
        worst.passed_on =
            std::max(worst.passed_on, result_.entries[e].passed_on);
      }
      ++counts[static_cast<size_t>(state)];
      ++total;
      report->json.BeginObject();
      report->json.Add("node", index_.KeyOf(NodeId{n}));
      report->json.Add("node_index", uint64_t{n});
      report->json.Add("kind", NameOf(state));
      report->json.Add("source_tensors", tensors);
      report->json.Add("layout", layout);
      report->json.Add("distance", worst.distance);
      report->json.Add("received", worst.received);
      report->json.Add("passed_on", worst.passed_on);
      report->json.Add("gain", worst.gain());
      report->json.EndObject();
    }
    report->json.EndArray();
    std::string_view comma = ":";
    report->text += CountOf(total, "function node");
    for (const EntryState state :
         {EntryState::kBroken, EntryState::kUnknown, EntryState::kHealthy,
          EntryState::kOnTheWay, EntryState::kConstant}) {
      const size_t count = counts[static_cast<size_t>(state)];
      if (count == 0) continue;
      report->text += fmt::format(
          "{} {} {}{}", comma, count, NameOf(state),
          state == EntryState::kOnTheWay ? " to a tensor of the model" : "");
      comma = ",";
    }
    report->text += "\n";
  }

  const GraphIndex& index_;
  const Network& network_;
  const ValueLocateResult& result_;
  const ValueEvidence& evidence_;
  absl::Span<const NamedCulprit> named_;
};

}  // namespace

void ShowByValue(const ValueEvidence& evidence,
                 absl::Span<const NamedCulprit> named, Report* report) {
  ValueReport(evidence, named).Show(report);
}

}  // namespace nodewise
