#include "contrib/lab/autotest/simpler_choices.h"

#include <algorithm>
#include <utility>

namespace nodewise {
namespace {

using Values = std::vector<uint64_t>;

// The lengths of the parts that are tried to be left out beside the groups.
constexpr size_t kLengths[] = {8, 4, 2, 1};

}  // namespace

std::vector<Values> SimplerThan(absl::Span<const Choice> made,
                                absl::Span<const ChoiceSpan> groups,
                                size_t most) {
  const Values values = ValuesOf(made);
  std::vector<Values> simpler;
  const auto without = [&](size_t begin, size_t end) {
    Values shorter(values.begin(),
                   values.begin() + static_cast<ptrdiff_t>(begin));
    shorter.insert(shorter.end(), values.begin() + static_cast<ptrdiff_t>(end),
                   values.end());
    simpler.push_back(std::move(shorter));
  };
  const auto zero = [&](size_t begin, size_t end) {
    Values zeros = values;
    std::fill(zeros.begin() + static_cast<ptrdiff_t>(begin),
              zeros.begin() + static_cast<ptrdiff_t>(end), uint64_t{0});
    if (zeros != values) simpler.push_back(std::move(zeros));
  };
  zero(0, values.size());
  // Outer groups come last.
  for (size_t i = groups.size(); i-- > 0;) {
    without(groups[i].begin, groups[i].end);
    zero(groups[i].begin, groups[i].end);
  }
  for (const size_t length : kLengths) {
    for (size_t at = 0; at + length <= values.size(); ++at) {
      without(at, at + length);
    }
  }
  for (size_t at = 0; at < values.size(); ++at) {
    for (const uint64_t smaller :
         {uint64_t{0}, values[at] / 2, values[at] - 1}) {
      if (smaller >= values[at]) continue;
      Values less = values;
      less[at] = smaller;
      simpler.push_back(std::move(less));
    }
  }
  if (simpler.size() > most) simpler.resize(most);
  return simpler;
}

bool IsSimpler(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b) {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace nodewise
