#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Writes each culprit of a target whose nodes do not say what they compute as a
// folder in DIR: the node with what it read in the first of the recorded runs
// that shows it, beside the part of the network that it stands for. A note says
// which cannot be written, and why. The inputs of the target that show one are
// written, too, if the given ones do not. The document has `repros` and
// `kept_inputs`.
absl::Status WriteValueRepros(const Session& loaded, const Network& network,
                              const std::vector<RecordedPair>& recorded,
                              const ValueLocateResult& located,
                              const std::string& dir, Outcome* outcome);

}  // namespace nodewise
