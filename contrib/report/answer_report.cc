// An answer as text and document: what was done and why, how it was searched,
// which nodes, layers, builds or samples are to blame. Nodes themselves are
// shown by located_report.cc, models by models_report.cc.
//
// The document has a member for each kind of evidence, and none for evidence
// that there is not, so that a program asks for what it needs by name. The text
// is in the order in which a person reads: what came out, how it was found, the
// nodes, and what was written.

#include "nodewise/report/answer_report.h"

#include <cctype>

#include "absl/strings/str_split.h"
#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/report/archive.h"
#include "nodewise/report/comparison_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The text is cut at these numbers; the document has all.
constexpr size_t kMostSampleRows = 20;
constexpr size_t kMostNamed = 4;
constexpr size_t kMostMasking = 5;

std::vector<std::string> NamesAt(const std::vector<size_t>& places,
                                 const std::vector<std::string>& names) {
  std::vector<std::string> chosen;
  for (const size_t place : places) chosen.push_back(names[place]);
  return chosen;
}

// Verdicts stand behind the names of nodes wherever a table has both.
std::string WithVerdict(const std::string& node, NodeVerdict verdict) {
  return fmt::format("{}, {}", node, NameOf(verdict));
}

// Shows the questions below the line `head`. `what` names the items of which a
// question takes some from the target and all others from the reference.
void ShowQuestions(const std::vector<BisectQuestion>& questions,
                   const std::string& head, const char* what, Report* report) {
  TextTable table;
  table.AddRow({what, "the last of them", "error left", ""});
  AddObjects(report, "questions", questions, [&](const auto& question) {
    table.AddRow({std::to_string(question.taken),
                  question.last.empty() ? "-" : question.last,
                  fmt::format("{:.1f} %", 100 * question.left),
                  question.is_repeated ? "asked again"
                  : question.round > 0
                      ? fmt::format("culprits replaced ({})", question.round)
                      : ""});
    AddMembers(report, "taken", question.taken, "last", question.last, "left",
               question.left, "repeated", question.is_repeated, "round",
               question.round);
  });
  if (questions.empty()) return;
  report->text += head;
  report->text.Add(table, 2);
  report->text += "\n";
}

// The first node that shows an error need not be the first that makes one:
// what comes between may hide it.
std::string MaskingText(const BisectResult& result) {
  std::vector<std::string> before;
  const bool is_certain = result.masking == Masking::kCertain;
  for (size_t i = 0; i < *result.first; ++i) {
    const NodeReport& node = result.located.nodes[i];
    if (node.was_replaced()) continue;
    const bool counts = is_certain ? IsCulpritVerdict(node.verdict)
                                   : node.verdict == NodeVerdict::kInconclusive;
    if (counts) before.push_back(node.key);
  }
  switch (result.masking) {
    case Masking::kNone:
      return "no, every node before it is right on what it read";
    case Masking::kPossible:
      return fmt::format("possible, {} before it could not be judged: {}",
                         CountOf(before.size(), "node"),
                         ListOf(before, kMostMasking));
    case Masking::kCertain:
      return fmt::format(
          "yes, {} before it: at most half of the error comes from there",
          ListOf(before, kMostMasking));
  }
  return "";
}

// How bad a sample is, in the order in which samples are ranked: no outputs at
// all, then numbers that are not finite, then the size of the error.
std::string ErrorText(const RankedSample& ranked) {
  if (!ranked.why_no_outputs.empty()) return "no outputs";
  if (ranked.non_finite > 0) {
    return CountOf(ranked.non_finite, "element") + " not finite";
  }
  if (ranked.error == 0) return "equal";
  return fmt::format("{} {:.2g}", ranked.is_wrong ? "off by" : "within",
                     ranked.error);
}

// Only the worst samples are examined, since each takes a search of its own;
// the others say so, so that they are not taken for right.
std::string FoundText(const RankedSample& ranked) {
  if (!ranked.not_located.ok()) {
    return "not judged: " + std::string(MessageOf(ranked.not_located));
  }
  if (!ranked.located.has_value()) return "not examined";
  std::vector<std::string> named;
  for (const Culprit& culprit : ranked.located->culprits) {
    const NodeReport& node = ranked.located->nodes[culprit.report];
    named.push_back(WithVerdict(node.key, node.verdict));
  }
  return named.empty() ? "no culprit" : ListOf(named, kMostNamed);
}

// All samples are listed, also those that are right: their number and their
// errors say whether the worst one is an exception.
void ShowRanked(const SamplesResult& result,
                const std::vector<std::string>& names, Report* report) {
  TextTable table;
  AddObjects(report, "samples", result.ranked, [&](const auto& ranked) {
    const std::string& name = names[ranked.sample];
    table.AddRow({name, ErrorText(ranked), FoundText(ranked)});
    AddMembers(
        report, "sample", name, "error", ranked.error, "non_finite",
        ranked.non_finite, "wrong", ranked.is_wrong, "why_no_outputs",
        ranked.why_no_outputs, "located", ranked.located.has_value(),
        "not_located",
        OptionalIf(!ranked.not_located.ok(), MessageOf(ranked.not_located)));
    if (!ranked.located.has_value()) return;
    const LocateResult& located = *ranked.located;
    AddObjects(report, "found", located.culprits, [&](const auto& culprit) {
      const NodeReport& node = located.nodes[culprit.report];
      AddMembers(report, "node", node.key, "kind", NameOf(node.verdict));
    });
  });
  AddText(report, "\n{}, the worst first:\n",
          CountOf(result.ranked.size(), "sample"));
  report->text.Add(table, 2, kMostSampleRows);
}

// A verdict that many samples share is not an accident of one set of inputs.
void ShowRecurring(const SamplesResult& result,
                   const std::vector<std::string>& names, Report* report) {
  TextTable table;
  AddObjects(report, "recurring", result.recurring, [&](const auto& verdict) {
    table.AddRow({WithVerdict(verdict.node, verdict.kind),
                  fmt::format("in {} of {}", verdict.samples.size(),
                              CountOf(result.num_located(), "sample"))});
    AddMembers(report, "node", verdict.node, "kind", NameOf(verdict.kind),
               "samples", NamesAt(verdict.samples, names));
  });
  if (result.recurring.empty()) return;
  report->text += "\nrecurs among those that were examined:\n";
  report->text.Add(table, 2, kMostSampleRows);
}

void ShowFailed(const SamplesResult& result,
                const std::vector<std::string>& names, Report* report) {
  TextTable table;
  AddObjects(report, "failed_samples", result.failed, [&](const auto& failed) {
    const std::string& name = names[failed.sample];
    // Messages about files name them already.
    const std::string why(MessageOf(failed.why));
    table.AddRow({why.starts_with(name) ? why : name + ": " + why});
    AddMembers(report, "sample", name, "why", why);
  });
  if (result.failed.empty()) return;
  AddText(report, "\n{} not judged:\n",
          CountOf(result.failed.size(), "sample"));
  report->text.Add(table, 2, kMostSampleRows);
}

// The document has `questions`, `runs`, `nodes_on_path`, and with a first node
// `first_divergence` and `masked`.
void ShowBisected(const BisectResult& result, Report* report) {
  report->text += "\n";
  AddMembers(report, "nodes_on_path", result.nodes_on_path);
  ShowQuestions(
      result.questions,
      fmt::format("bisected {}: {}, {} of the candidate and {} of the "
                  "reference, most of them in part\n",
                  CountOf(result.nodes_on_path, "node"),
                  CountOf(result.questions.size(), "question"),
                  CountOf(result.candidate_runs, "run"), result.reference_runs),
      "nodes of TARGET", report);
  AddObject(report, "runs", "candidate", result.candidate_runs, "reference",
            result.reference_runs);
  if (result.first.has_value()) {
    const NodeReport& first = result.located.nodes[*result.first];
    TextTable table;
    table.AddRow({"first divergence", WithVerdict(first.key, first.verdict)});
    if (!IsCulpritVerdict(first.verdict))
      table.AddRow({"reason", first.reason});
    table.AddRow({"masked before it", MaskingText(result)});
    report->text.Add(table);
    report->text += "\n";
    AddMembers(report, "first_divergence", first.key, "first_divergence_kind",
               NameOf(first.verdict), "masked", NameOf(result.masking));
  } else if (result.located.CountOf(NodeVerdict::kNotDeterministic) > 0) {
    report->text += "not bisected: the same run again made other bits\n\n";
  } else if (result.located.outputs.empty()) {
    report->text += "not bisected: no run comes to its end\n\n";
  }
}

// The document has `questions`, `runs`, `functions`, `guilty` and `in_storage`.
void ShowMixed(const MixResult& result, Report* report) {
  report->text += "\n";
  AddMembers(report, "functions", result.functions.size());
  ShowQuestions(result.questions,
                fmt::format("mixed {} of both builds: {}, {}\n",
                            CountOf(result.functions.size(), "function"),
                            CountOf(result.questions.size(), "question"),
                            CountOf(result.runs, "run")),
                "functions of TARGET", report);
  AddMembers(report, "runs", result.runs, "in_storage", result.is_in_storage);
  AddObjects(report, "guilty", result.guilty, [&](const auto& guilty) {
    const MixedFunction& function = result.functions[guilty.function];
    std::vector<std::string> together;
    for (const size_t other : guilty.together_with) {
      together.push_back(result.functions[other].candidate);
    }
    std::vector<int64_t> nodes;
    for (const NodeId node : function.nodes) nodes.push_back(Index(node));
    AddMembers(report, "function", function.candidate, "reference",
               function.reference, "node_indices", nodes, "together_with",
               together);
  });
  if (!result.is_in_storage) return;
  report->text +=
      "culprit: no function; with all functions of the reference the error is "
      "the same,\nso it is in how TARGET's tensors share memory\n";
}

// Shows which builds were tried, and which is the first bad one. The document
// has `series`, and with a bad one `first_bad`, `last_good` and
// `skipped_between`.
void ShowSeries(const SeriesResult& result,
                const std::vector<std::string>& names, Report* report) {
  TextTable table;
  AddObjects(report, "series", result.answers, [&](const auto& answer) {
    const std::string state(NameOf(answer.state));
    table.AddRow({names[answer.build], state,
                  answer.state == BuildState::kSkipped
                      ? answer.why
                      : fmt::format("outputs off by {:.2g} of their size",
                                    answer.error)});
    AddMembers(report, "build", names[answer.build], "state", state, "error",
               answer.error, "why", IfAny{answer.why});
  });
  AddText(report, "\ntried {} of {}:\n", result.answers.size(),
          CountOf(names.size(), "build"));
  report->text.Add(table, 2);
  report->text += "\n";
  if (!result.first_bad.has_value()) {
    report->text += "no bad build: the last one makes what the first does\n";
    return;
  }
  const std::string& good = names[result.last_good];
  const std::string& bad = names[*result.first_bad];
  const auto skipped = NamesAt(result.skipped_between, names);
  AddMembers(report, "last_good", good, "first_bad", bad, "skipped_between",
             skipped);
  AddText(report, "first bad build: {}, after {}\n", Printable(bad),
          Printable(good));
  if (skipped.empty()) return;
  AddText(
      report,
      "  it may also be one of those between them, which could not run: {}\n",
      ListOf(skipped));
}

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

// The sentence that a reader wants comes first, and then how it is known.
void ShowSearchDescription(const Answer& answer, Report* report) {
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
  AddMembers(report, "search", NameOf(answer.search), "did", answer.did);
}

// A dump has no target that could be described: it is a folder, whose graph is
// shown with the nodes.
void ShowSubject(const Answer& answer, Report* report) {
  const Session& session = answer.target;
  report->notes = session.notes;
  if (session.precision != nullptr) {
    report->notes.push_back(PrecisionLine(*session.precision));
  }
  if (session.dump.empty()) return ShowTarget(session, report);
  AddText(report, "{}: a dump\n", Printable(session.dump));
  AddObject(report, "target", "dump", session.dump);
}

void ShowCost(const LayerCost& cost, Report* report) {
  constexpr double kBytesPerMiB = 1 << 20;
  AddText(
      report,
      "took {:.2f} s and at most {:.1f} MiB of memory (VmHWM less what was "
      "resident before; the largest set of tensors alive at once has {:.1f} "
      "MiB)\n",
      cost.seconds, static_cast<double>(cost.peak_bytes) / kBytesPerMiB,
      static_cast<double>(cost.live_bytes) / kBytesPerMiB);
  AddMembers(report, "seconds", cost.seconds, "peak_bytes", cost.peak_bytes,
             "live_bytes", cost.live_bytes);
}

// How it was searched, in the order in which it was. Each part begins with a
// blank line where a heading of its own follows, and adds its members to the
// document in any case.
void ShowSearch(const Evidence& evidence, Report* report) {
  AddMembers(report, "reference", IfAny{evidence.reference});
  if (evidence.opaque.has_value()) ShowOpaque(*evidence.opaque, report);
  if (evidence.series.has_value()) {
    ShowSeries(*evidence.series, evidence.builds, report);
  }
  if (evidence.differences.has_value()) {
    ShowSideDifferences(*evidence.differences, report);
  }
  if (evidence.samples.has_value()) {
    ShowRanked(*evidence.samples, evidence.sample_names, report);
    ShowRecurring(*evidence.samples, evidence.sample_names, report);
    ShowFailed(*evidence.samples, evidence.sample_names, report);
  }
  if (evidence.cost.has_value()) ShowCost(*evidence.cost, report);
  if (evidence.bisected.has_value()) ShowBisected(*evidence.bisected, report);
  if (evidence.mixed.has_value()) ShowMixed(*evidence.mixed, report);
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

// Shows how much of the search the program itself took: the rest is spent on
// the reference and on comparing.
void ShowProgramRuns(const Evidence& evidence, Report* report) {
  if (!evidence.program_runs.has_value()) return;
  const ProgramRuns& runs = *evidence.program_runs;
  constexpr double kNanosecondsPerSecond = 1e9;
  const double seconds =
      static_cast<double>(runs.nanoseconds) / kNanosecondsPerSecond;
  const double of_seconds =
      static_cast<double>(evidence.search_ns) / kNanosecondsPerSecond;
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
  AddObject(report, "program_runs", "as_read", runs.as_read, "observed",
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

void ShowLocatedNodes(const Answer& answer, size_t most_culprits,
                      Report* report) {
  const Evidence& evidence = answer.evidence;
  const LocateResult& located = *evidence.located;
  // How it was searched ends with a blank line of its own in these cases.
  const bool is_told = evidence.bisected.has_value() ||
                       evidence.mixed.has_value() ||
                       evidence.shown_sample.has_value();
  if (!is_told) report->text += "\n";
  // Where memory is shared wrongly, no function need be named.
  const bool has_none = evidence.mixed.has_value() &&
                        evidence.mixed->is_in_storage &&
                        located.culprits.empty();
  if (!has_none) {
    ShowLocated(located, evidence.judged_all, most_culprits, answer.culprits,
                report);
  }
  if (answer.search == Search::kReplay) ShowNotJudged(located, report);
}

// An answer has one kind of evidence as a rule, and two where one search led to
// another: a series ends with a mixture, and a difference of two models may be
// looked for inside of a program. So each part asks for its own.
void ShowNodes(const Answer& answer, size_t most_culprits, Report* report) {
  const Evidence& evidence = answer.evidence;
  if (evidence.shown_sample.has_value()) {
    report->json.Add("shown_sample", *evidence.shown_sample);
    AddText(report, "\non {}:\n", Printable(*evidence.shown_sample));
  }
  if (evidence.located.has_value()) {
    ShowLocatedNodes(answer, most_culprits, report);
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
    AddMembers(report, "unobserved", *evidence.unobserved,
               "vanishes_when_observed", evidence.vanishes);
    ShowChange(evidence, report);
    ShowProgramRuns(evidence, report);
  }
  if (!evidence.referee.empty()) {
    ShowOpinions(evidence.referee, evidence.opinions, report);
  }
}

// That nothing could be said is an error of the command and not a match.
Report::Status StatusOf(Answer::State state) {
  if (state == Answer::State::kRight) return Report::Status::kOk;
  return state == Answer::State::kWrong ? Report::Status::kDiffers
                                        : Report::Status::kError;
}

// Before a folder is given away, its owner should see what of the network can
// still be read in it.
void ShowKept(const WrittenRepro& repro, Report* report) {
  if (!repro.kept.has_value()) return;
  AddText(report, "\nstill in {} of the network:\n", repro.folder);
  for (const KeptPart& part : *repro.kept) {
    AddText(report, "  {}{}{}: {}\n", part.kind, part.name.empty() ? "" : " ",
            part.name, part.why);
  }
}

}  // namespace

void ShowSideDifferences(const std::vector<SideDifference>& differences,
                         Report* report) {
  TextTable table;
  AddObjects(report, "differences", differences, [&](const auto& row) {
    const std::string what(NameOf(row.what));
    table.AddRow(
        {what, row.name, "found " + row.found, "expected " + row.expected});
    AddMembers(report, "what", what, "name", row.name, "found", row.found,
               "expected", row.expected);
  });
  if (differences.empty()) return;
  AddText(report, "\n{} from the reference, so nothing was run:\n",
          CountOf(differences.size(), "difference"));
  report->text.Add(table, 2, kShownLines);
}

void ShowRepros(const WrittenRepros& written, Report* report) {
  TextTable table;
  AddObjects(report, "repros", written.folders, [&](const auto& repro) {
    table.AddRow({"wrote", repro.folder, repro.shows});
    AddMembers(report, "node", repro.node, "folder", repro.folder, "judged",
               repro.is_judged, "wrong", repro.is_wrong, "failure",
               IfAny{repro.failure}, "fails_alone", repro.fails_alone,
               "earlier_nodes", IfAny{repro.earlier_nodes}, "shrunk",
               repro.is_shrunk, "shrink_runs", repro.shrink_runs);
    if (repro.kept.has_value()) WriteKept(*repro.kept, &report->json);
  });
  report->text.Add(table);
  for (const WrittenRepro& repro : written.folders) ShowKept(repro, report);
  AddNotes(written.notes, report);
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
  ShowSearchDescription(answer, &report);
  ShowSubject(answer, &report);
  AddNotes(answer.notes, &report);
  ShowSearch(answer.evidence, &report);
  ShowNodes(answer, most_culprits, &report);
  if (answer.repros.has_value()) {
    report.text += "\n";
    ShowRepros(*answer.repros, &report);
  }
  const Evidence& evidence = answer.evidence;
  const auto& index =
      evidence.by_value.has_value() ? evidence.by_value->index : evidence.index;
  if (index != nullptr) AddGraph(*index, &report.json);
  report.errors = answer.doubts;
  report.status = StatusOf(answer.state);
  return report;
}

}  // namespace nodewise
