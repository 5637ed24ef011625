#pragma once

#include <string>
#include <vector>

#include "nodewise/locate/bisect.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/samples.h"
#include "nodewise/locate/series.h"
#include "nodewise/report/report.h"

namespace nodewise {

// The parts of an answer about how it was searched. Each shows one and sets no
// status; the nodes that were judged are shown by located_report.h.

// The document has `questions`, `runs`, `nodes_on_path`, and with a first node
// `first_divergence` and `masked`.
void ShowBisected(const BisectResult& result, Report* report);
// The document has `questions`, `runs`, `functions`, `guilty` and `in_storage`.
void ShowMixed(const MixResult& result, Report* report);

// Shows which builds were tried, and which is the first bad one. The document
// has `series`, and with a bad one `first_bad`, `last_good` and
// `skipped_between`.
void ShowSeries(const SeriesResult& result,
                const std::vector<std::string>& names, Report* report);

// Shows the samples with their errors, which verdicts recur, and which samples
// failed. The document has `samples`, `recurring` and `failed_samples`.
void ShowSamples(const SamplesResult& result,
                 const std::vector<std::string>& names, Report* report);

}  // namespace nodewise
