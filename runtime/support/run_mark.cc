#include "nodewise/support/run_mark.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"

namespace nodewise {
namespace {

// The mark of processes that are not watched. Writing somewhere is quicker than
// asking each time whether to write.
RunMark unread_mark(false);

}  // namespace

RunMark* RunMark::current_ = &unread_mark;

void RunMark::Use(RunMark* mark) {
  current_ = mark == nullptr ? &unread_mark : mark;
}

// The address of an executor would not do, as another one may get it.
uint64_t RunMark::NewOwner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// The path is cut rather than left out.
void RunMark::BeginLoading(std::string_view library) {
  if (!is_read_) return;
  const size_t bytes = library.copy(library_, kPathBytes - 1);
  library_[bytes] = '\0';
  has_loaded_.store(1);
  place_.store(PlaceOf(Phase::kLoading, 0));
}

void RunMark::EndLoading() {
  if (is_read_) place_.store(PlaceOf(Phase::kOurs, 0));
}

// Names are copied once for each executor; those that have no room are shown by
// number.
void RunMark::NameNodes(uint64_t owner, size_t count,
                        const std::function<std::string(uint32_t)>& title_of) {
  if (!is_read_ || owner_.load() == owner) return;
  char* to = titles_;
  char* const end = titles_ + kTitleBytes - 1;  // Another NUL ends the list.
  for (uint32_t n = 0; n < count; ++n) {
    const std::string title = title_of(n);
    if (title.size() + 1 > static_cast<size_t>(end - to)) break;
    to = std::copy(title.begin(), title.end(), to);
    *to++ = '\0';
  }
  *to = '\0';
  owner_.store(owner);
}

// Compiled code may have written over the mark, so that any number may stand
// here.
RunMark::Phase RunMark::phase() const {
  const uint64_t phase = place_.load() >> 32;
  return phase <= static_cast<uint64_t>(Phase::kAfterNode)
             ? static_cast<Phase>(phase)
             : Phase::kOurs;
}

// Compiled code may have written over the titles, too, so their list need not
// end where it should.
std::string RunMark::TitleOf(uint32_t node) const {
  const char* at = titles_;
  const char* const end = titles_ + kTitleBytes;
  for (uint32_t n = 0; at < end && *at != '\0'; ++n) {
    const size_t bytes = strnlen(at, static_cast<size_t>(end - at));
    if (n == node) return {at, bytes};
    at += bytes + 1;
  }
  return fmt::format("node {}", node);
}

std::string RunMark::Where() const {
  const Phase now = phase();
  if (now == Phase::kOurs) return "";
  if (now != Phase::kLoading) {
    return TitleOf(static_cast<uint32_t>(place_.load()));
  }
  return "loading " + std::string(library_, strnlen(library_, kPathBytes));
}

}  // namespace nodewise
