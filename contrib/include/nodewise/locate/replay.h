#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/locate/locate.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Names the node that made a run wrong, from the run's dump on disk: nothing of
// it runs again, and what it ran on need not be at hand.

struct ReplayOptions {
  // Called with the nodes that the reference has computed, and their number.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// Computes each node of a dump with the reference, from the tensors that were
// recorded for it to read, and compares what it makes with what was recorded.
// `path` is as OpenDump() takes it. The nodes of the dump's graph must say what
// they compute, as those of Lower() do. No more tensors are in memory at once
// than a run needs.
//
// If the recorded hashes say that a node did not read what had been made for
// it, a node that the storage plan lets write there is a plan fault; what the
// reader makes of it is inconclusive, since it is unknown what lay there.
//
// Nodes whose tensors are not all in the dump are inconclusive, with the
// reason. Only a complete dump says what nodes inherit, and has outputs to
// compare.
//
// Fails as OpenDump(); with kNotFound if the dump has no graph that can be run;
// with kDataLoss if it is cut short, if it is not of that graph, or if a tensor
// is not what was hashed; and with kFailedPrecondition, giving a reason, if no
// node can be judged.
absl::StatusOr<LocateResult> ReplayDump(const std::string& path,
                                        const OpSet& operators,
                                        const ReplayOptions& options = {});

}  // namespace nodewise
