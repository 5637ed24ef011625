#include "apps/nodewise/locate_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/locate/given_numbers.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string ShareText(const Culprit& culprit) {
  if (!culprit.share.has_value()) return "not measured";
  return fmt::format("{:.1f} % of the error of the outputs",
                     100 * *culprit.share);
}

bool IsStandIn(const LocateResult& result, const NodeReport& report) {
  return std::find(result.stand_ins.begin(), result.stand_ins.end(),
                   report.key) != result.stand_ins.end();
}

void AddCulpritText(const LocateResult& result, const Culprit& culprit,
                    std::string* text) {
  const NodeReport& report = result.nodes[culprit.report];
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
  if (!report.failure.has_value()) {
    table.AddRow({"explains", ShareText(culprit)});
  } else if (IsStandIn(result, report)) {
    table.AddRow({"instead", "the reference computed it for the others"});
  } else {
    table.AddRow({"instead", "nothing: what comes after it was not judged"});
  }
  *text += table.ToString(2, 0) + "\n";
}

std::string TallyOf(const LocateResult& result) {
  std::string text = CountOf(result.nodes.size(), "function node") + ":";
  std::string_view comma = " ";
  // The tally counts the verdicts that nodes have, and needs no list of all
  // verdicts, which could lack one. The worst come first.
  std::map<NodeVerdict, size_t, std::greater<>> counts;
  for (const NodeReport& report : result.nodes) ++counts[report.verdict];
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
      "outputs: {} the reference's by {:.2g} of their size at most{}\n",
      result.AreOutputsWrong() ? "differ from" : "within the tolerance of",
      error, with);
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
                 const RefereeOpinion& opinion, Outcome* outcome) {
  outcome->text += fmt::format("referee: {}: {} {}", Printable(node),
                               Printable(referee), NameOf(opinion.side));
  if (opinion.side == RefereeSide::kNotAsked) {
    outcome->text += ": " + Printable(opinion.why_not);
  } else {
    outcome->text += fmt::format(
        " (off by {:.2g} of its size from the reference, by {:.2g} from the "
        "candidate){}",
        opinion.from_reference, opinion.from_candidate,
        TwoAgainstOne(opinion.side));
  }
  outcome->text += "\n";
  outcome->json.BeginObject();
  outcome->json.Add("node", node);
  outcome->json.Add("side", NameOf(opinion.side));
  outcome->json.Add("from_reference", opinion.from_reference);
  outcome->json.Add("from_candidate", opinion.from_candidate);
  outcome->json.Add("why_not", opinion.why_not);
  outcome->json.EndObject();
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
  if (!report.on_exact_inputs.empty()) {
    json->Add("on_exact_inputs", report.on_exact_inputs);
  }
  json->Add("accumulated", NameOf(report.evidence.accumulated));
  json->Add("received", report.received);
  json->Add("made", report.made);
  json->Add("passed_on", report.passed_on);
  json->Add("gain", report.gain());
  json->EndObject();
}

void AddCulprit(const LocateResult& result, const Culprit& culprit,
                JsonWriter* json) {
  const NodeReport& report = result.nodes[culprit.report];
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
  if (report.failure.has_value()) {
    json->Add("failure", NameOf(report.failure->kind));
    json->Add("stand_in", IsStandIn(result, report));
  }
  AddWorstElement(report, json);
  if (culprit.share.has_value()) json->Add("share", *culprit.share);
  if (!culprit.victims.empty()) json->Add("victims", culprit.victims);
  json->EndObject();
  json->EndObject();
}

void AddLocated(const LocateResult& result, JsonWriter* json) {
  json->BeginArray("culprits");
  for (const Culprit& culprit : result.culprits) {
    AddCulprit(result, culprit, json);
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

void Show(const LocateResult& result, const std::string& tally,
          Outcome* outcome) {
  for (const Culprit& culprit : result.culprits) {
    AddCulpritText(result, culprit, &outcome->text);
  }
  if (result.culprits.empty()) outcome->text += "no culprit\n\n";
  if (result.culprits.size() > 1 && result.share_of_all.has_value()) {
    outcome->text += fmt::format(
        "together they explain {:.1f} % of the error of the outputs\n",
        100 * *result.share_of_all);
  }
  outcome->text += tally + OutputsText(result);
  outcome->notes.insert(outcome->notes.end(), result.notes.begin(),
                        result.notes.end());
  AddLocated(result, &outcome->json);
  if (!result.culprits.empty()) {
    outcome->status = Outcome::Status::kDiffers;
  } else if (result.AreOutputsWrong()) {
    outcome->AddError(absl::FailedPreconditionError(BlameNobody(result)));
  }
}

}  // namespace

void ShowGivenNan(absl::Span<const NamedTensor> inputs, Outcome* outcome) {
  if (outcome->status != Outcome::Status::kOk) return;
  const absl::Status status = CheckGivenNumbers(inputs);
  if (!status.ok()) outcome->AddError(status);
}

void ShowLocated(const LocateResult& result, Outcome* outcome) {
  Show(result, TallyOf(result), outcome);
}

void ShowCulprits(const LocateResult& result, Outcome* outcome) {
  Show(result, "", outcome);
}

void ShowLocatedInNetwork(const NetworkLocated& located, Outcome* outcome) {
  ShowLocated(located.result, outcome);
  outcome->json.Add("unobserved", located.unobserved);
  outcome->json.Add("vanishes_when_observed", located.vanishes);
  if (!located.is_gone) return;
  outcome->AddError(absl::FailedPreconditionError(
      "outputs differ from the reference's, but only when the runtime is given "
      "the file itself: the fault vanishes when the model is written to be "
      "observed, whatever is observed"));
}

void ShowReferee(const std::string& referee, const LocateResult& result,
                 const std::vector<RefereeOpinion>& opinions,
                 Outcome* outcome) {
  if (referee.empty()) return;
  outcome->json.BeginArray("referee");
  for (const RefereeOpinion& opinion : opinions) {
    const Culprit& culprit = result.culprits[opinion.culprit];
    ShowOpinion(referee, result.nodes[culprit.report].key, opinion, outcome);
  }
  outcome->json.EndArray();
}

void ShowOutsideLocated(const OutsideLocated& located, Outcome* outcome) {
  ShowLocated(located.result, outcome);
  outcome->json.BeginArray("referee");
  for (const OutsideAccusation& accusation : located.accusations) {
    const RefereeOpinion opinion{0, accusation.side, accusation.why_not,
                                 accusation.from_reference,
                                 accusation.from_candidate};
    ShowOpinion("interpreter", located.result.nodes[accusation.report].key,
                opinion, outcome);
  }
  outcome->json.EndArray();
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
