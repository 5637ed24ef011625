#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Looks for nodes that do what harms others: write to memory that is not their
// own, change what they are told of tensors or what all code of a process
// shares, leave threads behind that do such things. Nothing that they spoil is
// spoiled in this process.
class StrayWriteSearch {
 public:
  // Begins a run of the network in a child, with guarded memory around every
  // tensor (Sanitize()), which goes on while this process does something else.
  // Fails if there can be no child, and as MatchInputs(). The target must
  // outlive the search. REQUIRES: all devices of the target are CPUs.
  static absl::StatusOr<std::unique_ptr<StrayWriteSearch>> Start(
      const GraphTarget& target, absl::Span<const NamedTensor> inputs,
      int64_t limit_ms);

  // Waits for the end of the run and returns the nodes that wrote astray, in
  // its order, each once; none where the child does not come to an end, since
  // that has other causes, which other runs find. Called once.
  absl::StatusOr<std::vector<NodeFailure>> Finish();

 private:
  StrayWriteSearch(const GraphTarget& target, std::unique_ptr<PipedRun> child,
                   int64_t limit_ms)
      : target_(target), child_(std::move(child)), limit_ms_(limit_ms) {}

  const GraphTarget& target_;
  const std::unique_ptr<PipedRun> child_;
  const int64_t limit_ms_;
};

}  // namespace nodewise
