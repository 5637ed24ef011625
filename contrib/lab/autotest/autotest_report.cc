#include "nodewise/autotest/autotest_report.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"
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
// Its last column says why no case was drawn for an operator that has none, and
// else why the candidate refuses: the first line, since programs put their
// stack behind it.
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

}  // namespace nodewise
