#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace nodewise {

// A warning does not keep a file or a network from being used.
enum class Severity { kError, kWarning };

// One thing that is wrong with a file, in parts, so that it can be printed as
// a line or shown as a Finding (nodewise/graph/finding.h).
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;      // "graph.json"
  std::string path;      // A JSON path, a tensor's name, or empty.
  size_t line = 0;       // 1-based; 0 where there are no lines.
  size_t column = 0;     // 1-based, in bytes.
  std::string found;     // "output 3 of node 4, which has 1 output"
  std::string expected;  // May be empty.
  std::string hint;      // What to do about it; may be empty.

  // "graph.json:212:14: /nodes/7/inputs/0/1"
  std::string Where() const;
  // "where: found, expected expected (hint)"
  std::string ToString() const;
};

// Splits a message that reads `where: found, expected expected (hint)`. Parts
// that cannot be told apart stay together; nothing gets lost. REQUIRES: the
// status is not OK.
Diagnostic DiagnosticOf(const absl::Status& status);
// Splits a message about `file`, which may begin with its name; the place
// within the file becomes the path. REQUIRES: the status is not OK.
Diagnostic DiagnosticIn(const std::string& file, const absl::Status& status);

// What a check of a file collects: all faults in one pass, in the order of the
// file.
class DiagnosticList {
 public:
  // No reader goes through more, and a hostile file may have one for each byte.
  static constexpr size_t kMostDiagnostics = 10000;

  // When the list is full, a last item says that more were found; it is an
  // error if one of them is.
  void Add(Diagnostic diagnostic);
  void Append(DiagnosticList other);

  const std::vector<Diagnostic>& items() const { return diagnostics_; }
  std::vector<Diagnostic>& items() { return diagnostics_; }
  bool HasErrors() const;
  // Returns OK if there are no errors; else kDataLoss with the first error and
  // how many more there are.
  absl::Status ToStatus() const;

 private:
  std::vector<Diagnostic> diagnostics_;
};

// Returns what messages show of a text from a file, which may be megabytes long
// and be named by many diagnostics: all of it, or its beginning.
std::string_view Shortened(std::string_view text);

// Returns the candidate that is nearest to `name` in spelling, or "" if none is
// near enough to be what was meant.
std::string NearestName(std::string_view name,
                        const std::vector<std::string>& candidates);

// Returns "; did you mean X?" for messages, or "" if no candidate is near.
std::string DidYouMean(std::string_view name,
                       const std::vector<std::string>& candidates);

}  // namespace nodewise
