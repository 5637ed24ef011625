#include <algorithm>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// A tool that runs for ever, with new names each time, keeps no more.
constexpr size_t kMostNoted = 1000;

// Kept for the process, since the code that runs a candidate and the code that
// shows findings do not know each other.
struct Noted {
  std::mutex mutex;
  std::vector<Finding> findings;  // mutex
  size_t libraries = 0;           // mutex; that were taken.
};

Noted& NotedFloats() {
  static auto* const noted = new Noted;
  return *noted;
}

Finding FloatChangeFinding(const FindingKind& kind, FindingPlace place,
                           const char* begin, const FloatChange& change,
                           std::string hint = "") {
  Finding finding =
      MakeFinding(kind, std::move(place),
                  fmt::format("{}left {}", begin, DescribeChange(change)),
                  {{"before", uint64_t{PackFloats(change.before)}},
                   {"after", uint64_t{PackFloats(change.after)}}});
  finding.hint = std::move(hint);
  return finding;
}

}  // namespace

Finding FloatFinding(NodePlace node, const FloatChange& change) {
  return FloatChangeFinding(float_kinds::kLeftChanged, std::move(node), "",
                            change);
}

Finding FloatFindingOfRun(const std::string& network,
                          const FloatChange& change) {
  return FloatChangeFinding(
      float_kinds::kRunLeftChanged, NamedPlace{network}, "", change,
      fmt::format("{} says which node does", NameOf(Way::kSanitizer)));
}

Finding FloatFindingOf(const LibraryFloats& library) {
  return FloatChangeFinding(
      float_kinds::kChangedByLoading, NamedPlace{library.path}, "loading it ",
      library.change,
      "its functions run like that, as in any host; the reference and all that "
      "is measured do not");
}

// Each node of a network may be run thousands of times; what it does is shown
// once.
void NoteFloatFinding(const Finding& finding) {
  Noted& noted = NotedFloats();
  const std::lock_guard lock(noted.mutex);
  const bool is_known =
      std::ranges::any_of(noted.findings, [&](const Finding& known) {
        return known.Where() == finding.Where() && known.found == finding.found;
      });
  if (is_known || noted.findings.size() == kMostNoted) return;
  noted.findings.push_back(finding);
}

// Libraries stay noted for others that ask, so this remembers how many it has
// told of.
std::vector<Finding> TakeFloatFindings() {
  const std::vector<LibraryFloats> libraries = LibrariesThatChangedFloats();
  Noted& noted = NotedFloats();
  const std::lock_guard lock(noted.mutex);
  std::vector<Finding> taken;
  for (; noted.libraries < libraries.size(); ++noted.libraries) {
    taken.push_back(FloatFindingOf(libraries[noted.libraries]));
  }
  for (Finding& finding : noted.findings) taken.push_back(std::move(finding));
  noted.findings.clear();
  return taken;
}

// In a thread of a host there is no default environment, and nothing is kept.
NotedRun::NotedRun(std::string network)
    : network_(std::move(network)), before_(CandidateFloats()) {
  if (HasDefaultFloats()) kept_.emplace();
}

NotedRun::~NotedRun() {
  if (!kept_.has_value() || network_.empty()) return;
  const FloatEnvironment after = CandidateFloats();
  // KeepCandidateFloats puts back what the run has left; the note is all that
  // remains of it.
  if (after == before_) return;
  NoteFloatFinding(FloatFindingOfRun(network_, {before_, after}));
}

}  // namespace nodewise
