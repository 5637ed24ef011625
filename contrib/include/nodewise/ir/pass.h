#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// A change of a network.
struct Pass {
  std::string name;
  std::function<absl::Status(Network& network)> run;
};

struct PassOptions {
  // When a pass fails, or leaves faults, the network before and after it is
  // written to this folder: PASS.before.txt, PASS.after.txt. Empty: nowhere.
  std::string folder;
};

// A warning about the network that was not there before a pass.
struct PassFinding {
  std::string pass;
  Finding finding;
};

// Runs the passes one after the other, and Verify() after each. Returns what
// each of them has left: operations and inputs that no output depends on any
// more, outputs that depend on no input, inputs that are gone, outputs that no
// operation makes any more. An error names the pass and where the networks were
// written; the network is then as it was before that pass, also if the pass has
// thrown.
absl::StatusOr<std::vector<PassFinding>> RunPasses(
    absl::Span<const Pass> passes, const PassOptions& options,
    Network& network);

// Finds chains of operations, each of which reads an output of the one before
// it that nothing else reads: FindChains(network, {"DequantizeLinear",
// "Conv"}).
struct ChainOptions {
  bool only_user = true;  // False: others may read it too.
};
std::vector<std::vector<OperationId>> FindChains(
    const Network& network, absl::Span<const std::string_view> kinds,
    const ChainOptions& options = {});

}  // namespace nodewise
