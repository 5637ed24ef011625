#include "nodewise/autotest/choices.h"

#include <algorithm>

namespace nodewise {

// Replaying a sequence that was changed has to give some case for any sequence:
// so a number that is too large becomes the largest that is allowed, and
// numbers that are missing at the end are 0, the simplest.
uint64_t Choices::UpTo(uint64_t most) {
  if (made_.size() >= kMost) {
    is_exhausted_ = true;
    return 0;
  }
  uint64_t value = 0;
  if (is_replay_) {
    const size_t at = made_.size();
    if (at < values_.size()) value = std::min(values_[at], most);
  } else if (most == UINT64_MAX) {
    value = random_.Next();
  } else if (most > 0) {
    // A multiple of the range would be as likely as another number; the rest of
    // 64 bits is too small to matter.
    value = random_.Next() % (most + 1);
  }
  made_.push_back({value, most});
  return value;
}

Choices::Group::Group(Choices* choices)
    : choices_(*choices), begin_(choices->made_.size()) {}

// A group in which nothing was chosen cannot be left out.
Choices::Group::~Group() {
  const size_t end = choices_.made_.size();
  if (end > begin_) choices_.groups_.push_back({begin_, end});
}

std::vector<uint64_t> ValuesOf(absl::Span<const Choice> choices) {
  std::vector<uint64_t> values;
  values.reserve(choices.size());
  for (const Choice& choice : choices) values.push_back(choice.value);
  return values;
}

}  // namespace nodewise
