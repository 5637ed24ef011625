#include "apps/nodewise/locate_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr NodeVerdict kWorstFirst[] = {
    NodeVerdict::kBroken,           NodeVerdict::kPlanFault,
    NodeVerdict::kNotDeterministic, NodeVerdict::kBadInput,
    NodeVerdict::kInconclusive,     NodeVerdict::kInherits,
    NodeVerdict::kIntendedInfinity, NodeVerdict::kHealthy,
};

std::string ShareText(const Culprit& culprit) {
  if (!culprit.share.has_value()) return "not measured";
  return fmt::format("{:.1f} % of the error of the outputs",
                     100 * *culprit.share);
}

void AddCulpritText(const NodeReport& report, const Culprit& culprit,
                    std::string* text) {
  TextTable table;
  *text += fmt::format("culprit: {}, {}\n", Printable(report.key),
                       NameOf(report.verdict));
  if (!report.covers.empty()) {
    table.AddRow({"operations", ListOf(report.covers)});
  }
  table.AddRow({"reason", report.reason});
  if (report.worst.has_value() && !report.worst->is_equal()) {
    const ElementDifference& worst = report.worst->Worst();
    table.AddRow({"worst", fmt::format("{}, element {}: found {}, expected {}",
                                       report.worst->key.Name(), worst.element,
                                       ShortNumber(worst.actual),
                                       ShortNumber(worst.expected))});
  }
  table.AddRow({"explains", ShareText(culprit)});
  *text += table.ToString(2, 0) + "\n";
}

std::string TallyOf(const LocateResult& result) {
  std::string text = CountOf(result.nodes.size(), "function node") + ":";
  std::string_view comma = " ";
  for (const NodeVerdict verdict : kWorstFirst) {
    const size_t count = result.CountOf(verdict);
    if (count == 0) continue;
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
  if (error == 0) return "outputs: equal to the reference's\n";
  return fmt::format(
      "outputs: {} the reference's by {:.2g} of their size at most\n",
      result.AreOutputsWrong() ? "differ from" : "within the tolerance of",
      error);
}

std::string BlameNobody(const LocateResult& result) {
  std::string text =
      "outputs differ from the reference's, and every node that could be "
      "judged is right on what it read";
  if (!result.largest_gain.has_value()) return text;
  const NodeReport& node = result.nodes[*result.largest_gain];
  return text + fmt::format(
                    "; {} enlarges the error that it receives most, {:.3g} "
                    "times",
                    node.key, node.gain());
}

void AddWorstElement(const NodeReport& report, JsonWriter* json) {
  if (!report.worst.has_value() || report.worst->is_equal()) return;
  const ElementDifference& worst = report.worst->Worst();
  json->BeginObject("worst");
  json->Add("element", worst.element);
  json->Add("expected", worst.expected);
  json->Add("actual", worst.actual);
  json->Add("error", worst.error);
  json->EndObject();
}

// What verdicts and culprits have in common.
void AddNode(const NodeReport& report, JsonWriter* json) {
  json->Add("node", report.key);
  json->Add("node_index", uint64_t{Index(report.node)});
  const uint64_t slot = report.worst.has_value() ? report.worst->key.slot : 0;
  json->Add("output", slot);
  json->Add("kind", NameOf(report.verdict));
  json->Add("source_nodes", report.covers);
}

void AddVerdict(const NodeReport& report, JsonWriter* json) {
  json->BeginObject();
  AddNode(report, json);
  json->Add("reason", report.reason);
  json->Add("isolated", NameOf(report.evidence.isolated));
  json->Add("accumulated", NameOf(report.evidence.accumulated));
  json->Add("received", report.received);
  json->Add("made", report.made);
  json->Add("passed_on", report.passed_on);
  json->Add("gain", report.gain());
  json->EndObject();
}

void AddCulprit(const NodeReport& report, const Culprit& culprit,
                JsonWriter* json) {
  json->BeginObject();
  AddNode(report, json);
  json->BeginObject("evidence");
  json->Add("reason", report.reason);
  json->Add("isolated", NameOf(report.evidence.isolated));
  if (report.evidence.isolated_privately.has_value()) {
    json->Add("isolated_privately",
              NameOf(*report.evidence.isolated_privately));
  }
  json->Add("steady", report.evidence.is_steady);
  AddWorstElement(report, json);
  if (culprit.share.has_value()) json->Add("share", *culprit.share);
  if (!culprit.victims.empty()) json->Add("victims", culprit.victims);
  json->EndObject();
  json->EndObject();
}

void AddLocated(const LocateResult& result, JsonWriter* json) {
  json->BeginArray("culprits");
  for (const Culprit& culprit : result.culprits) {
    AddCulprit(result.nodes[culprit.report], culprit, json);
  }
  json->EndArray();
  json->BeginArray("verdicts");
  for (const NodeReport& report : result.nodes) AddVerdict(report, json);
  json->EndArray();
  json->Add("outputs_differ", result.AreOutputsWrong());
  json->Add("output_error", LargestOutputError(result));
  if (result.share_of_all.has_value()) {
    json->Add("share_of_all", *result.share_of_all);
  }
  if (result.largest_gain.has_value()) {
    json->Add("largest_gain", result.nodes[*result.largest_gain].key);
  }
}

}  // namespace

void ShowLocated(const LocateResult& result, Outcome* outcome) {
  for (const Culprit& culprit : result.culprits) {
    AddCulpritText(result.nodes[culprit.report], culprit, &outcome->text);
  }
  if (result.culprits.empty()) outcome->text += "no culprit\n\n";
  if (result.culprits.size() > 1 && result.share_of_all.has_value()) {
    outcome->text += fmt::format(
        "together they explain {:.1f} % of the error of the outputs\n",
        100 * *result.share_of_all);
  }
  outcome->text += TallyOf(result) + OutputsText(result);
  outcome->notes.insert(outcome->notes.end(), result.notes.begin(),
                        result.notes.end());
  AddLocated(result, &outcome->json);
  if (!result.culprits.empty()) {
    outcome->status = Outcome::Status::kDiffers;
  } else if (result.AreOutputsWrong()) {
    outcome->AddError(absl::FailedPreconditionError(BlameNobody(result)));
  }
}

void ShowSideDifferences(const std::vector<SideDifference>& differences,
                         Outcome* outcome) {
  TextTable table;
  outcome->json.BeginArray("differences");
  for (const SideDifference& difference : differences) {
    const std::string what(NameOf(difference.what));
    table.AddRow({what, difference.name, "found " + difference.found,
                  "expected " + difference.expected});
    outcome->json.BeginObject();
    outcome->json.Add("what", what);
    outcome->json.Add("name", difference.name);
    outcome->json.Add("found", difference.found);
    outcome->json.Add("expected", difference.expected);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  if (differences.empty()) return;
  outcome->status = Outcome::Status::kDiffers;
  outcome->text +=
      fmt::format("\n{} from the reference, so nothing was run:\n{}",
                  CountOf(differences.size(), "difference"),
                  table.ToString(2, kShownLines, LineWidth()));
}

}  // namespace nodewise
