// Nodes that are to blame, and what is known of all others: those that were
// judged by the definitions of their operators, and those that were judged by
// the values of a model or another build.
//
// Text shows culprits in the order in which the search ranked them, a few of
// many; the document has all, with every verdict. Both kinds of search name
// nodes by the keys of the graph, and add where their operations are from in
// the program that made the model, if an exporter has noted that.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string ShareText(const Culprit& culprit) {
  if (!culprit.share.has_value()) return "not measured";
  // Repairing one of several may make the outputs worse, by any factor.
  if (*culprit.share < 0) {
    return "not measurable: with it right alone the outputs are worse";
  }
  return fmt::format("{:.1f} % of the error of the outputs",
                     100 * *culprit.share);
}

// Nodes that end runs are judged with the reference in their place where that
// can be, and otherwise everything behind them is unknown.
bool IsStandIn(const LocateResult& result, const NodeReport& node) {
  return std::ranges::count(result.stand_ins, node.key) > 0;
}

std::string KnownText(const std::string& runtime, const KnownUse& known) {
  const std::string text = fmt::format(
      "for {}: {}", Printable(KnownOf(known.row, runtime)), WordsOf(known.row));
  if (known.is_within()) return text;
  return std::isfinite(known.times)
             ? fmt::format("{}; this is {:.3g} times as much", text,
                           known.times)
             : text + "; this is something else";
}

void AddKnown(const std::optional<KnownUse>& known, JsonWriter* json) {
  if (!known.has_value()) return;
  const KnownDeviation& row = known->row;
  AddObject(json, "known", "kind", NameOf(row.kind), "type", IfAny{row.type},
            "bound", OptionalIf(HasTimes(row.kind), row.times), "times",
            known->times, "within", known->is_within());
}

// A node that makes equal bits has a comparison, too, and no worst element.
const ElementDifference* WorstOf(const NodeReport& node) {
  const bool differs = node.worst.has_value() && !node.worst->is_equal();
  return differs ? &node.worst->Worst() : nullptr;
}

// The rows go from what the node is to what is wrong with it and what that does
// to the outputs. Rows about which nothing is known are left out.
void AddCulpritText(const LocateResult& result, const Culprit& culprit,
                    absl::Span<const NamedCulprit> named, Report* report) {
  const NodeReport& node = result.nodes[culprit.report];
  TextTable table;
  AddText(report, "culprit: {}, {}\n", Printable(node.key),
          NameOf(node.verdict));
  if (!node.covers.empty()) table.AddRow({"operations", ListOf(node.covers)});
  AddSourceRows(SourcesOfCulprit(named, node.key), &table);
  if (!node.operators.empty()) table.AddRow({"computes", node.operators});
  table.AddRow({"reason", node.reason});
  if (node.cause.has_value()) {
    table.AddRow({"cause", "its " + node.cause->words});
  }
  if (node.known.has_value()) {
    table.AddRow({"known", KnownText(result.runtime, *node.known)});
  }
  if (const ElementDifference* const worst = WorstOf(node)) {
    const auto [found, expected] =
        FormatDistinct(worst->actual, worst->expected);
    table.AddRow({"worst", fmt::format("{}, element {}: found {}, expected {}",
                                       node.worst->key.Name(), worst->element,
                                       found, expected)});
  }
  if (!node.failure.has_value()) {
    table.AddRow({"explains", ShareText(culprit)});
  } else if (IsStandIn(result, node)) {
    table.AddRow({"instead", "the reference computed it for the others"});
  } else {
    table.AddRow({"instead", "nothing: what comes after it was not judged"});
  }
  report->text.Add(table, 2);
  report->text += "\n";
}

struct Deviating {
  size_t count = 0;
  double made = 0;
  std::optional<KnownUse> known = std::nullopt;  // For the node furthest off.
};

// One line for each kind of operators is enough for deviations that matter
// nowhere.
std::string DeviationsText(const LocateResult& result) {
  std::map<std::string, Deviating> kinds;
  for (const NodeReport& node : result.nodes) {
    if (node.verdict != NodeVerdict::kDeviates) continue;
    Deviating& kind = kinds[node.operators];
    ++kind.count;
    kind.made = std::max(kind.made, node.made);
    if (node.known.has_value() &&
        (!kind.known.has_value() || kind.known->times < node.known->times)) {
      kind.known = node.known;
    }
  }
  std::string text;
  for (const auto& [operators, kind] : kinds) {
    const bool is_one = kind.count == 1;
    text += fmt::format(
        "remark: {} {} {} by up to {:.2g} of {} size, too little to matter ({} "
        "accuses {})\n",
        kind.count, operators, is_one ? "deviates" : "deviate", kind.made,
        is_one ? "its" : "their", NameOf(Way::kStrict), is_one ? "it" : "them");
    if (kind.known.has_value()) {
      text += fmt::format("        known {}\n",
                          KnownText(result.runtime, *kind.known));
    }
  }
  if (!kinds.empty() && !result.runtime.empty() && !result.is_runtime_known) {
    text += fmt::format("remark: nothing is known of {} yet ({} measures it)\n",
                        Printable(RuntimeVersion(result.runtime)),
                        NameOf(Way::kLearning));
  }
  return text;
}

// The tally counts the verdicts that nodes have, and needs no list of all
// verdicts, which could lack one. The worst come first.
std::string TallyOf(const LocateResult& result) {
  std::map<NodeVerdict, size_t, std::greater<>> counts;
  for (const NodeReport& node : result.nodes) ++counts[node.verdict];
  std::string text = CountOf(result.nodes.size(), "function node") + ":";
  std::string_view comma = " ";
  for (const auto& [verdict, count] : counts) {
    text += fmt::format("{}{} {}", comma, count, NameOf(verdict));
    comma = ", ";
  }
  return text + "\n";
}

// The last line says whether any of it reaches the outputs: nodes may deviate
// in a network whose results are right.
std::string OutputsText(const LocateResult& result) {
  if (result.outputs.empty()) return "outputs: not compared\n";
  const double error = LargestOutputError(result);
  const std::string with =
      result.stand_ins.empty()
          ? ""
          : fmt::format(", with {} computed by it",
                        CountOf(result.stand_ins.size(), "node"));
  if (error == 0) {
    return fmt::format("outputs: equal to the reference's{}\n", with);
  }
  return fmt::format(
      "outputs: {} the reference's by {:.2g} of their size at most{}{}\n",
      result.AreOutputsWrong() ? "differ from" : "within the tolerance of",
      error,
      result.is_rounding ? ", no more than rounding does in this model" : "",
      with);
}

// A referee decides only where it sides with one of the two.
std::string_view MajorityText(RefereeSide side) {
  if (side == RefereeSide::kReference) return ": two against one";
  return side == RefereeSide::kCandidate
             ? ": two against one, so the reference may be wrong"
             : "";
}

void AddNode(const NodeReport& node, JsonWriter* json) {
  const uint64_t slot = node.worst.has_value() ? node.worst->key.slot : 0;
  AddMembers(json, "node", node.key, "node_index", Index(node.node), "output",
             slot, "kind", NameOf(node.verdict), "source_nodes", node.covers,
             "operators", IfAny{node.operators});
}

// The ledger of errors is in every verdict: what a node received, what it made
// itself, and what it passed on.
void AddVerdict(const NodeReport& node, JsonWriter* json) {
  AddNode(node, json);
  AddMembers(json, "reason", node.reason, "isolated",
             NameOf(node.evidence.isolated));
  AddKnown(node.known, json);
  AddMembers(json, "on_exact_inputs", IfAny{node.on_exact_inputs},
             "accumulated", NameOf(node.evidence.accumulated), "received",
             node.received, "made", node.made, "passed_on", node.passed_on,
             "gain", node.gain());
}

// The evidence is an object of its own, so that a program can read a
// culprit without knowing how it was found.
void AddCulprit(const LocateResult& result, const Culprit& culprit,
                absl::Span<const NamedCulprit> named, JsonWriter* json) {
  const NodeReport& node = result.nodes[culprit.report];
  AddNode(node, json);
  AddSources(SourcesOfCulprit(named, node.key), json);
  json->BeginObject("evidence");
  AddMembers(json, "reason", node.reason, "isolated",
             NameOf(node.evidence.isolated));
  if (node.evidence.isolated_privately.has_value()) {
    json->Add("isolated_privately", NameOf(*node.evidence.isolated_privately));
  }
  json->Add("steady", node.evidence.is_steady);
  if (node.cause.has_value()) json->Add("cause", node.cause->words);
  AddKnown(node.known, json);
  if (node.failure.has_value()) {
    AddMembers(json, "failure", NameOf(node.failure->kind), "stand_in",
               IsStandIn(result, node));
  }
  if (const ElementDifference* const worst = WorstOf(node)) {
    AddElement(json, "worst", *worst);
  }
  AddMembers(json, "share", culprit.share, "victims", IfAny{culprit.victims});
  json->EndObject();
}

void AddLocated(const LocateResult& result,
                absl::Span<const NamedCulprit> named, JsonWriter* json) {
  AddObjects(json, "culprits", result.culprits, [&](const Culprit& culprit) {
    AddCulprit(result, culprit, named, json);
  });
  AddObjects(json, "verdicts", result.nodes,
             [&](const NodeReport& node) { AddVerdict(node, json); });
  AddMembers(json, "runtime", IfAny{result.runtime}, "outputs_differ",
             result.AreOutputsWrong(), "output_error",
             LargestOutputError(result), "is_rounding",
             OptionalIf(result.is_rounding, true), "share_of_all",
             result.share_of_all);
  if (result.largest_gain.has_value()) {
    json->Add("largest_gain", result.nodes[*result.largest_gain].key);
  }
}

// Nodes here are known by what they hold of the tensors of a network. Where
// that network is another build, its operations are that build's nodes, and the
// words are chosen so that they fit both.
class ValueReport {
 public:
  ValueReport(const ValueEvidence& evidence,
              absl::Span<const NamedCulprit> named, Report* report)
      : evidence_(evidence), named_(named), report_(*report) {}

  void Show() {
    report_.text += "\n";
    size_t number = 0;
    AddObjects(json_, "culprits", result_.culprits,
               [&](const ValueCulprit&) { AddCulprit(number++); });
    if (result_.culprits.size() > evidence_.most_shown) {
      AddText(
          &report_, "{} more ({} has them)\n\n",
          CountOf(result_.culprits.size() - evidence_.most_shown, "culprit"),
          NameOf(Way::kWholeDocument));
    }
    AddMembers(json_, "side", IfAny{evidence_.side});
    if (result_.culprits.empty()) report_.text += "no culprit\n\n";
    AddVerdicts();
  }

 private:
  void AddCulprit(size_t number) {
    const ValueCulprit& culprit = result_.culprits[number];
    const std::string kind = KindOf(evidence_, number);
    const std::string key = index_.KeyOf(culprit.node);
    const std::string reason = ReasonFor(evidence_, number);
    const auto sources = SourcesOfCulprit(named_, key);
    if (number < evidence_.most_shown) {
      AddText(&report_, "culprit: {}{}, {}\n", Printable(key), evidence_.owner,
              kind);
      report_.text.Add(RowsOf(culprit, sources, reason), 2);
      report_.text += "\n";
    }
    AddMembers(json_, "node", key, "node_index", Index(culprit.node), "output",
               index_.OutputOf(culprit.entry), "kind", kind, "source_nodes",
               OperationNames(network_, culprit.operations));
    AddSources(sources, json_);
    AddMembers(json_, "source_tensors", OutputsOf(culprit.operations), "region",
               OperationNames(network_, culprit.region), "parts",
               KeysOf(index_, culprit.parts), "alike",
               ValueNames(network_, culprit.alike));
    AddObjects(json_, "explanations", culprit.explanations,
               [&](const Explanation& explanation) {
                 AddMembers(json_, "source_node",
                            network_.operation(explanation.operation).name,
                            "what", explanation.what);
               });
    AddObjects(json_, "inputs", ReadsOf(culprit), [&](EntryId entry) {
      AddMembers(json_, "entry", index_.KeyOf(entry), "tensors",
                 TensorsIn(entry), "layout", LayoutOf(entry));
    });
    AddMembers(json_, "layout", LayoutOf(culprit.entry), "edits_tried",
               culprit.edits_tried, "gave_up", culprit.gave_up, "input_sets",
               std::vector<int64_t>(culprit.sets.begin(), culprit.sets.end()));
    AddObject(json_, "evidence", "reason", reason, "entry",
              index_.KeyOf(culprit.entry), "expected",
              culprit.expected == kNoValue
                  ? ""
                  : network_.value(culprit.expected).name,
              "share_explained", culprit.share_explained);
  }

  // A culprit in a few lines: several changes may have one effect and a node
  // may read a lot, of which the document has all.
  TextTable RowsOf(const ValueCulprit& culprit,
                   absl::Span<const OperationSource> sources,
                   const std::string& reason) const {
    constexpr size_t kMostShown = 4;
    TextTable table;
    if (!culprit.operations.empty()) {
      table.AddRow({evidence_.side.empty() ? "operations" : "stands for",
                    ListOf(OperationNames(network_, culprit.operations))});
    }
    AddSourceRows(sources, &table);
    table.AddRow({"reason", reason});
    const std::vector<EntryId> reads = ReadsOf(culprit);
    for (size_t i = 0; i < reads.size() && i < kMostShown; ++i) {
      table.AddRow({"reads", MapLine(reads[i])});
    }
    if (culprit.expected != kNoValue) {
      table.AddRow({"should make", MapLine(culprit.entry)});
    }
    AddDoubts(culprit, &table);
    for (const Explanation& explanation :
         absl::MakeConstSpan(culprit.explanations).subspan(0, kMostShown)) {
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
      std::vector<std::string> sets;
      for (const size_t set : culprit.sets) sets.push_back(evidence_.sets[set]);
      table.AddRow({"shown by", ListOf(sets) + " alone"});
    }
    return table;
  }

  // Values cannot decide between nodes or tensors that go together.
  void AddDoubts(const ValueCulprit& culprit, TextTable* table) const {
    constexpr size_t kMostNames = 4;
    if (!culprit.parts.empty()) {
      table->AddRow(
          {"made by",
           fmt::format("{} as well, and any of them may be wrong: "
                       "what they make is not a tensor of {}",
                       ListOf(KeysOf(index_, culprit.parts), kMostNames),
                       evidence_.called)});
    }
    if (!culprit.alike.empty()) {
      table->AddRow(
          {"or", fmt::format(
                     "{}: made of the same numbers, so that their "
                     "values do not say which one is meant",
                     ListOf(ValueNames(network_, culprit.alike), kMostNames))});
    }
  }

  std::vector<std::string> OutputsOf(
      const std::vector<OperationId>& operations) const {
    std::vector<ValueId> outputs;
    for (const OperationId id : operations) {
      for (const ValueId output : network_.operation(id).outputs) {
        if (output != kNoValue) outputs.push_back(output);
      }
    }
    return ValueNames(network_, outputs);
  }

  std::vector<EntryId> ReadsOf(const ValueCulprit& culprit) const {
    const Graph& graph = index_.graph();
    std::vector<EntryId> reads;
    for (const EntryRef& ref : graph.node(culprit.node).inputs) {
      const EntryId read = graph.EntryOf(ref);
      if (result_.entries[Index(read)].state != EntryState::kConstant &&
          std::ranges::find(reads, read) == reads.end()) {
        reads.push_back(read);
      }
    }
    return reads;
  }

  // An entry may hold several tensors of the network where operations change
  // nothing, or none where it lies inside of one.
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

  // The proof that an entry should hold a tensor is that the nodes behind it
  // have made of its numbers what the reference makes of that tensor, if it has
  // these numbers.
  static std::string EvidenceFor(const ValueCulprit& culprit) {
    if (culprit.share_explained > 0) {
      return fmt::format(
          "taken for that tensor, its numbers explain {:.0f} % of the next "
          "nodes",
          100 * culprit.share_explained);
    }
    return culprit.explanations.empty()
               ? "none: the nodes behind it could not be judged"
               : "the change explains all its numbers";
  }

  // Adds what the entries of a node are together: the tensors of all, and the
  // largest of each error. Returns its state, the last of theirs.
  EntryState AddVerdict(uint32_t n) {
    const Graph& graph = index_.graph();
    EntryState state = EntryState::kConstant;
    std::vector<std::string> tensors;
    LocatedEntry worst;
    std::string layout;
    for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
         ++e) {
      const LocatedEntry& entry = result_.entries[e];
      state = std::max(state, entry.state);
      for (std::string& name : TensorsIn(EntryId{e})) {
        tensors.push_back(std::move(name));
      }
      if (layout.empty()) layout = LayoutOf(EntryId{e});
      worst.distance = std::max(worst.distance, entry.distance);
      worst.received = std::max(worst.received, entry.received);
      worst.passed_on = std::max(worst.passed_on, entry.passed_on);
    }
    AddObject(json_, {}, "node", index_.KeyOf(NodeId{n}), "node_index", n,
              "kind", NameOf(state), "source_tensors", tensors, "layout",
              layout, "distance", worst.distance, "received", worst.received,
              "passed_on", worst.passed_on, "gain", worst.gain());
    return state;
  }

  void AddVerdicts() {
    const Graph& graph = index_.graph();
    std::map<EntryState, size_t, std::greater<>> counts;  // The worst first.
    size_t total = 0;
    json_->BeginArray("verdicts");
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.IsFunction(NodeId{n})) continue;
      ++counts[AddVerdict(n)];
      ++total;
    }
    json_->EndArray();
    std::string_view comma = ":";
    report_.text += CountOf(total, "function node");
    for (const auto& [state, count] : counts) {
      AddText(
          &report_, "{} {} {}{}", comma, count, NameOf(state),
          state == EntryState::kOnTheWay ? " to a tensor of the model" : "");
      comma = ",";
    }
    report_.text += "\n";
  }

  const ValueEvidence& evidence_;
  const GraphIndex& index_ = *evidence_.index;
  const Network& network_ = *evidence_.network;
  const ValueLocateResult& result_ = evidence_.result;
  const absl::Span<const NamedCulprit> named_;
  Report& report_;
  JsonWriter* const json_ = &report_.json;
};

}  // namespace

// A fused node may stand for many lines of a program; a few show where to look.
void AddSourceRows(absl::Span<const OperationSource> sources,
                   TextTable* table) {
  constexpr size_t kMostShown = 4;
  const std::vector<std::string> texts = TextsOf(sources);
  for (size_t i = 0; i < texts.size() && i < kMostShown; ++i) {
    table->AddRow({i == 0 ? "from" : "", texts[i]});
  }
  if (texts.size() > kMostShown) {
    table->AddRow({"", CountOf(texts.size() - kMostShown, "more line")});
  }
}

void AddSources(absl::Span<const OperationSource> sources, JsonWriter* json) {
  if (sources.empty()) return;
  AddObjects(json, "source", sources, [&](const auto& source) {
    AddMembers(json, "operation", source.operation, "module",
               IfAny{source.module});
    if (source.line.has_value()) {
      AddMembers(json, "file", source.line->file, "line", source.line->line,
                 "function", source.line->function, "code", source.line->code);
    }
  });
}

absl::Span<const OperationSource> SourcesOfCulprit(
    absl::Span<const NamedCulprit> culprits, std::string_view key) {
  for (const NamedCulprit& culprit : culprits) {
    const NodePlace* const place = culprit.finding.node();
    if (place != nullptr && place->key == key) return culprit.source;
  }
  return {};
}

void ShowLocated(const LocateResult& result, bool judged_all,
                 size_t most_culprits, absl::Span<const NamedCulprit> named,
                 Report* report) {
  const size_t shown = std::min(most_culprits, result.culprits.size());
  for (size_t i = 0; i < shown; ++i) {
    AddCulpritText(result, result.culprits[i], named, report);
  }
  if (shown < result.culprits.size()) {
    AddText(report, "and {} ({} shows more)\n\n",
            CountOf(result.culprits.size() - shown, "more culprit"),
            NameOf(Way::kMostCulprits));
  }
  if (result.culprits.empty()) report->text += "no culprit\n\n";
  if (result.culprits.size() > 1 && result.share_of_all.has_value()) {
    AddText(report,
            "together they explain {:.1f} % of the error of the outputs\n",
            100 * *result.share_of_all);
  }
  // A search that judged only some nodes has no counts of verdicts.
  if (judged_all) report->text += TallyOf(result) + DeviationsText(result);
  report->text += OutputsText(result);
  AddLocated(result, named, &report->json);
}

// It is worth listing what could not be judged of a dump: a dump with more
// tensors in it would answer more.
void ShowNotJudged(const LocateResult& result, Report* report) {
  constexpr size_t kMostNotJudged = 20;
  TextTable table;
  for (const NodeReport& node : result.nodes) {
    if (node.verdict != NodeVerdict::kInconclusive) continue;
    table.AddRow({"not judged", node.key, node.reason});
  }
  report->text.Add(table, 0, kMostNotJudged);
}

void ShowOpinions(
    const std::string& referee,
    const std::vector<std::pair<std::string, RefereeOpinion>>& opinions,
    Report* report) {
  AddObjects(report, "referee", opinions, [&](const auto& row) {
    const auto& [node, opinion] = row;
    AddText(report, "referee: {}: {} {}", Printable(node), Printable(referee),
            NameOf(opinion.side));
    if (opinion.side == RefereeSide::kNotAsked) {
      AddText(report, ": {}\n", Printable(opinion.why_not));
    } else {
      AddText(
          report,
          " (off by {:.2g} of its size from the reference, by {:.2g} from the "
          "candidate){}\n",
          opinion.from_reference, opinion.from_candidate,
          MajorityText(opinion.side));
    }
    AddMembers(report, "node", node, "side", NameOf(opinion.side),
               "from_reference", opinion.from_reference, "from_candidate",
               opinion.from_candidate, "why_not", opinion.why_not);
  });
}

void ShowByValue(const ValueEvidence& evidence,
                 absl::Span<const NamedCulprit> named, Report* report) {
  ValueReport(evidence, named, report).Show();
}

}  // namespace nodewise
