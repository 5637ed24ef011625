#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {

// How words are laid out for a reader.
struct TextLayout {
  size_t line_width = 0;       // For tables; 0: no limit.
  bool has_all_lines = false;  // Lists are not cut.
};

// What a report says to people: lines, and tables that are not laid out yet, so
// that the same report fits a narrow terminal and a wide page, today or when it
// is read back from an archive.
class ReportText {
 public:
  // A table among the lines.
  struct Table {
    TextTable rows;
    size_t indent = 0;
    size_t most_rows = 0;  // How many are shown unless all are; 0: all.
  };
  struct Block {
    std::string lines;  // Empty for a table.
    std::optional<Table> table = std::nullopt;
  };

  ReportText& operator+=(std::string_view lines);
  ReportText& operator+=(char c) { return *this += std::string_view(&c, 1); }
  ReportText& operator+=(const ReportText& other);
  void Add(TextTable rows, size_t indent = 0, size_t most_rows = 0);

  bool empty() const { return blocks_.empty(); }
  void clear() { blocks_.clear(); }
  const std::vector<Block>& blocks() const { return blocks_; }

  std::string ToString(const TextLayout& layout = {}) const;

  // Adds the blocks as an array: a text for lines, an object for a table.
  void AddTo(std::string_view key, JsonWriter* json) const;

 private:
  std::vector<Block> blocks_;
};

// What one question to nodewise came to, before it takes a form. Functions of
// this folder each add what they know; text for people and the document for
// programs are made of it here alone (docs/formats/archive.md).
struct Report {
  // The numbers are the exit statuses of the command.
  enum class Status {
    kOk = 0,       // Fine, or a match.
    kDiffers = 1,  // A mismatch, or faults in what was judged.
    kError = 2,    // Could not judge.
  };

  Status status = Status::kOk;
  ReportText text;  // For people.
  JsonWriter json;  // What the document holds after its envelope.
  // With kError they are why; otherwise `text` contains them.
  std::vector<Finding> errors;
  std::vector<std::string> notes;  // Worth knowing, but not faults.
  // What compiled code has done to the floating-point environment. No reason
  // for another status by itself.
  std::vector<Finding> float_findings;

  // For failures when there is already something to show.
  void AddError(const absl::Status& error);
  void AddErrors(const DiagnosticList& found);
};

// Returns "ok", "differs" or "error".
std::string_view NameOf(Report::Status status);

// What the documents of this version are called. A later one with the same name
// may have more members; one that a reader of these would misunderstand has
// another name.
inline constexpr std::string_view kDocumentSchema = "nodewise/1";

// Where a document comes from.
struct DocumentOrigin {
  std::string verb;                  // "locate"
  std::vector<std::string> command;  // What was typed; empty if nothing was.
};

// Returns the document: its envelope, what the report has for programs, and
// its text, from which it can be shown again (nodewise/report/archive.h).
std::string DocumentOf(const Report& report, const DocumentOrigin& origin);

// Returns a finding as a line of text, or several if a message in it has
// several.
std::string LineOf(const Finding& finding);

}  // namespace nodewise
