#include "nodewise/autotest/autotest_report.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"
#include "nodewise/autotest/check_adapter.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A table of mostly zeros is hard to read.
std::string Counted(uint64_t count) {
  return count == 0 ? "" : fmt::format("{}", count);
}

// A program that cannot even be started has no fault either.
// So a run that compared nothing must not end as one that found nothing: the
// first reason that is known is told.
absl::Status CheckCompared(const AutotestResult& result,
                           const std::string& candidate,
                           const AutotestOptions& options) {
  const uint64_t compared = result.CountOf(CaseOutcome::kAgrees) +
                            result.CountOf(CaseOutcome::kInconclusive);
  // A part of a small run may have no case.
  if (compared > 0 || (result.runs == 0 && options.shards > 1)) {
    return absl::OkStatus();
  }
  std::string why;
  for (const auto& [name, count] : result.operators) {
    why = count.why_refused.empty() ? count.why_no_case : count.why_refused;
    if (!why.empty()) break;
  }
  why = why.substr(0, why.find('\n'));
  return FailedPrecondition(
      "nothing was compared: {} refused {} of {} sets of numbers{}{}",
      candidate, result.CountOf(CaseOutcome::kCandidateRefuses), result.runs,
      why.empty() ? "" : ", first: ", why);
}

// All outcomes are in the document; the table has those that are looked for.
// Why nothing was drawn counts for an operator without any case, else why the
// candidate refuses: the first line, since programs tell their stack behind it.
void ShowOperators(const AutotestResult& result, Report* report) {
  TextTable table;
  table.AddRow({"Operator", "Cases", "Agrees", "Inconclusive", "Wrong",
                "Refuses", "Reference refuses", "No case, or why refused"});
  report->json.BeginArray("operators");
  for (const auto& [name, counted] : result.operators) {
    const OperatorCount& count = counted;
    const auto of = [&count](CaseOutcome one) {
      return Counted(count.outcomes[static_cast<size_t>(one)]);
    };
    // The outcomes from kMismatch on are findings.
    const uint64_t wrong = std::accumulate(
        count.outcomes + static_cast<size_t>(CaseOutcome::kMismatch),
        std::end(count.outcomes), uint64_t{0});
    std::string why = count.why_no_case.empty() || count.configurations > 0
                          ? count.why_refused
                          : count.why_no_case;
    why = why.substr(0, why.find('\n'));
    table.AddRow({name, Counted(count.configurations), of(CaseOutcome::kAgrees),
                  of(CaseOutcome::kInconclusive), Counted(wrong),
                  of(CaseOutcome::kCandidateRefuses),
                  of(CaseOutcome::kReferenceRefuses), why});
    report->json.BeginObject();
    report->json.Add("operator", name);
    report->json.Add("configurations", count.configurations);
    report->json.Add("refused_draws", count.refused_draws);
    for (size_t i = 0; i < kCaseOutcomes; ++i) {
      std::string key(NameOf(static_cast<CaseOutcome>(i)));
      std::ranges::replace(key, ' ', '_');
      report->json.Add(key, count.outcomes[i]);
    }
    report->json.EndObject();
  }
  report->json.EndArray();
  report->text.Add(table, 0, 0);
}

// Reasons come from other programs, so they are shown with control characters
// made visible; the document has its own way to write these.
void ShowFindings(const AutotestResult& result, Report* report) {
  report->json.BeginArray("findings");
  for (const AutotestFinding& finding : result.findings) {
    report->text += fmt::format(
        "\n{}: {}{}\n  {}{}\n  found in configuration {}, set {}; {} times; "
        "{} simpler cases tried\n",
        NameOf(finding.verdict.outcome),
        finding.made.backward != nullptr ? "gradient of " : "",
        ToString(finding.made), Printable(finding.verdict.reason),
        finding.is_flaky ? " (not each time)" : "", finding.configuration,
        finding.set_number, finding.times, finding.tries);
    if (!finding.attribution.empty()) {
      report->text += fmt::format("  {}\n", finding.attribution);
    }
    report->text += DescribeTensors(finding);
    report->json.BeginObject();
    report->json.Add("outcome", NameOf(finding.verdict.outcome));
    report->json.Add("case", ToString(finding.made));
    report->json.Add("is_backward", finding.made.backward != nullptr);
    report->json.Add("reason", finding.verdict.reason);
    report->json.Add("cause", finding.cause);
    if (!finding.attribution.empty()) {
      report->json.Add("attribution", finding.attribution);
    }
    report->json.Add("times", static_cast<uint64_t>(finding.times));
    report->json.Add("is_flaky", finding.is_flaky);
    report->json.EndObject();
  }
  report->json.EndArray();
  if (result.not_looked_at > 0) {
    report->text +=
        fmt::format("\n{} more configurations fail that were not looked at.\n",
                    result.not_looked_at);
  }
}

// Computing in a shorter type is told apart: it is how the runtime works, and
// not a fault of an operation.
std::string AccusedText(const AdapterTrial& trial) {
  if (trial.outcome == AdapterTrial::Outcome::kFailed) return "did not run";
  const std::string accused = ListOf(trial.accused, 3);
  if (trial.precision.empty()) return accused.empty() ? "none" : accused;
  return fmt::format("{}; computes in {}", accused.empty() ? "none" : accused,
                     trial.precision);
}

// Members that say nothing of this trial are left out.
void AddTrial(const AdapterTrial& trial, JsonWriter* json) {
  json->BeginObject();
  json->Add("network", trial.network);
  if (!trial.operation.empty()) {
    json->Add("operation", trial.operation);
    json->Add("change", trial.change);
  }
  json->Add("outcome", NameOf(trial.outcome));
  json->Add("accused", trial.accused);
  if (!trial.carried_into.empty()) {
    json->Add("carried_into", trial.carried_into);
  }
  if (!trial.judged_with.empty()) json->Add("judged_with", trial.judged_with);
  if (!trial.precision.empty()) json->Add("precision", trial.precision);
  if (!trial.why.empty()) json->Add("reason", trial.why);
  json->EndObject();
}

// How many trials had something planted, or not, and came out right.
size_t CountRight(const AdapterCheck& check, bool has_fault) {
  return static_cast<size_t>(
      std::ranges::count_if(check.trials, [&](const AdapterTrial& each) {
        return each.operation.empty() != has_fault &&
               each.outcome == AdapterTrial::Outcome::kRight;
      }));
}

// "network: operation: change"
std::string PlaceText(const AdapterTrial& trial) {
  return fmt::format("{}: {}: {}", trial.network, Printable(trial.operation),
                     Printable(trial.change));
}

void AddDropped(const AdapterCheck& check, Report* report) {
  report->json.BeginArray("dropped");
  for (const AdapterTrial& trial : check.dropped) {
    report->text += fmt::format(
        "{}: not counted: the runtime makes the same with this change as "
        "without it\n",
        PlaceText(trial));
    AddTrial(trial, &report->json);
  }
  report->json.EndArray();
}

// A runtime that keeps two constants in one place is not to blame for the
// second, and neither is the search.
void ShowCarried(const AdapterCheck& check, ReportText* text) {
  for (const AdapterTrial& trial : check.trials) {
    if (trial.carried_into.empty()) continue;
    *text += fmt::format(
        "{}: the runtime carries this change into {}, of which it makes "
        "something else than without the change\n",
        PlaceText(trial), ListOf(trial.carried_into, 3));
  }
}

}  // namespace

// Findings decide on the status before anything else: a run that has some is
// not an error for what it could not compare.
Report ReportOf(const AutotestResult& result, const std::string& candidate,
                const AutotestOptions& options) {
  Report report;
  report.text += fmt::format(
      "candidate: {}\nseed: {} ({} {} draws the same cases again)\nruns: "
      "{}\n\n",
      candidate, options.seed, NameOf(Way::kSeed), options.seed, result.runs);
  report.json.Add("candidate", candidate);
  report.json.Add("seed", options.seed);
  report.json.Add("runs", result.runs);
  ShowOperators(result, &report);
  ShowFindings(result, &report);
  if (!result.findings.empty()) {
    report.status = Report::Status::kDiffers;
  } else if (const absl::Status status =
                 CheckCompared(result, candidate, options);
             !status.ok()) {
    report.AddError(status);
  } else {
    report.text += "\nnothing found\n";
  }
  return report;
}

// A candidate that refuses the case has not shown that it is right, so that is
// an error, though not a difference.
Report ReportOfCase(const AutotestFinding& finding,
                    const std::string& candidate) {
  Report report;
  const CaseOutcome found = finding.verdict.outcome;
  report.text += fmt::format(
      "candidate: {}\n{}{}\n{}", candidate, NameOf(found),
      finding.verdict.reason.empty() ? "" : ": " + finding.verdict.reason,
      DescribeTensors(finding));
  report.json.Add("candidate", candidate);
  report.json.Add("outcome", NameOf(found));
  report.json.Add("reason", finding.verdict.reason);
  if (IsFinding(found)) report.status = Report::Status::kDiffers;
  if (found == CaseOutcome::kCandidateRefuses) {
    report.AddError(finding.actual.status());
  }
  return report;
}

// The whole result is said first, in one sentence, as the document has
// it, too; the table below shows what it rests on.
Report ReportOf(const AdapterCheck& check, const AdapterCheckOptions& options) {
  Report report;
  if (!check.IsTrusted()) report.status = Report::Status::kDiffers;
  const auto changed =
      check.trials.size() - static_cast<size_t>(std::ranges::count(
                                check.trials, "", &AdapterTrial::operation));
  const size_t sound = check.trials.size() - changed;
  const std::string said = fmt::format(
      "{}: {} of {} sound networks accuse no operation, and {} of {} {} "
      "operations are named and no other{}.",
      check.runtime.empty() ? "the runtime" : Printable(check.runtime),
      CountRight(check, false), sound, CountRight(check, true), changed,
      options.spoils ? "spoiled" : "changed",
      options.spoils ? "; whether the runtime has the model that it is judged "
                       "by was not tried with a change of it"
                     : "");
  report.text += said + "\n\n";
  report.json.Add("said", said);
  report.json.Add("runtime", check.runtime);
  report.json.Add("seed", options.seed);
  TextTable table;
  table.AddRow({"Network", "Changed", "Accused", ""});
  report.json.BeginArray("trials");
  for (const AdapterTrial& trial : check.trials) {
    table.AddRow({trial.network,
                  trial.operation.empty()
                      ? "nothing"
                      : fmt::format("{}: {}", Printable(trial.operation),
                                    Printable(trial.change)),
                  AccusedText(trial), std::string(NameOf(trial.outcome))});
    AddTrial(trial, &report.json);
  }
  report.json.EndArray();
  report.text.Add(table, 0, 0);
  AddDropped(check, &report);
  ShowCarried(check, &report.text);
  for (const AdapterTrial& trial : check.trials) {
    if (trial.why.empty()) continue;
    report.text += fmt::format("{}: {}\n", trial.network, Printable(trial.why));
  }
  return report;
}

}  // namespace nodewise
