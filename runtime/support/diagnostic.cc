#include "nodewise/support/diagnostic.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Words that begin a part of a place: "lib.so: byte 24: tensor shape needs".
constexpr std::array<std::string_view, 15> kPlaceWords = {
    "byte ",           "tensor ",    "input ",    "output ",      "node ",
    "parameter ",      "params",     "member ",   "storage ",     "graph JSON",
    "__tvm_dev_mblob", "__tvm_ffi_", "function ", "instruction ", "module "};

constexpr std::string_view kColon = ": ";
constexpr std::string_view kDidYouMean = "; did you mean ";
constexpr std::string_view kExpected = ", expected ";

bool IsPlace(std::string_view part) {
  // A sentence may begin with such a word too, but not one so short.
  if (std::count(part.begin(), part.end(), ' ') > 2) return false;
  if (part.starts_with('/')) return true;
  return std::ranges::any_of(kPlaceWords, [&](std::string_view word) {
    return part.starts_with(word);
  });
}

// Cuts the place off the beginning of the text and returns it, without its last
// colon. Goes from colon to colon while what stands between them is a place.
std::string ConsumePlace(std::string_view* text) {
  size_t end = 0;
  for (size_t next = text->find(kColon); next != std::string_view::npos;
       next = text->find(kColon, end)) {
    if (!IsPlace(text->substr(end, next - end))) break;
    end = next + kColon.size();
  }
  if (end == 0) return "";
  std::string place(text->substr(0, end - kColon.size()));
  text->remove_prefix(end);
  return place;
}

// Cuts "(hint)" or "; did you mean X?" off the end. A shape such as "(1, 64)"
// is not a hint: it has no letters.
std::string CutHint(std::string_view* text) {
  if (const size_t at = text->rfind(kDidYouMean);
      at != std::string_view::npos) {
    std::string hint(text->substr(at + 2));
    text->remove_suffix(text->size() - at);
    return hint;
  }
  if (text->empty() || text->back() != ')') return "";
  size_t open = text->size();
  for (int depth = 0; open > 0;) {
    --open;
    depth += (*text)[open] == ')' ? 1 : (*text)[open] == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::string_view hint = text->substr(open + 1, text->size() - open - 2);
  if (open == 0 || (*text)[open] != '(' || (*text)[open - 1] != ' ' ||
      std::none_of(hint.begin(), hint.end(),
                   [](unsigned char c) { return std::isalpha(c) != 0; })) {
    return "";
  }
  std::string result(hint);
  text->remove_suffix(text->size() - open + 1);
  return result;
}

// Cuts ":LINE:COLUMN" off the front of what follows a file's name, if both are
// there.
void TakeLineAndColumn(std::string_view* text, Diagnostic* diagnostic) {
  std::string_view rest = *text;
  size_t line = 0;
  size_t column = 0;
  for (size_t* const number : {&line, &column}) {
    if (!rest.starts_with(':')) return;
    const char* const end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data() + 1, end, *number);
    if (error != std::errc()) return;
    rest.remove_prefix(static_cast<size_t>(stop - rest.data()));
  }
  if (!rest.starts_with(kColon)) return;
  diagnostic->line = line;
  diagnostic->column = column;
  *text = rest;
}

bool IsError(const Diagnostic& diagnostic) {
  return diagnostic.severity == Severity::kError;
}

// Takes apart what follows the place in a message. The hint comes first, since
// it may itself hold ", expected ".
void AddMessage(std::string_view text, Diagnostic* diagnostic) {
  diagnostic->hint = CutHint(&text);
  const size_t expected = text.rfind(kExpected);
  diagnostic->found = text.substr(0, expected);
  if (expected != std::string_view::npos) {
    diagnostic->expected = text.substr(expected + kExpected.size());
  }
}

}  // namespace

// The form that editors and terminals turn into a link.
std::string Diagnostic::Where() const {
  std::string where = file;
  if (line > 0) where += fmt::format(":{}:{}", line, column);
  if (!path.empty()) where += (where.empty() ? "" : ": ") + path;
  return where;
}

std::string Diagnostic::ToString() const {
  std::string text = Where() + ": " + found;
  if (!expected.empty()) text += ", expected " + expected;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

// Nothing is known of the message: its first part is taken for the file.
Diagnostic DiagnosticOf(const absl::Status& status) {
  std::string_view text = MessageOf(status);
  Diagnostic diagnostic;
  if (const size_t file = text.find(kColon); file != std::string_view::npos) {
    diagnostic.file = text.substr(0, file);
    text.remove_prefix(file + kColon.size());
    const std::string place = ConsumePlace(&text);
    if (!place.empty()) diagnostic.file.append(kColon).append(place);
  }
  AddMessage(text, &diagnostic);
  return diagnostic;
}

// The file is known, so that what follows its name is the place within it.
Diagnostic DiagnosticIn(const std::string& file, const absl::Status& status) {
  std::string_view text = MessageOf(status);
  Diagnostic diagnostic;
  diagnostic.file = file;
  if (text.starts_with(file)) {
    std::string_view rest = text.substr(file.size());
    TakeLineAndColumn(&rest, &diagnostic);
    if (rest.starts_with(kColon)) text = rest.substr(kColon.size());
  }
  diagnostic.path = ConsumePlace(&text);
  AddMessage(text, &diagnostic);
  return diagnostic;
}

void DiagnosticList::Add(Diagnostic diagnostic) {
  if (diagnostics_.size() < kMostDiagnostics) {
    diagnostics_.push_back(std::move(diagnostic));
    return;
  }
  if (diagnostics_.size() == kMostDiagnostics) {
    diagnostics_.push_back({Severity::kWarning, diagnostic.file, "", 0, 0,
                            "more faults than are listed",
                            fmt::format("at most {}", kMostDiagnostics),
                            "mend these first"});
  }
  // A fault that is not listed still keeps the file from being used.
  if (diagnostic.severity == Severity::kError) {
    diagnostics_.back().severity = Severity::kError;
  }
}

void DiagnosticList::Append(DiagnosticList other) {
  for (Diagnostic& diagnostic : other.diagnostics_) Add(std::move(diagnostic));
}

bool DiagnosticList::HasErrors() const {
  return std::any_of(diagnostics_.begin(), diagnostics_.end(), IsError);
}

// A status has room for one fault; the others are counted, and the command that
// lists them is named.
absl::Status DiagnosticList::ToStatus() const {
  const auto first =
      std::find_if(diagnostics_.begin(), diagnostics_.end(), IsError);
  if (first == diagnostics_.end()) return absl::OkStatus();
  std::string text = first->ToString();
  const auto more = std::count_if(first + 1, diagnostics_.end(), IsError);
  if (more > 0) {
    text += fmt::format("; and {} more fault{} (nodewise verify lists all)",
                        more, more == 1 ? "" : "s");
  }
  return absl::DataLossError(text);
}

// The cut is between two characters, so that the beginning stays UTF-8.
std::string_view Shortened(std::string_view text) {
  constexpr size_t kMostBytes = 500;
  if (text.size() <= kMostBytes) return text;
  // Bytes 0x80 to 0xBF continue a character of UTF-8.
  size_t end = kMostBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace nodewise
