#include "nodewise/report/search_report.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

TextTable TableOf(const std::vector<BisectQuestion>& questions,
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
  return table;
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
    const NodeReport& node = result.located.nodes[i];
    if (node.was_replaced()) continue;
    const bool counts = is_certain ? Accuses(node.verdict)
                                   : node.verdict == NodeVerdict::kInconclusive;
    if (counts) before.push_back(node.key);
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

TextTable FirstTable(const BisectResult& result) {
  const NodeReport& first = result.located.nodes[*result.first];
  TextTable table;
  table.AddRow({"first divergence",
                fmt::format("{}, {}", first.key, NameOf(first.verdict))});
  if (!Accuses(first.verdict)) table.AddRow({"reason", first.reason});
  table.AddRow({"masked before it", MaskingText(result)});
  return table;
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

// --- Samples ---

// More are in the document.
constexpr size_t kMostSampleRows = 20;
constexpr size_t kMostNamed = 4;

std::string ErrorText(const RankedSample& ranked) {
  if (!ranked.why_no_outputs.empty()) return "no outputs";
  if (ranked.non_finite > 0) {
    return CountOf(ranked.non_finite, "element") + " not finite";
  }
  if (ranked.error == 0) return "equal";
  return fmt::format("{} {:.2g}", ranked.is_wrong ? "off by" : "within",
                     ranked.error);
}

std::string FoundText(const RankedSample& ranked) {
  if (!ranked.not_located.ok()) {
    return "not judged: " + std::string(MessageOf(ranked.not_located));
  }
  if (!ranked.located.has_value()) return "not examined";
  std::vector<std::string> named;
  for (const Culprit& culprit : ranked.located->culprits) {
    const NodeReport& node = ranked.located->nodes[culprit.report];
    named.push_back(fmt::format("{}, {}", node.key, NameOf(node.verdict)));
  }
  return named.empty() ? "no culprit" : ListOf(named, kMostNamed);
}

void ShowRanked(const SamplesResult& result,
                const std::vector<std::string>& names, Report* report) {
  report->text += fmt::format("\n{}, the worst first:\n",
                              CountOf(result.ranked.size(), "sample"));
  TextTable table;
  for (const RankedSample& ranked : result.ranked) {
    table.AddRow({names[ranked.sample], ErrorText(ranked), FoundText(ranked)});
  }
  report->text.Add(table, 2, kMostSampleRows);
}

void ShowRecurring(const SamplesResult& result, Report* report) {
  if (result.recurring.empty()) return;
  TextTable table;
  for (const RecurringVerdict& verdict : result.recurring) {
    table.AddRow({fmt::format("{}, {}", verdict.node, NameOf(verdict.kind)),
                  fmt::format("in {} of {}", verdict.samples.size(),
                              CountOf(result.num_located(), "sample"))});
  }
  report->text += "\nrecurs among those that were examined:\n";
  report->text.Add(table, 2, kMostSampleRows);
}

void ShowFailed(const SamplesResult& result,
                const std::vector<std::string>& names, Report* report) {
  if (result.failed.empty()) return;
  report->text += fmt::format("\n{} not judged:\n",
                              CountOf(result.failed.size(), "sample"));
  TextTable table;
  for (const FailedSample& failed : result.failed) {
    const std::string& name = names[failed.sample];
    // Messages about files name them already.
    const std::string why(MessageOf(failed.why));
    table.AddRow({why.starts_with(name) ? why : name + ": " + why});
  }
  report->text.Add(table, 2, kMostSampleRows);
}

void AddRanked(const RankedSample& ranked, const std::string& name,
               JsonWriter* json) {
  json->BeginObject();
  json->Add("sample", name);
  json->Add("error", ranked.error);
  json->Add("non_finite", ranked.non_finite);
  json->Add("wrong", ranked.is_wrong);
  json->Add("why_no_outputs", ranked.why_no_outputs);
  json->Add("located", ranked.located.has_value());
  if (!ranked.not_located.ok()) {
    json->Add("not_located", MessageOf(ranked.not_located));
  }
  if (ranked.located.has_value()) {
    json->BeginArray("found");
    for (const Culprit& culprit : ranked.located->culprits) {
      const NodeReport& node = ranked.located->nodes[culprit.report];
      json->BeginObject();
      json->Add("node", node.key);
      json->Add("kind", NameOf(node.verdict));
      json->EndObject();
    }
    json->EndArray();
  }
  json->EndObject();
}

void AddSamples(const SamplesResult& result,
                const std::vector<std::string>& names, JsonWriter* json) {
  json->BeginArray("samples");
  for (const RankedSample& ranked : result.ranked) {
    AddRanked(ranked, names[ranked.sample], json);
  }
  json->EndArray();
  json->BeginArray("recurring");
  for (const RecurringVerdict& verdict : result.recurring) {
    std::vector<std::string> recurs;
    for (const size_t sample : verdict.samples) recurs.push_back(names[sample]);
    json->BeginObject();
    json->Add("node", verdict.node);
    json->Add("kind", NameOf(verdict.kind));
    json->Add("samples", recurs);
    json->EndObject();
  }
  json->EndArray();
  json->BeginArray("failed_samples");
  for (const FailedSample& failed : result.failed) {
    json->BeginObject();
    json->Add("sample", names[failed.sample]);
    json->Add("why", MessageOf(failed.why));
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

void ShowBisected(const BisectResult& result, Report* report) {
  if (!result.questions.empty()) {
    report->text += fmt::format(
        "bisected {}: {}, {} of the candidate and {} of the reference, most of "
        "them in part\n",
        CountOf(result.nodes_on_path, "node"),
        CountOf(result.questions.size(), "question"),
        CountOf(result.candidate_runs, "run"), result.reference_runs);
    report->text.Add(TableOf(result.questions, "nodes of TARGET"), 2);
    report->text += "\n";
  }
  if (result.first.has_value()) {
    report->text.Add(FirstTable(result));
    report->text += "\n";
  } else if (result.located.CountOf(NodeVerdict::kNotDeterministic) > 0) {
    report->text += "not bisected: the same run again made other bits\n\n";
  } else if (result.located.outputs.empty()) {
    report->text += "not bisected: no run comes to its end\n\n";
  }
  AddFirst(result, &report->json);
}

void ShowMixed(const MixResult& result, Report* report) {
  if (!result.questions.empty()) {
    report->text += fmt::format("mixed {} of both builds: {}, {}\n",
                                CountOf(result.functions.size(), "function"),
                                CountOf(result.questions.size(), "question"),
                                CountOf(result.runs, "run"));
    report->text.Add(TableOf(result.questions, "functions of TARGET"), 2);
    report->text += "\n";
  }
  AddMixed(result, &report->json);
  if (!result.is_in_storage) return;
  report->text +=
      "culprit: no function; with all functions of the reference the error is "
      "the same,\nso it is in how TARGET's tensors share memory\n";
}

void ShowSeries(const SeriesResult& result,
                const std::vector<std::string>& names, Report* report) {
  TextTable table;
  JsonWriter& json = report->json;
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
  report->text += fmt::format("tried {} of {}:\n", result.answers.size(),
                              CountOf(names.size(), "build"));
  report->text.Add(table, 2);
  report->text += "\n";
  if (!result.first_bad.has_value()) {
    report->text += "no bad build: the last one makes what the first does\n";
    return;
  }
  json.Add("last_good", names[result.last_good]);
  json.Add("first_bad", names[*result.first_bad]);
  std::vector<std::string> skipped;
  for (const size_t build : result.skipped_between) {
    skipped.push_back(names[build]);
  }
  json.Add("skipped_between", skipped);
  report->text += fmt::format("first bad build: {}, after {}\n",
                              Printable(names[*result.first_bad]),
                              Printable(names[result.last_good]));
  if (skipped.empty()) return;
  report->text += fmt::format(
      "  it may also be one of those between them, which could not run: {}\n",
      ListOf(skipped));
}

void ShowSamples(const SamplesResult& result,
                 const std::vector<std::string>& names, Report* report) {
  ShowRanked(result, names, report);
  ShowRecurring(result, report);
  ShowFailed(result, names, report);
  AddSamples(result, names, &report->json);
}

}  // namespace nodewise
