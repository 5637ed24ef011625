// Runs that were looked into: whether looking changed them, where they stopped,
// and what was found about their nodes. Findings decide the status; what could
// not be looked at is a note, or an error where it leaves nothing known.

#include "nodewise/report/debug_run_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Nodes of one type tend to be unreadable together, so that a few names tell
// enough; the document has all.
constexpr size_t kMostUnread = 8;

// A search that passed something over has not shown that there is nothing.
void ShowUnread(const std::vector<UnreadTensor>& unread, Report* report) {
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const UnreadTensor& tensor : unread) {
    names.push_back(tensor.name);
    shown.push_back(
        fmt::format("{} ({})", tensor.name, ToString(tensor.dtype)));
  }
  report->json.Add("not_looked_at", names);
  if (unread.empty()) return;
  report->notes.push_back(fmt::format(
      "did not look at {}, whose types it cannot read: {}",
      CountOf(unread.size(), "output"), ListOf(shown, kMostUnread)));
}

// One line for each finding: their number was bounded where they were found.
void ShowFindings(std::string_view what, const std::vector<Finding>& findings,
                  Report* report) {
  for (const Finding& finding : findings) {
    report->text += Printable(finding.ToString()) + "\n";
  }
  AddFindings(what, findings, &report->json);
  if (!findings.empty()) report->status = Report::Status::kDiffers;
}

// A node that leaves floats changed has not failed, but what runs after it may
// compute otherwise; so it is counted apart from the faults.
std::string ChangedFloatsText(const std::vector<Finding>& findings) {
  const size_t count = findings.size() - CountFaults(findings);
  if (count == 0) return "";
  return fmt::format(", {} left floats changed", CountOf(count, "node"));
}

// Findings are a verdict; finding none is one only if everything was compared.
void ShowNotCompared(const SanitizeReport& found, Report* report) {
  for (const absl::Status& why : found.not_compared) {
    if (found.findings.empty()) {
      report->AddError(why);
    } else {
      report->notes.emplace_back(MessageOf(why));
    }
  }
}

}  // namespace

size_t CountFaults(const std::vector<Finding>& findings) {
  return static_cast<size_t>(
      std::ranges::count_if(findings, [](const Finding& finding) {
        return !(finding.kind == float_kinds::kLeftChanged);
      }));
}

// A worse status stays: other bits say less than a fault that was found.
void ShowCheck(const OutputCheck& check, Report* report) {
  report->text += Printable(check.text) + "\n";
  AddObject(report, "plain_run", "same_bits", check.same, "text", check.text);
  if (check.same) return;
  report->status = std::max(report->status, Report::Status::kDiffers);
}

void ShowStop(const RunResult& result, bool looks, Report* report) {
  const auto& stop = result.stopped;
  const bool made_value = stop.has_value() && stop->made_value;
  if (looks && !made_value) {
    report->text += result.unread.empty()
                        ? "no node made such a value\n"
                        : "no node that was looked at made such a value\n";
  }
  if (stop.has_value()) {
    AddText(report, "stopped after {}{}{}\n", Printable(stop->title),
            stop->function.empty() ? ", an input"
                                   : ", function " + Printable(stop->function),
            made_value ? ": the first to make such a value" : "");
  }
  if (looks || stop.has_value()) {
    report->json.Add("stopped_at", stop.has_value() ? stop->key : "");
  }
  if (!looks) return;
  report->json.Add("made_the_value", made_value);
  ShowUnread(result.unread, report);
  if (made_value) report->status = Report::Status::kDiffers;
}

void ShowSanitized(const SanitizeReport& found, Report* report) {
  AddText(report, "sanitized {}: {}{}{}\n", CountOf(found.nodes, "node"),
          CountOf(CountFaults(found.findings), "memory fault"),
          ChangedFloatsText(found.findings),
          found.had_more_findings ? ", and more that are not listed" : "");
  ShowFindings("memory_faults", found.findings, report);
  report->json.Add("more_faults", found.had_more_findings);
  ShowNotCompared(found, report);
}

void ShowIsolated(const IsolationReport& found, const GraphIndex& index,
                  Report* report) {
  AddText(report, "isolated {}: {}{}\n", CountOf(found.nodes, "node"),
          CountOf(CountFaults(found.findings), "failure"),
          ChangedFloatsText(found.findings));
  ShowFindings("failures", found.findings, report);
  const std::vector<std::string> tainted = KeysOf(index, found.tainted);
  report->json.Add("tainted", tainted);
  if (tainted.empty()) return;
  AddText(report, "{} ran on what a node that failed should have made\n",
          CountOf(tainted.size(), "node"));
}

// Nodes that only pass other bits on are counted and not listed, since the
// finding about the first one explains them.
void ShowSwept(const SweepReport& found, Report* report) {
  AddText(report, "swept {}: {}", CountOf(found.runs, "run"),
          found.findings.empty() ? "always the same bits"
                                 : CountOf(found.findings.size(), "finding"));
  if (found.inherited > 0) {
    AddText(report, ", and {} that only passed them on",
            CountOf(found.inherited, "node"));
  }
  report->text += '\n';
  AddMembers(report, "runs", found.runs, "inherited", found.inherited);
  ShowFindings("unsteady", found.findings, report);
}

}  // namespace nodewise
