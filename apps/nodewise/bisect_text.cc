#include "apps/nodewise/bisect_text.h"

#include <algorithm>

#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string QuestionsText(const std::vector<BisectQuestion>& questions,
                          std::string_view what) {
  TextTable table;
  table.AddRow({std::string(what), "the last of them", "error left", ""});
  for (const BisectQuestion& question : questions) {
    table.AddRow({std::to_string(question.taken),
                  question.last.empty() ? "-" : question.last,
                  fmt::format("{:.1f} %", 100 * question.left),
                  question.is_repeated ? "asked again"
                  : question.round > 0
                      ? fmt::format("culprits replaced ({})", question.round)
                      : ""});
  }
  return table.ToString(2, 0, LineWidth());
}

void AddQuestions(const std::vector<BisectQuestion>& questions,
                  JsonWriter* json) {
  json->BeginArray("questions");
  for (const BisectQuestion& question : questions) {
    json->BeginObject();
    json->Add("taken", uint64_t{question.taken});
    json->Add("last", question.last);
    json->Add("left", question.left);
    json->Add("repeated", question.is_repeated);
    json->Add("round", uint64_t{question.round});
    json->EndObject();
  }
  json->EndArray();
}

std::string MaskingText(const BisectResult& result) {
  std::vector<std::string> before;
  const bool is_certain = result.masking == Masking::kCertain;
  for (size_t i = 0; i < *result.first; ++i) {
    const NodeReport& report = result.located.nodes[i];
    if (report.was_replaced()) continue;
    const bool counts = is_certain
                            ? Accuses(report.verdict)
                            : report.verdict == NodeVerdict::kInconclusive;
    if (counts) before.push_back(report.key);
  }
  switch (result.masking) {
    case Masking::kNone:
      return "no, every node before it is right on what it read";
    case Masking::kPossible:
      return fmt::format("possible, {} before it could not be judged: {}",
                         CountOf(before.size(), "node"), ListOf(before, 5));
    case Masking::kCertain:
      return fmt::format(
          "yes, {} before it: at most half of the error comes from there",
          ListOf(before, 5));
  }
  return "";
}

std::string FirstText(const BisectResult& result) {
  const NodeReport& first = result.located.nodes[*result.first];
  TextTable table;
  table.AddRow({"first divergence",
                fmt::format("{}, {}", first.key, NameOf(first.verdict))});
  if (!Accuses(first.verdict)) table.AddRow({"reason", first.reason});
  table.AddRow({"masked before it", MaskingText(result)});
  return table.ToString(0, 0);
}

void AddFirst(const BisectResult& result, JsonWriter* json) {
  json->Add("nodes_on_path", uint64_t{result.nodes_on_path});
  AddQuestions(result.questions, json);
  json->BeginObject("runs");
  json->Add("candidate", uint64_t{result.candidate_runs});
  json->Add("reference", uint64_t{result.reference_runs});
  json->EndObject();
  if (!result.first.has_value()) return;
  const NodeReport& first = result.located.nodes[*result.first];
  json->Add("first_divergence", first.key);
  json->Add("first_divergence_kind", NameOf(first.verdict));
  json->Add("masked", NameOf(result.masking));
}

std::string NameOfFunction(const MixResult& result, size_t function) {
  return result.functions[function].candidate;
}

void AddMixed(const MixResult& result, JsonWriter* json) {
  json->Add("functions", uint64_t{result.functions.size()});
  AddQuestions(result.questions, json);
  json->Add("runs", uint64_t{result.runs});
  json->Add("in_storage", result.is_in_storage);
  json->BeginArray("guilty");
  for (const GuiltyFunction& guilty : result.guilty) {
    const MixedFunction& function = result.functions[guilty.function];
    std::vector<std::string> together;
    for (const size_t other : guilty.together_with) {
      together.push_back(NameOfFunction(result, other));
    }
    std::vector<int64_t> nodes;
    for (const NodeId node : function.nodes) nodes.push_back(Index(node));
    json->BeginObject();
    json->Add("function", function.candidate);
    json->Add("reference", function.reference);
    json->Add("node_indices", nodes);
    json->Add("together_with", together);
    json->EndObject();
  }
  json->EndArray();
}

std::string SeriesLine(const BuildAnswer& answer) {
  if (answer.state == BuildState::kSkipped) return answer.why;
  return fmt::format("outputs off by {:.2g} of their size", answer.error);
}

}  // namespace

void ShowBisected(const BisectResult& result, Outcome* outcome) {
  if (!result.questions.empty()) {
    outcome->text += fmt::format(
        "bisected {}: {}, {} of the candidate and {} of the reference, most of "
        "them in part\n{}\n",
        CountOf(result.nodes_on_path, "node"),
        CountOf(result.questions.size(), "question"),
        CountOf(result.candidate_runs, "run"), result.reference_runs,
        QuestionsText(result.questions, "nodes of TARGET"));
  }
  if (result.first.has_value()) {
    outcome->text += FirstText(result) + "\n";
  } else if (result.located.CountOf(NodeVerdict::kNotDeterministic) > 0) {
    outcome->text += "not bisected: the same run again made other bits\n\n";
  } else if (result.located.outputs.empty()) {
    outcome->text += "not bisected: no run comes to its end\n\n";
  }
  AddFirst(result, &outcome->json);
  ShowCulprits(result.located, outcome);
}

void ShowMixed(const MixResult& result, Outcome* outcome) {
  if (!result.questions.empty()) {
    outcome->text +=
        fmt::format("mixed {} of both builds: {}, {}\n{}\n",
                    CountOf(result.functions.size(), "function"),
                    CountOf(result.questions.size(), "question"),
                    CountOf(result.runs, "run"),
                    QuestionsText(result.questions, "functions of TARGET"));
  }
  AddMixed(result, &outcome->json);
  if (!result.is_in_storage) return ShowCulprits(result.located, outcome);
  outcome->text +=
      "culprit: no function; with all functions of the reference the error is "
      "the same,\nso it is in how TARGET's tensors share memory\n";
  outcome->status = Outcome::Status::kDiffers;
  if (!result.located.culprits.empty()) ShowCulprits(result.located, outcome);
}

void ShowSeries(const SeriesResult& result,
                const std::vector<std::string>& names, Outcome* outcome) {
  TextTable table;
  JsonWriter& json = outcome->json;
  json.BeginArray("series");
  for (const BuildAnswer& answer : result.answers) {
    const std::string state(NameOf(answer.state));
    table.AddRow({names[answer.build], state, SeriesLine(answer)});
    json.BeginObject();
    json.Add("build", names[answer.build]);
    json.Add("state", state);
    json.Add("error", answer.error);
    if (!answer.why.empty()) json.Add("why", answer.why);
    json.EndObject();
  }
  json.EndArray();
  outcome->text += fmt::format("tried {} of {}:\n{}\n", result.answers.size(),
                               CountOf(names.size(), "build"),
                               table.ToString(2, 0, LineWidth()));
  if (!result.first_bad.has_value()) {
    outcome->text += "no bad build: the last one makes what the first does\n";
    return;
  }
  outcome->status = Outcome::Status::kDiffers;
  json.Add("last_good", names[result.last_good]);
  json.Add("first_bad", names[*result.first_bad]);
  std::vector<std::string> skipped;
  for (const size_t build : result.skipped_between) {
    skipped.push_back(names[build]);
  }
  json.Add("skipped_between", skipped);
  outcome->text += fmt::format("first bad build: {}, after {}\n",
                               Printable(names[*result.first_bad]),
                               Printable(names[result.last_good]));
  if (skipped.empty()) return;
  outcome->text += fmt::format(
      "  it may also be one of those between them, which could not run: {}\n",
      ListOf(skipped));
}

}  // namespace nodewise
