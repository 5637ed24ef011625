#include "nodewise/report/located_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nodewise/report/source_report.h"
#include "nodewise/report/tensor_summary.h"
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

bool IsStandIn(const LocateResult& result, const NodeReport& node) {
  return std::find(result.stand_ins.begin(), result.stand_ins.end(),
                   node.key) != result.stand_ins.end();
}

// Says what is known of the node's operator, beside what was found.
std::string KnownText(const std::string& runtime, const KnownUse& known) {
  const std::string text = fmt::format(
      "for {}: {}", Printable(KnownOf(known.row, runtime)), WordsOf(known.row));
  if (known.is_within()) return text;
  return std::isfinite(known.times)
             ? fmt::format("{}; this is {:.3g} times as much", text,
                           known.times)
             : text + "; this is something else";
}

void AddKnown(const KnownUse& known, JsonWriter* json) {
  json->BeginObject("known");
  json->Add("kind", NameOf(known.row.kind));
  if (!known.row.type.empty()) json->Add("type", known.row.type);
  if (HasTimes(known.row.kind)) json->Add("bound", known.row.times);
  json->Add("times", known.times);
  json->Add("within", known.is_within());
  json->EndObject();
}

void AddCulpritText(const LocateResult& result, const Culprit& culprit,
                    absl::Span<const NamedCulprit> named, ReportText* text) {
  const NodeReport& node = result.nodes[culprit.report];
  TextTable table;
  *text += fmt::format("culprit: {}, {}\n", Printable(node.key),
                       NameOf(node.verdict));
  if (!node.covers.empty()) {
    table.AddRow({"operations", ListOf(node.covers)});
  }
  AddSourceRows(SourcesOfCulprit(named, node.key), &table);
  if (!node.operators.empty()) table.AddRow({"computes", node.operators});
  table.AddRow({"reason", node.reason});
  if (node.cause.has_value()) {
    table.AddRow({"cause", "its " + node.cause->words});
  }
  if (node.known.has_value()) {
    table.AddRow({"known", KnownText(result.runtime, *node.known)});
  }
  if (node.worst.has_value() && !node.worst->is_equal()) {
    const ElementDifference& worst = node.worst->Worst();
    const auto [found, expected] = TellApart(worst.actual, worst.expected);
    table.AddRow({"worst", fmt::format("{}, element {}: found {}, expected {}",
                                       node.worst->key.Name(), worst.element,
                                       found, expected)});
  }
  if (!node.failure.has_value()) {
    table.AddRow({"explains", ShareText(culprit)});
  } else if (IsStandIn(result, node)) {
    table.AddRow({"instead", "the reference computed it for the others"});
  } else {
    table.AddRow({"instead", "nothing: what comes after it was not judged"});
  }
  text->Add(table, 2);
  *text += "\n";
}

// Nodes of one operator that are off without mattering.
struct Deviating {
  size_t count = 0;
  double made = 0;
  std::optional<KnownUse> known = std::nullopt;  // For the node furthest off.
};

// Says of each kind of operators how far those are off that matter nowhere.
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

std::string TallyOf(const LocateResult& result) {
  std::string text = CountOf(result.nodes.size(), "function node") + ":";
  std::string_view comma = " ";
  // The tally counts the verdicts that nodes have, and needs no list of all
  // verdicts, which could lack one. The worst come first.
  std::map<NodeVerdict, size_t, std::greater<>> counts;
  for (const NodeReport& node : result.nodes) ++counts[node.verdict];
  for (const auto& [verdict, count] : counts) {
    text += fmt::format("{}{} {}", comma, count, NameOf(verdict));
    comma = ", ";
  }
  return text + "\n";
}

double LargestOutputError(const LocateResult& result) {
  double largest = 0;
  for (const TensorComparison& output : result.outputs) {
    largest = std::max(largest, RelativeError(output));
  }
  return largest;
}

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

std::string_view TwoAgainstOne(RefereeSide side) {
  switch (side) {
    case RefereeSide::kReference:
      return ": two against one";
    case RefereeSide::kCandidate:
      return ": two against one, so the reference may be wrong";
    default:
      return "";
  }
}

// Shows a referee's opinion about a node, as an item of the document's array.
void ShowOpinion(const std::string& referee, const std::string& node,
                 const RefereeOpinion& opinion, Report* report) {
  report->text += fmt::format("referee: {}: {} {}", Printable(node),
                              Printable(referee), NameOf(opinion.side));
  if (opinion.side == RefereeSide::kNotAsked) {
    report->text += ": " + Printable(opinion.why_not);
  } else {
    report->text += fmt::format(
        " (off by {:.2g} of its size from the reference, by {:.2g} from the "
        "candidate){}",
        opinion.from_reference, opinion.from_candidate,
        TwoAgainstOne(opinion.side));
  }
  report->text += "\n";
  report->json.BeginObject();
  report->json.Add("node", node);
  report->json.Add("side", NameOf(opinion.side));
  report->json.Add("from_reference", opinion.from_reference);
  report->json.Add("from_candidate", opinion.from_candidate);
  report->json.Add("why_not", opinion.why_not);
  report->json.EndObject();
}

void AddWorstElement(const NodeReport& node, JsonWriter* json) {
  if (!node.worst.has_value() || node.worst->is_equal()) return;
  const ElementDifference& worst = node.worst->Worst();
  json->BeginObject("worst");
  json->Add("element", worst.element);
  json->Add("expected", worst.expected);
  json->Add("actual", worst.actual);
  json->Add("error", worst.error);
  json->EndObject();
}

// What verdicts and culprits have in common.
void AddNode(const NodeReport& node, JsonWriter* json) {
  json->Add("node", node.key);
  json->Add("node_index", uint64_t{Index(node.node)});
  const uint64_t slot = node.worst.has_value() ? node.worst->key.slot : 0;
  json->Add("output", slot);
  json->Add("kind", NameOf(node.verdict));
  json->Add("source_nodes", node.covers);
  if (!node.operators.empty()) json->Add("operators", node.operators);
}

void AddVerdict(const NodeReport& node, JsonWriter* json) {
  json->BeginObject();
  AddNode(node, json);
  json->Add("reason", node.reason);
  json->Add("isolated", NameOf(node.evidence.isolated));
  if (node.known.has_value()) AddKnown(*node.known, json);
  if (!node.on_exact_inputs.empty()) {
    json->Add("on_exact_inputs", node.on_exact_inputs);
  }
  json->Add("accumulated", NameOf(node.evidence.accumulated));
  json->Add("received", node.received);
  json->Add("made", node.made);
  json->Add("passed_on", node.passed_on);
  json->Add("gain", node.gain());
  json->EndObject();
}

void AddCulprit(const LocateResult& result, const Culprit& culprit,
                absl::Span<const NamedCulprit> named, JsonWriter* json) {
  const NodeReport& node = result.nodes[culprit.report];
  json->BeginObject();
  AddNode(node, json);
  AddSources(SourcesOfCulprit(named, node.key), json);
  json->BeginObject("evidence");
  json->Add("reason", node.reason);
  json->Add("isolated", NameOf(node.evidence.isolated));
  if (node.evidence.isolated_privately.has_value()) {
    json->Add("isolated_privately", NameOf(*node.evidence.isolated_privately));
  }
  json->Add("steady", node.evidence.is_steady);
  if (node.cause.has_value()) json->Add("cause", node.cause->words);
  if (node.known.has_value()) AddKnown(*node.known, json);
  if (node.failure.has_value()) {
    json->Add("failure", NameOf(node.failure->kind));
    json->Add("stand_in", IsStandIn(result, node));
  }
  AddWorstElement(node, json);
  if (culprit.share.has_value()) json->Add("share", *culprit.share);
  if (!culprit.victims.empty()) json->Add("victims", culprit.victims);
  json->EndObject();
  json->EndObject();
}

void AddLocated(const LocateResult& result,
                absl::Span<const NamedCulprit> named, JsonWriter* json) {
  json->BeginArray("culprits");
  for (const Culprit& culprit : result.culprits) {
    AddCulprit(result, culprit, named, json);
  }
  json->EndArray();
  json->BeginArray("verdicts");
  for (const NodeReport& node : result.nodes) AddVerdict(node, json);
  json->EndArray();
  if (!result.runtime.empty()) json->Add("runtime", result.runtime);
  json->Add("outputs_differ", result.AreOutputsWrong());
  json->Add("output_error", LargestOutputError(result));
  if (result.is_rounding) json->Add("is_rounding", true);
  if (result.share_of_all.has_value()) {
    json->Add("share_of_all", *result.share_of_all);
  }
  if (result.largest_gain.has_value()) {
    json->Add("largest_gain", result.nodes[*result.largest_gain].key);
  }
}

}  // namespace

void ShowLocated(const LocateResult& result, bool judged_all,
                 size_t most_culprits, absl::Span<const NamedCulprit> named,
                 Report* report) {
  const size_t shown = std::min(most_culprits, result.culprits.size());
  for (size_t i = 0; i < shown; ++i) {
    AddCulpritText(result, result.culprits[i], named, &report->text);
  }
  if (shown < result.culprits.size()) {
    report->text +=
        fmt::format("and {} ({} shows more)\n\n",
                    CountOf(result.culprits.size() - shown, "more culprit"),
                    NameOf(Way::kMostCulprits));
  }
  if (result.culprits.empty()) report->text += "no culprit\n\n";
  if (result.culprits.size() > 1 && result.share_of_all.has_value()) {
    report->text += fmt::format(
        "together they explain {:.1f} % of the error of the outputs\n",
        100 * *result.share_of_all);
  }
  // A search that judged only some nodes has no counts of verdicts.
  if (judged_all) report->text += TallyOf(result) + DeviationsText(result);
  report->text += OutputsText(result);
  AddLocated(result, named, &report->json);
}

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
  report->json.BeginArray("referee");
  for (const auto& [node, opinion] : opinions) {
    ShowOpinion(referee, node, opinion, report);
  }
  report->json.EndArray();
}

void ShowSideDifferences(const std::vector<SideDifference>& differences,
                         Report* report) {
  TextTable table;
  report->json.BeginArray("differences");
  for (const SideDifference& difference : differences) {
    const std::string what(NameOf(difference.what));
    table.AddRow({what, difference.name, "found " + difference.found,
                  "expected " + difference.expected});
    report->json.BeginObject();
    report->json.Add("what", what);
    report->json.Add("name", difference.name);
    report->json.Add("found", difference.found);
    report->json.Add("expected", difference.expected);
    report->json.EndObject();
  }
  report->json.EndArray();
  if (differences.empty()) return;
  report->text += fmt::format("\n{} from the reference, so nothing was run:\n",
                              CountOf(differences.size(), "difference"));
  report->text.Add(table, 2, kShownLines);
}

}  // namespace nodewise
