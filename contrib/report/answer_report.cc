#include "nodewise/report/answer_report.h"

#include <cctype>
#include <string>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/diagnose/sentence.h"
#include "nodewise/report/comparison_report.h"
#include "nodewise/report/graph_report.h"
#include "nodewise/report/located_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/models_report.h"
#include "nodewise/report/search_report.h"
#include "nodewise/report/source_report.h"
#include "nodewise/report/target_report.h"
#include "nodewise/report/value_report.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/words.h"

namespace nodewise {
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
  report->json.Add("search", NameOf(answer.search));
  report->json.Add("did", answer.did);
}

void ShowSubject(const Answer& answer, Report* report) {
  const Session& session = answer.target;
  report->notes = session.notes;
  if (session.precision != nullptr) {
    report->notes.push_back(PrecisionLine(*session.precision));
  }
  if (session.dump.empty()) return ShowTarget(session, report);
  report->text += fmt::format("{}: a dump\n", Printable(session.dump));
  report->json.BeginObject("target");
  report->json.Add("dump", session.dump);
  report->json.EndObject();
}

void ShowCost(const LayerCost& cost, Report* report) {
  report->text += fmt::format(
      "took {:.2f} s and at most {:.1f} MiB of memory (VmHWM less what was "
      "resident before; the largest set of tensors alive at once has {:.1f} "
      "MiB)\n",
      cost.seconds, static_cast<double>(cost.peak_bytes) / kBytesPerMiB,
      static_cast<double>(cost.live_bytes) / kBytesPerMiB);
  report->json.Add("seconds", cost.seconds);
  report->json.Add("peak_bytes", cost.peak_bytes);
  report->json.Add("live_bytes", cost.live_bytes);
}

// How it was searched, in the order in which it was.
void ShowSearch(const Evidence& evidence, Report* report) {
  if (!evidence.reference.empty()) {
    report->json.Add("reference", evidence.reference);
  }
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
  report->text +=
      fmt::format("the program ran {} for {:.2f} s of {:.2f} s: {}\n",
                  CountOf(runs.count(), "time"), seconds, of_seconds,
                  fmt::join(parts, ", "));
  report->json.BeginObject("program_runs");
  report->json.Add("as_read", runs.as_read);
  report->json.Add("observed", runs.observed);
  report->json.Add("changed", runs.changed);
  report->json.Add("seconds", seconds);
  report->json.Add("of_seconds", of_seconds);
  report->json.EndObject();
}

// Layers that are to blame between two models, as other searches name nodes.
void AddLayers(const std::vector<NamedCulprit>& culprits, JsonWriter* json) {
  json->BeginArray("culprits");
  for (const NamedCulprit& culprit : culprits) {
    json->BeginObject();
    json->Add("node", culprit.finding.node()->key);
    json->Add("kind", culprit.kind);
    json->Add("source_nodes", culprit.operations);
    AddSources(culprit.source, json);
    json->BeginObject("evidence");
    json->Add("reason", culprit.finding.found);
    json->EndObject();
    json->EndObject();
  }
  json->EndArray();
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
    report->text +=
        fmt::format("\non {}:\n", Printable(*evidence.shown_sample));
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
    report->json.Add("unobserved", *evidence.unobserved);
    report->json.Add("vanishes_when_observed", evidence.vanishes);
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
  report->text += fmt::format("\nstill in {} of the network:\n", repro.folder);
  for (const KeptPart& part : *repro.kept) {
    report->text +=
        fmt::format("  {}{}{}: {}\n", part.kind, part.name.empty() ? "" : " ",
                    part.name, part.why);
  }
}

}  // namespace

void ShowRepros(const WrittenRepros& written, Report* report) {
  TextTable table;
  report->json.BeginArray("repros");
  for (const WrittenRepro& repro : written.folders) {
    table.AddRow({"wrote", repro.folder, repro.shows});
    report->json.BeginObject();
    report->json.Add("node", repro.node);
    report->json.Add("folder", repro.folder);
    report->json.Add("judged", repro.is_judged);
    report->json.Add("wrong", repro.is_wrong);
    if (!repro.failure.empty()) report->json.Add("failure", repro.failure);
    if (repro.fails_alone.has_value()) {
      report->json.Add("fails_alone", *repro.fails_alone);
    }
    if (!repro.earlier_nodes.empty()) {
      report->json.Add("earlier_nodes", repro.earlier_nodes);
    }
    report->json.Add("shrunk", repro.is_shrunk);
    report->json.Add("shrink_runs", repro.shrink_runs);
    if (repro.kept.has_value()) WriteKept(*repro.kept, &report->json);
    report->json.EndObject();
  }
  report->json.EndArray();
  report->text.Add(table);
  for (const WrittenRepro& repro : written.folders) ShowKept(repro, report);
  report->notes.insert(report->notes.end(), written.notes.begin(),
                       written.notes.end());
  if (!written.kept_inputs.has_value()) return;
  for (const std::string& path : *written.kept_inputs) {
    report->text += fmt::format(
        "wrote  {}  the inputs that show what the given ones do not\n", path);
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
