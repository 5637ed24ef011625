#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/locate/locate.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// The reference may be wrong itself. Where it accuses a node, a third runner
// can be asked: it computes the node again from what that read, and stands
// either with the reference or with the candidate, two against one.

enum class RefereeSide {
  kReference,  // The accusation stands.
  kCandidate,  // The reference may be wrong.
  kBoth,       // Each is as near as the definition asks for.
  kNeither,    // Three results.
  kNotAsked,   // It could not compute the node.
};
// Returns "agrees with the reference", ...
std::string_view NameOf(RefereeSide side);

struct RefereeOpinion {
  size_t culprit = 0;  // In LocateResult::culprits.
  RefereeSide side = RefereeSide::kNotAsked;
  std::string why_not;  // For kNotAsked.
  // How far the referee is from each, as RelativeError(), the largest of the
  // node's outputs.
  double from_reference = 0;
  double from_candidate = 0;
};

// Makes a runner of a network, which is one node's.
using RefereeMaker = std::function<absl::StatusOr<std::unique_ptr<Runner>>(
    std::shared_ptr<const Network> network)>;

// Runs the candidate once more, and asks the referee about each culprit that is
// broken; there is an opinion for each of these. Fails as the candidate does;
// what the referee fails with is in its opinion.
absl::StatusOr<std::vector<RefereeOpinion>> AskReferee(
    const LocateRequest& request, const LocateResult& result,
    const RefereeMaker& referee);

}  // namespace nodewise
