#pragma once

#include <string>
#include <vector>

#include "apps/nodewise/command.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/series.h"

namespace nodewise {

// Show what was asked and found, and set the status. The document has
// `questions` and `runs` beside what ShowCulprits() adds.

// Also `first_divergence`, `masked` and `nodes_on_path`.
void ShowBisected(const BisectResult& result, Outcome* outcome);
// Also `functions`, `guilty` and `in_storage`.
void ShowMixed(const MixResult& result, Outcome* outcome);

// Shows which builds were tried, and which is the first bad one. The document
// has `series`, `first_bad`, `last_good` and `skipped_between`. If no build is
// bad there is nothing else to show.
void ShowSeries(const SeriesResult& result,
                const std::vector<std::string>& names, Outcome* outcome);

}  // namespace nodewise
