#include "contrib/locate/question_search.h"

#include <algorithm>

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<size_t> FirstLeap(
    size_t low, size_t high,
    absl::FunctionRef<absl::StatusOr<bool>(size_t)> asks) {
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    NODEWISE_ASSIGN_OR_RETURN(const bool answer, asks(middle));
    (answer ? high : low) = middle;
  }
  return high;
}

absl::StatusOr<std::vector<size_t>> SmallestSet(
    const std::vector<size_t>& items,
    absl::FunctionRef<absl::StatusOr<bool>(const std::vector<size_t>&)> holds) {
  std::vector<size_t> found;  // Last items first.
  const auto with_first = [&](size_t count) {
    std::vector<size_t> set(items.begin(),
                            items.begin() + static_cast<ptrdiff_t>(count));
    set.insert(set.end(), found.rbegin(), found.rend());
    return set;
  };
  // It holds for the first `count` items together with those that were found.
  // The item at which it begins to hold is one more that is needed.
  size_t count = items.size();
  bool is_enough = false;
  while (!is_enough && count > 0) {
    NODEWISE_ASSIGN_OR_RETURN(count, FirstLeap(0, count, [&](size_t k) {
                                return holds(with_first(k));
                              }));
    found.push_back(items[--count]);
    if (count == 0) break;
    NODEWISE_ASSIGN_OR_RETURN(is_enough, holds(with_first(0)));
  }
  std::reverse(found.begin(), found.end());
  // One that was needed beside others may not be any more.
  for (size_t i = 0; found.size() > 1 && i < found.size();) {
    std::vector<size_t> without = found;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    NODEWISE_ASSIGN_OR_RETURN(const bool still, holds(without));
    if (still) {
      found = std::move(without);
    } else {
      ++i;
    }
  }
  return found;
}

}  // namespace nodewise
