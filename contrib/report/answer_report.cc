#include "nodewise/report/answer_report.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "absl/strings/str_split.h"
#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/report/archive.h"
#include "nodewise/report/comparison_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
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
  AddObjects(json, "questions", questions, [&](const auto& question) {
    AddMembers(json, "taken", question.taken, "last", question.last, "left",
               question.left, "repeated", question.is_repeated, "round",
               question.round);
  });
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
  AddObject(json, "runs", "candidate", result.candidate_runs, "reference",
            result.reference_runs);
  if (!result.first.has_value()) return;
  const NodeReport& first = result.located.nodes[*result.first];
  AddMembers(json, "first_divergence", first.key, "first_divergence_kind",
             NameOf(first.verdict), "masked", NameOf(result.masking));
}

std::string NameOfFunction(const MixResult& result, size_t function) {
  return result.functions[function].candidate;
}

void AddMixed(const MixResult& result, JsonWriter* json) {
  json->Add("functions", uint64_t{result.functions.size()});
  AddQuestions(result.questions, json);
  AddMembers(json, "runs", result.runs, "in_storage", result.is_in_storage);
  AddObjects(json, "guilty", result.guilty, [&](const auto& guilty) {
    const MixedFunction& function = result.functions[guilty.function];
    std::vector<std::string> together;
    for (const size_t other : guilty.together_with) {
      together.push_back(NameOfFunction(result, other));
    }
    std::vector<int64_t> nodes;
    for (const NodeId node : function.nodes) nodes.push_back(Index(node));
    AddMembers(json, "function", function.candidate, "reference",
               function.reference, "node_indices", nodes, "together_with",
               together);
  });
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
  AddText(report, "\n{}, the worst first:\n",
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
  AddText(report, "\n{} not judged:\n",
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
  AddMembers(json, "sample", name, "error", ranked.error, "non_finite",
             ranked.non_finite, "wrong", ranked.is_wrong, "why_no_outputs",
             ranked.why_no_outputs, "located", ranked.located.has_value());
  if (!ranked.not_located.ok()) {
    json->Add("not_located", MessageOf(ranked.not_located));
  }
  if (ranked.located.has_value()) {
    AddObjects(
        json, "found", ranked.located->culprits, [&](const auto& culprit) {
          const NodeReport& node = ranked.located->nodes[culprit.report];
          AddMembers(json, "node", node.key, "kind", NameOf(node.verdict));
        });
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
  AddObjects(json, "recurring", result.recurring, [&](const auto& verdict) {
    std::vector<std::string> recurs;
    for (const size_t sample : verdict.samples) recurs.push_back(names[sample]);
    AddMembers(json, "node", verdict.node, "kind", NameOf(verdict.kind),
               "samples", recurs);
  });
  AddObjects(json, "failed_samples", result.failed, [&](const auto& failed) {
    AddMembers(json, "sample", names[failed.sample], "why",
               MessageOf(failed.why));
  });
}

}  // namespace

void ShowBisected(const BisectResult& result, Report* report) {
  if (!result.questions.empty()) {
    AddText(
        report,
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
    AddText(report, "mixed {} of both builds: {}, {}\n",
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
  AddObjects(&json, "series", result.answers, [&](const auto& answer) {
    const std::string state(NameOf(answer.state));
    table.AddRow({names[answer.build], state, SeriesLine(answer)});
    AddMembers(&json, "build", names[answer.build], "state", state, "error",
               answer.error, "why", IfAny{answer.why});
  });
  AddText(report, "tried {} of {}:\n", result.answers.size(),
          CountOf(names.size(), "build"));
  report->text.Add(table, 2);
  report->text += "\n";
  if (!result.first_bad.has_value()) {
    report->text += "no bad build: the last one makes what the first does\n";
    return;
  }
  AddMembers(&json, "last_good", names[result.last_good], "first_bad",
             names[*result.first_bad]);
  std::vector<std::string> skipped;
  for (const size_t build : result.skipped_between) {
    skipped.push_back(names[build]);
  }
  json.Add("skipped_between", skipped);
  AddText(report, "first bad build: {}, after {}\n",
          Printable(names[*result.first_bad]),
          Printable(names[result.last_good]));
  if (skipped.empty()) return;
  AddText(
      report,
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

namespace {

constexpr double kBytesPerMiB = 1 << 20;

// Returns the words in lines that fit a usual terminal.
std::string Wrapped(const std::string& words) {
  constexpr size_t kLineWidth = 79;
  std::string lines;
  size_t used = 0;
  for (const absl::string_view word : absl::StrSplit(words, ' ')) {
    if (used > 0 && used + 1 + word.size() > kLineWidth) {
      lines += '\n';
      used = 0;
    }
    if (used > 0) lines += ' ';
    lines += std::string(word);
    used += word.size() + (used > 0 ? 1 : 0);
  }
  return lines + "\n";
}

void ShowWhatWasDone(const Answer& answer, Report* report) {
  const std::string said = SentenceOf(answer);
  if (!said.empty()) {
    report->text += Wrapped(said) + "\n";
    report->json.Add("said", said);
  }
  std::string sentence = answer.did;
  if (!sentence.empty()) {
    sentence[0] = static_cast<char>(std::toupper(sentence[0]));
  }
  report->text += Wrapped(sentence + ".");
  AddMembers(&report->json, "search", NameOf(answer.search), "did", answer.did);
}

void ShowSubject(const Answer& answer, Report* report) {
  const Session& session = answer.target;
  report->notes = session.notes;
  if (session.precision != nullptr) {
    report->notes.push_back(PrecisionLine(*session.precision));
  }
  if (session.dump.empty()) return ShowTarget(session, report);
  AddText(report, "{}: a dump\n", Printable(session.dump));
  AddObject(&report->json, "target", "dump", session.dump);
}

void ShowCost(const LayerCost& cost, Report* report) {
  AddText(
      report,
      "took {:.2f} s and at most {:.1f} MiB of memory (VmHWM less what was "
      "resident before; the largest set of tensors alive at once has {:.1f} "
      "MiB)\n",
      cost.seconds, static_cast<double>(cost.peak_bytes) / kBytesPerMiB,
      static_cast<double>(cost.live_bytes) / kBytesPerMiB);
  AddMembers(&report->json, "seconds", cost.seconds, "peak_bytes",
             cost.peak_bytes, "live_bytes", cost.live_bytes);
}

// How it was searched, in the order in which it was.
void ShowSearch(const Evidence& evidence, Report* report) {
  AddMembers(&report->json, "reference", IfAny{evidence.reference});
  if (evidence.opaque.has_value()) ShowOpaque(*evidence.opaque, report);
  if (evidence.series.has_value()) {
    report->text += "\n";
    ShowSeries(*evidence.series, evidence.builds, report);
  }
  if (evidence.differences.has_value()) {
    ShowSideDifferences(*evidence.differences, report);
  }
  if (evidence.samples.has_value()) {
    ShowSamples(*evidence.samples, evidence.sample_names, report);
  }
  if (evidence.cost.has_value()) ShowCost(*evidence.cost, report);
  if (evidence.bisected.has_value()) {
    report->text += "\n";
    ShowBisected(*evidence.bisected, report);
  }
  if (evidence.mixed.has_value()) {
    report->text += "\n";
    ShowMixed(*evidence.mixed, report);
  }
}

// Whether a runtime does the same while it is looked into.
void ShowChange(const Evidence& evidence, Report* report) {
  if (!evidence.change.has_value()) return;
  report->json.Add("change_when_observed", *evidence.change);
  report->text +=
      *evidence.change == 0
          ? "looking inside: the outputs are those of the file as it is\n"
          : fmt::format(
                "looking inside changes output {} by {:.2g} of its size\n",
                Printable(evidence.most_changed), *evidence.change);
}

// What the search would take if nothing but the program ran.
void ShowProgramRuns(const Evidence& evidence, Report* report) {
  if (!evidence.program_runs.has_value()) return;
  const ProgramRuns& runs = *evidence.program_runs;
  const auto seconds_of = [](int64_t nanoseconds) {
    constexpr double kNanosecondsPerSecond = 1e9;
    return static_cast<double>(nanoseconds) / kNanosecondsPerSecond;
  };
  const double seconds = seconds_of(runs.nanoseconds);
  const double of_seconds = seconds_of(evidence.search_ns);
  const std::pair<uint64_t, const char*> kinds[] = {
      {runs.as_read, "the model as it is"},
      {runs.observed, "more outputs"},
      {runs.changed, "values exchanged or a shorter model"}};
  std::vector<std::string> parts;
  for (const auto& [count, kind] : kinds) {
    if (count > 0) parts.push_back(fmt::format("{} with {}", count, kind));
  }
  AddText(report, "the program ran {} for {:.2f} s of {:.2f} s: {}\n",
          CountOf(runs.count(), "time"), seconds, of_seconds,
          fmt::join(parts, ", "));
  AddObject(&report->json, "program_runs", "as_read", runs.as_read, "observed",
            runs.observed, "changed", runs.changed, "seconds", seconds,
            "of_seconds", of_seconds);
}

// Layers that are to blame between two models, as other searches name nodes.
void AddLayers(const std::vector<NamedCulprit>& culprits, JsonWriter* json) {
  AddObjects(json, "culprits", culprits, [&](const auto& culprit) {
    AddMembers(json, "node", culprit.finding.node()->key, "kind", culprit.kind,
               "source_nodes", culprit.operations);
    AddSources(culprit.source, json);
    AddObject(json, "evidence", "reason", culprit.finding.found);
  });
}

// Where the layers that are to blame are from, below the table of all.
void ShowLayerSources(const std::vector<NamedCulprit>& culprits,
                      size_t most_culprits, ReportText* text) {
  TextTable table;
  for (const NamedCulprit& culprit : culprits) {
    for (const std::string& source : TextsOf(culprit.source)) {
      table.AddRow({culprit.finding.node()->key, "from", source});
    }
  }
  if (table.rows().empty()) return;
  *text += "\n";
  text->Add(table, 2, most_culprits);
}

void ShowNodes(const Answer& answer, size_t most_culprits, Report* report) {
  const Evidence& evidence = answer.evidence;
  if (evidence.shown_sample.has_value()) {
    report->json.Add("shown_sample", *evidence.shown_sample);
    AddText(report, "\non {}:\n", Printable(*evidence.shown_sample));
  }
  if (evidence.located.has_value()) {
    const bool is_told = evidence.bisected.has_value() ||
                         evidence.mixed.has_value() ||
                         evidence.shown_sample.has_value();
    if (!is_told) report->text += "\n";
    // Where memory is shared wrongly, no function need be named.
    const bool has_none = evidence.mixed.has_value() &&
                          evidence.mixed->is_in_storage &&
                          evidence.located->culprits.empty();
    if (!has_none) {
      ShowLocated(*evidence.located, evidence.judged_all, most_culprits,
                  answer.culprits, report);
    }
    if (answer.search == Search::kReplay) {
      ShowNotJudged(*evidence.located, report);
    }
  }
  if (evidence.dumps.has_value()) {
    report->text += "\n";
    ShowComparison(evidence.dumps->comparison, &evidence.dumps->where,
                   {kShownLines}, report);
  }
  if (evidence.models.has_value()) {
    AddLayers(answer.culprits, &report->json);
    ShowModels(*evidence.models, most_culprits, report);
    ShowLayerSources(answer.culprits, most_culprits, &report->text);
  }
  if (evidence.by_value.has_value()) {
    report->json.Add("model", evidence.by_value->model);
    ShowByValue(*evidence.by_value, answer.culprits, report);
  }
  if (evidence.unobserved.has_value()) {
    AddMembers(&report->json, "unobserved", *evidence.unobserved,
               "vanishes_when_observed", evidence.vanishes);
    ShowChange(evidence, report);
    ShowProgramRuns(evidence, report);
  }
  if (!evidence.referee.empty()) {
    ShowOpinions(evidence.referee, evidence.opinions, report);
  }
}

Report::Status StatusOf(Answer::State state) {
  switch (state) {
    case Answer::State::kRight:
      return Report::Status::kOk;
    case Answer::State::kWrong:
      return Report::Status::kDiffers;
    case Answer::State::kUnknown:
      return Report::Status::kError;
  }
  return Report::Status::kError;
}

void AddGraph(const Evidence& evidence, JsonWriter* json) {
  if (evidence.by_value.has_value()) {
    AddGraph(*evidence.by_value->index, json);
  } else if (evidence.index != nullptr) {
    AddGraph(*evidence.index, json);
  }
}

void ShowKept(const WrittenRepro& repro, Report* report) {
  if (!repro.kept.has_value()) return;
  AddText(report, "\nstill in {} of the network:\n", repro.folder);
  for (const KeptPart& part : *repro.kept) {
    AddText(report, "  {}{}{}: {}\n", part.kind, part.name.empty() ? "" : " ",
            part.name, part.why);
  }
}

}  // namespace

void ShowRepros(const WrittenRepros& written, Report* report) {
  TextTable table;
  AddObjects(&report->json, "repros", written.folders, [&](const auto& repro) {
    table.AddRow({"wrote", repro.folder, repro.shows});
    AddMembers(&report->json, "node", repro.node, "folder", repro.folder,
               "judged", repro.is_judged, "wrong", repro.is_wrong, "failure",
               IfAny{repro.failure}, "fails_alone", repro.fails_alone,
               "earlier_nodes", IfAny{repro.earlier_nodes}, "shrunk",
               repro.is_shrunk, "shrink_runs", repro.shrink_runs);
    if (repro.kept.has_value()) WriteKept(*repro.kept, &report->json);
  });
  report->text.Add(table);
  for (const WrittenRepro& repro : written.folders) ShowKept(repro, report);
  report->notes.insert(report->notes.end(), written.notes.begin(),
                       written.notes.end());
  if (!written.kept_inputs.has_value()) return;
  for (const std::string& path : *written.kept_inputs) {
    AddText(report,
            "wrote  {}  the inputs that show what the given ones do not\n",
            path);
  }
  report->json.Add("kept_inputs", *written.kept_inputs);
}

Report ReportOf(const Answer& answer, size_t most_culprits) {
  Report report;
  ShowWhatWasDone(answer, &report);
  ShowSubject(answer, &report);
  report.notes.insert(report.notes.end(), answer.notes.begin(),
                      answer.notes.end());
  ShowSearch(answer.evidence, &report);
  ShowNodes(answer, most_culprits, &report);
  if (answer.repros.has_value()) {
    report.text += "\n";
    ShowRepros(*answer.repros, &report);
  }
  AddGraph(answer.evidence, &report.json);
  report.errors = answer.doubts;
  report.status = StatusOf(answer.state);
  return report;
}

}  // namespace nodewise
