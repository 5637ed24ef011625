#include <algorithm>
#include <numeric>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

// Returns the Levenshtein distance, or limit + 1 once it must exceed `limit`.
// The usual table, of which only one row is kept: each cell is the cheapest of
// a change, an insertion and a deletion. A row whose least value is above the
// limit ends it, as later rows only grow.
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

// Where several are equally near, the first is taken.
std::string NearestName(std::string_view name,
                        const std::vector<std::string>& candidates) {
  // A hint is not worth what long names cost.
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
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

}  // namespace nodewise
