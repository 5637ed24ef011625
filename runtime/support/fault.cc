#include "nodewise/support/fault.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace nodewise {
namespace {

// Levenshtein distance, given up on (returns limit + 1) once it must exceed
// `limit`.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) {
    return limit + 1;
  }
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
    if (*std::min_element(row.begin(), row.end()) > limit) return limit + 1;
  }
  return row.back();
}

}  // namespace

std::string Fault::Where() const {
  std::string where = file;
  if (line > 0) where += absl::StrFormat(":%d:%d", line, column);
  if (!path.empty()) where += (where.empty() ? "" : ": ") + path;
  return where;
}

std::string Fault::ToString() const {
  std::string text = Where() + ": " + found;
  if (!expected.empty()) text += ", expected " + expected;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

void FaultList::Add(Fault fault) {
  if (faults_.size() < kMostFaults) {
    faults_.push_back(std::move(fault));
    return;
  }
  if (faults_.size() == kMostFaults) {
    faults_.push_back({Fault::Severity::kWarning, fault.file, "", 0, 0,
                       "more faults than are listed",
                       absl::StrFormat("at most %d", kMostFaults),
                       "mend these first"});
  }
  // What is not listed keeps the file from being used all the same.
  if (fault.severity == Fault::Severity::kError) {
    faults_.back().severity = Fault::Severity::kError;
  }
}

bool FaultList::HasErrors() const {
  return std::any_of(faults_.begin(), faults_.end(), [](const Fault& fault) {
    return fault.severity == Fault::Severity::kError;
  });
}

absl::Status FaultList::ToStatus() const {
  const Fault* first = nullptr;
  size_t more = 0;
  for (const Fault& fault : faults_) {
    if (fault.severity != Fault::Severity::kError) continue;
    if (first == nullptr) {
      first = &fault;
    } else {
      ++more;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  std::string text = first->ToString();
  if (more > 0) {
    text += absl::StrFormat("; and %d more fault%s (nodewise verify lists all)",
                            more, more == 1 ? "" : "s");
  }
  return absl::DataLossError(text);
}

std::string_view Shortened(std::string_view text) {
  constexpr size_t kMostBytes = 500;
  if (text.size() <= kMostBytes) return text;
  // Bytes 0x80 to 0xBF go on with a character of UTF-8.
  size_t end = kMostBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::string NearestName(std::string_view name,
                        const std::vector<std::string>& candidates) {
  // What long names cost is not worth a hint.
  if (name.size() > 256) return "";
  // A third of the name may differ; a very short name must nearly match.
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  std::string nearest;
  size_t best = limit + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate, limit);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view name,
                       const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrFormat("; did you mean %s?", nearest);
}

}  // namespace nodewise
