#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// A change of a network.
struct Pass {
  std::string name;
  std::function<absl::Status(Network& network)> run;
};

struct PassOptions {
  // Where a pass that fails, or leaves faults, has the network before and after
  // it written: PASS.before.txt, PASS.after.txt. Empty: nowhere.
  std::string folder;
};

// Runs them one after the other, and Verify() after each. An error names the
// pass, and where the networks were written; the network is then as it was
// before that pass.
absl::Status RunPasses(absl::Span<const Pass> passes,
                       const PassOptions& options, Network& network);

// Operations each of which reads an output of the one before it, where nothing
// else reads it: FindChains(network, {"DequantizeLinear", "Conv"}).
struct ChainOptions {
  bool only_user = true;  // False: others may read it too.
};
std::vector<std::vector<OperationId>> FindChains(
    const Network& network, absl::Span<const std::string_view> kinds,
    const ChainOptions& options = {});

}  // namespace nodewise
