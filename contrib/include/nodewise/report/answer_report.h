#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/diagnose/model_beside.h"
#include "nodewise/ir/origin.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/report/report.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {

// Returns what Diagnose() has found out as text and document
// (docs/locate.md has its members). The text has so many culprits at most.
inline constexpr size_t kShownCulprits = 10;
Report ReportOf(const Answer& answer, size_t most_culprits = kShownCulprits);

// Returns which tensors of the model, or of the build beside it, each node of a
// target holds; a long list is cut unless all lines are wanted.
Report ReportOf(const AlignAnswer& answer, bool with_all_lines);

// Shows folders that were written, and notes why others were not. The document
// has `repros` and, if inputs were kept, `kept_inputs`.
void ShowRepros(const WrittenRepros& written, Report* report);

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

// Shows which nodes are named by their values, each with what `named` has of
// where it is from, and what is known of each node. Sets no status. The
// document has `culprits`, `verdicts`, and between builds `side`.
void ShowByValue(const ValueEvidence& evidence,
                 absl::Span<const NamedCulprit> named, Report* report);

// Shows which layers make two models differ, what each costs, and what to keep.
// Sets no status. `most_layers` are shown in the text. The document has
// `models`.
void ShowModels(const ModelsEvidence& evidence, size_t most_layers,
                Report* report);

// Shows where operations of a model are from in the program that made it.

// Adds a row for each line of the program, or a few of many.
void AddSourceRows(absl::Span<const OperationSource> sources, TextTable* table);

// Adds `source`, if there is one.
void AddSources(absl::Span<const OperationSource> sources, JsonWriter* json);

// Returns where the culprit of this key is from.
absl::Span<const OperationSource> SourcesOfCulprit(
    absl::Span<const NamedCulprit> culprits, std::string_view key);

}  // namespace nodewise
