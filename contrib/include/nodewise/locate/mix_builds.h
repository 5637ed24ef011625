#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/locate.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// Finds the functions that make a build of a network differ from another one
// which is right. It need not be known what nodes compute: functions of both
// are mixed until the guilty ones are left, and the outputs of the right build
// judge. bisect.h asks the same question of nodes instead of functions.

struct MixOptions {
  // As LocateOptions::node_limit_ms.
  int64_t node_limit_ms = 60'000;
  // As BisectOptions::progress.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// A function that nodes of one kind call: in the candidate and in the
// reference, where it may have another name.
struct MixedFunction {
  std::string candidate;
  std::string reference;
  std::vector<NodeId> nodes;  // Nodes of the candidate's graph, in its order.
};

// A function of the candidate that is to blame.
struct GuiltyFunction {
  size_t function = 0;  // In MixResult::functions.
  // Others without which it does no harm, as far as more than half of the error
  // goes: in MixResult::functions.
  std::vector<size_t> together_with;
};

struct MixResult {
  std::vector<MixedFunction> functions;  // In the order of their first nodes.
  // A question's number is that of functions which are the candidate's, and
  // `last` is the name of the last of them.
  std::vector<BisectQuestion> questions;
  size_t runs = 0;  // Runs of whole networks, mixtures or not.
  // In the order of LocateResult::culprits, each of which is the node that
  // ended a run, or the first node of its function that makes something else,
  // or the first at all.
  std::vector<GuiltyFunction> guilty;
  // With all functions of the reference, the candidate makes the same error all
  // the same: it is in how its tensors share memory.
  bool is_in_storage = false;
  LocateResult located;
};

// Mixes two builds of one network: their nodes have the same keys, and their
// inputs and parameters are equal (CompareSides() says whether). Several guilty
// functions are all found, each with a few questions more. Where all is on a
// CPU, each run has a process of its own: a function of the candidate that ends
// one is guilty, and the reference's stands in for it in all mixtures
// (LocateResult::stand_ins); a mixture in which one of the reference's does
// counts as all wrong. Fails as MixedTarget::Create() and runs do, also of the
// reference as it is, and with kFailedPrecondition if one of the builds makes
// other bits when it runs again.
absl::StatusOr<MixResult> MixBuilds(
    std::shared_ptr<const GraphTarget> candidate,
    std::shared_ptr<const GraphTarget> reference,
    const std::vector<NamedTensor>& inputs, const MixOptions& options = {});

}  // namespace nodewise
