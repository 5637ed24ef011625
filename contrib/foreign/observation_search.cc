#include "nodewise/foreign/observation_search.h"

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<ObservationSearch> SearchObservable(
    size_t count, size_t most_runs,
    absl::FunctionRef<absl::StatusOr<bool>(absl::Span<const size_t> values)>
        is_there) {
  struct Part {
    size_t begin, end;
  };
  ObservationSearch search;
  std::vector<Part> open;  // The next part is the last one.
  if (count > 0) open.push_back({0, count});
  while (!open.empty()) {
    const Part part = open.back();
    open.pop_back();
    bool holds = false;
    if (search.runs < most_runs) {
      std::vector<size_t> tried = search.kept;
      for (size_t i = part.begin; i < part.end; ++i) tried.push_back(i);
      ++search.runs;
      NODEWISE_ASSIGN_OR_RETURN(holds, is_there(tried));
      if (holds) {
        search.kept = std::move(tried);
        continue;
      }
    } else {
      search.is_complete = false;
    }
    if (part.end - part.begin == 1 || !search.is_complete) {
      for (size_t i = part.begin; i < part.end; ++i) {
        search.dropped.push_back(i);
      }
      continue;
    }
    const size_t middle = part.begin + (part.end - part.begin) / 2;
    open.push_back({middle, part.end});
    open.push_back({part.begin, middle});
  }
  return search;
}

}  // namespace nodewise
