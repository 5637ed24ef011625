#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/referee.h"
#include "nodewise/locate/side_difference.h"
#include "nodewise/report/report.h"

namespace nodewise {

// The parts of an answer about nodes. Each shows one and sets no status.

// Shows so many culprits, each with what `named` has of where it is from, then
// how many nodes have which verdict if all were judged, then whether the
// outputs differ. The document has `culprits`, `verdicts`, `outputs_differ` and
// `output_error`.
void ShowLocated(const LocateResult& result, bool judged_all,
                 size_t most_culprits, absl::Span<const NamedCulprit> named,
                 Report* report);

// Lists the nodes that nothing could be said about, and the reasons.
void ShowNotJudged(const LocateResult& result, Report* report);

// Shows whom a referee agrees with about each node that it was asked about. The
// document has `referee`.
void ShowOpinions(
    const std::string& referee,
    const std::vector<std::pair<std::string, RefereeOpinion>>& opinions,
    Report* report);

// Shows what differs before anything has run. The document has `differences`.
void ShowSideDifferences(const std::vector<SideDifference>& differences,
                         Report* report);

}  // namespace nodewise
