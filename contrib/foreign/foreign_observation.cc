#include "nodewise/foreign/foreign_observation.h"

#include <numeric>
#include <utility>

#include "nodewise/support/status.h"

namespace nodewise {

absl::StatusOr<ObservationSearch> SearchObservable(
    size_t count, size_t most_runs,
    absl::FunctionRef<absl::StatusOr<bool>(absl::Span<const size_t> values)>
        is_there) {
  // Parts of the values are halved for as long as they make the fault go away.
  // The first half is tried first, beside all that may be observed by then.
  ObservationSearch search;
  std::vector<std::pair<size_t, size_t>> open;  // The next part is the last.
  if (count > 0) open.emplace_back(0, count);
  while (!open.empty()) {
    const auto [begin, end] = open.back();
    open.pop_back();
    std::vector<size_t> part(end - begin);
    std::iota(part.begin(), part.end(), begin);
    search.is_complete = search.runs < most_runs;
    if (search.is_complete) {
      std::vector<size_t> tried = search.kept;
      tried.insert(tried.end(), part.begin(), part.end());
      ++search.runs;
      NODEWISE_ASSIGN_OR_RETURN(const bool holds, is_there(tried));
      if (holds) {
        search.kept = std::move(tried);
        continue;
      }
    }
    if (part.size() == 1 || !search.is_complete) {
      search.dropped.insert(search.dropped.end(), part.begin(), part.end());
      continue;
    }
    const size_t middle = begin + part.size() / 2;
    open.emplace_back(middle, end);
    open.emplace_back(begin, middle);
  }
  return search;
}

}  // namespace nodewise
