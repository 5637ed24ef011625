#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/alignment.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/diagnose/question.h"
#include "nodewise/locate/locate.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// The searches. Each fills in what it finds out; the question has been checked,
// and the answer's target is the question's. A search that ends without a
// status has an answer, if only a doubt.
absl::Status SearchNodes(const Question& question, Answer* answer);
absl::Status SearchByBisecting(const Question& question, Answer* answer);
absl::Status SearchLayers(const Question& question, Answer* answer);
absl::Status SearchSamples(const Question& question, Answer* answer);
absl::Status SearchByMixing(const Question& question, const Session& reference,
                            Answer* answer);
absl::Status SearchBesideModel(const Question& question, Answer* answer);
absl::Status SearchBetweenBuilds(const Question& question, Answer* answer);
absl::Status SearchInSeries(const Question& question, Answer* answer);
absl::Status SearchDump(const Question& question, Answer* answer);
absl::Status SearchDumpBesideModel(const Question& question, Answer* answer);
absl::Status SearchBetweenDumps(const Question& question, Answer* answer);
absl::Status SearchInProgram(const Question& question, Answer* answer);
absl::Status SearchByProgram(const Question& question, Answer* answer);
absl::Status SearchTensorsBesideModel(const Question& question, Answer* answer);
// REQUIRES: the target has a network.
absl::Status SearchTwoModels(const Question& question,
                             std::shared_ptr<const Network> reference,
                             Answer* answer);

// --- What they share ---

// Opens another build, with the sizes of the target's inputs where the spec has
// no inputs.
absl::StatusOr<Session> OpenReference(const Session& target,
                                      const TargetSpec& spec,
                                      DiagnosticList* diagnostics);
// Opens the build for an answer: `side` is what messages call the build, and
// faults of a model become doubts. Then there is no session.
absl::StatusOr<std::optional<Session>> OpenBuild(const Question& question,
                                                 const TargetSpec& spec,
                                                 std::string_view side,
                                                 Answer* answer);

// Reads the model that is taken for right; null if its faults became doubts.
absl::StatusOr<std::shared_ptr<const Network>> NetworkOfReference(
    const Question& question, Answer* answer);

// Returns whether both are one model, constants and names of values included.
bool AreOneModel(const Network& a, const Network& b);
// Returns whether the reference is the file that the target was read from, in
// which only sizes may be known that are open in the other.
bool IsOwnFile(const Question& question);

// Compares what both sides say, and returns whether they say the same.
bool AreSidesAlike(const GraphTarget& target, const GraphTarget& reference,
                   Answer* answer);

// Calls the question's progress with `what`.
std::function<void(size_t done, size_t total)> ProgressOf(
    const Question& question, std::string_view what);

// Returns the index of a target's graph, which keeps the target.
std::shared_ptr<const GraphIndex> IndexOf(
    std::shared_ptr<const GraphTarget> target);

// Takes what was located as the answer's verdicts, culprits and notes, and says
// whether the outputs are wrong and no node is to blame.
void TakeLocated(LocateResult located, bool judged_all, Answer* answer);
// Does so with what matching values showed.
void TakeByValue(ValueEvidence evidence, Answer* answer);

void AddNotes(const std::vector<std::string>& notes, Answer* answer);

// Adds a doubt where nothing was found and an input holds a NaN, beyond which
// nothing can be judged. For searches that do not look at what nodes read.
void AddNanInputDoubt(absl::Span<const NamedTensor> inputs, Answer* answer);

// Writes each culprit as a folder, if the question says so.
absl::Status WriteCulprits(const Question& question, Answer* answer);

// Writes each culprit of a target whose nodes do not say what they compute as a
// folder where the question says: the node with what it read in the first of
// the recorded runs that shows it, beside the part of the network that it
// stands for. A note says which cannot be written, and why. The inputs of the
// target that show one are written, too, if the given ones do not. REQUIRES:
// the answer has ValueEvidence of these runs.
absl::Status WriteValueRepros(const Question& question, const Session& session,
                              const std::vector<RecordedPair>& recorded,
                              Answer* answer);

}  // namespace nodewise
