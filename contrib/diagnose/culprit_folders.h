#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/align/alignment.h"
#include "nodewise/diagnose/answer.h"

namespace nodewise {

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
