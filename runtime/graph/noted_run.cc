#include "nodewise/graph/noted_run.h"

#include <utility>

#include "nodewise/graph/float_findings.h"

namespace nodewise {

NotedRun::NotedRun(std::string network)
    : network_(std::move(network)), before_(CandidateFloats()) {
  if (HasDefaultFloats()) kept_.emplace();
}

NotedRun::~NotedRun() {
  if (!kept_.has_value() || network_.empty()) return;
  const FloatEnvironment after = CandidateFloats();
  if (after == before_) return;
  NoteFloatFinding(FloatFindingOfRun(network_, {before_, after}));
}

}  // namespace nodewise
