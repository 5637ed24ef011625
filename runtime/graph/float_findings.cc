#include "nodewise/graph/float_findings.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

constexpr size_t kMostNoted = 1000;

struct Noted {
  std::mutex mutex;
  std::vector<Finding> findings;  // mutex
  size_t libraries = 0;           // mutex; that were taken.
};

Noted& NotedFloats() {
  static auto* const noted = new Noted;
  return *noted;
}

std::vector<FindingNumber> NumbersOf(const FloatChange& change) {
  return {{"before", uint64_t{PackFloats(change.before)}},
          {"after", uint64_t{PackFloats(change.after)}}};
}

}  // namespace

Finding FloatFinding(NodePlace node, const FloatChange& change) {
  return MakeFinding(float_kinds::kLeftChanged, std::move(node),
                     "left " + DescribeChange(change), NumbersOf(change));
}

Finding FloatFindingOfRun(const std::string& network,
                          const FloatChange& change) {
  Finding finding =
      MakeFinding(float_kinds::kRunLeftChanged, NamedPlace{network},
                  "left " + DescribeChange(change), NumbersOf(change));
  finding.hint = std::string(NameOf(Way::kSanitizer)) + " says which node does";
  return finding;
}

Finding FloatFindingOf(const LibraryFloats& library) {
  Finding finding =
      MakeFinding(float_kinds::kChangedByLoading, NamedPlace{library.path},
                  "loading it left " + DescribeChange(library.change),
                  NumbersOf(library.change));
  finding.hint =
      "its functions run like that, as in any host; the reference and all that "
      "is measured do not";
  return finding;
}

void NoteFloatFinding(const Finding& finding) {
  Noted& noted = NotedFloats();
  const std::lock_guard lock(noted.mutex);
  const bool is_known = std::any_of(
      noted.findings.begin(), noted.findings.end(), [&](const Finding& known) {
        return known.Where() == finding.Where() && known.found == finding.found;
      });
  if (is_known || noted.findings.size() == kMostNoted) return;
  noted.findings.push_back(finding);
}

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

}  // namespace nodewise
