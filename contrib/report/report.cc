// A report takes its form here: the document with its envelope, and the text
// with its tables laid out.

#include "nodewise/report/report.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "contrib/report/writing.h"
#include "nodewise/support/version.h"

namespace nodewise {

// Errors are findings as all else is, so that programs read one shape.
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
  constexpr std::string_view kNames[] = {"ok", "differs", "error"};
  return kNames[static_cast<size_t>(status)];
}

// The envelope comes first in a fixed order: a reader can tell what a document
// is from its first lines. The text comes last, since it is the longest.
std::string DocumentOf(const Report& report, const DocumentOrigin& origin) {
  JsonWriter document;
  AddMembers(&document, "schema", kDocumentSchema, "verb", origin.verb,
             "version", Version(), "command", IfAny{origin.command}, "status",
             NameOf(report.status));
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

// Lines that follow one another are one block, so that an archive has as few as
// there are tables.
ReportText& ReportText::operator+=(std::string_view lines) {
  if (lines.empty()) return *this;
  if (blocks_.empty() || blocks_.back().table.has_value()) {
    blocks_.emplace_back();
  }
  blocks_.back().lines += lines;
  return *this;
}

ReportText& ReportText::operator+=(const ReportText& other) {
  for (const Block& block : other.blocks_) {
    if (block.table.has_value()) {
      blocks_.push_back(block);
    } else {
      *this += block.lines;
    }
  }
  return *this;
}

// A table without rows would be a block that shows nothing.
void ReportText::Add(TextTable rows, size_t indent, size_t most_rows) {
  if (rows.rows().empty()) return;
  blocks_.push_back({"", Table{std::move(rows), indent, most_rows}});
}

// Tables are laid out only now, when it is known how wide the lines may be.
std::string ReportText::ToString(const TextLayout& layout) const {
  std::string text;
  for (const Block& block : blocks_) {
    text += block.lines;
    if (!block.table.has_value()) continue;
    const Table& table = *block.table;
    text += table.rows.ToString(table.indent,
                                layout.has_all_lines ? 0 : table.most_rows,
                                layout.line_width);
  }
  return text;
}

void ReportText::AddTo(std::string_view key, JsonWriter* json) const {
  json->BeginArray(key);
  for (const Block& block : blocks_) {
    if (!block.table.has_value()) {
      json->Add({}, block.lines);
      continue;
    }
    json->BeginObject();
    AddMembers(json, "indent", block.table->indent, "most_rows",
               block.table->most_rows);
    json->BeginArray("rows");
    for (const std::vector<std::string>& row : block.table->rows.rows()) {
      json->AddTexts({}, row);
    }
    json->EndArray();
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace nodewise
