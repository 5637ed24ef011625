#include "nodewise/report/report.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nodewise/support/version.h"
#include "nodewise/support/words.h"

namespace nodewise {

void Report::AddError(const absl::Status& error) {
  status = Status::kError;
  errors.push_back(FindingOf(error));
}

void Report::AddErrors(const DiagnosticList& found) {
  status = Status::kError;
  for (const Diagnostic& diagnostic : found.items()) {
    errors.push_back(FindingOf(diagnostic, finding_kinds::kCannotJudge));
  }
}

std::string_view NameOf(Report::Status status) {
  switch (status) {
    case Report::Status::kOk:
      return "ok";
    case Report::Status::kDiffers:
      return "differs";
    case Report::Status::kError:
      return "error";
  }
  return "";
}

std::string DocumentOf(const Report& report, const DocumentOrigin& origin) {
  JsonWriter document;
  document.Add("schema", kDocumentSchema);
  document.Add("verb", origin.verb);
  document.Add("version", Version());
  if (!origin.command.empty()) document.Add("command", origin.command);
  document.Add("status", NameOf(report.status));
  AddFindings("errors", report.errors, &document);
  document.Add("notes", report.notes);
  if (!report.float_findings.empty()) {
    AddFindings("float_environment", report.float_findings, &document);
  }
  document.Append(report.json);
  report.text.AddTo("report", &document);
  return document.Document();
}

std::string LineOf(const Finding& finding) {
  // The message of a failed function may have several lines.
  std::vector<std::string> lines = absl::StrSplit(finding.ToString(), '\n');
  for (std::string& line : lines) line = Printable(line);
  // Nothing of a message may look like a line of ours.
  return absl::StrJoin(lines, "\n    ");
}

}  // namespace nodewise
