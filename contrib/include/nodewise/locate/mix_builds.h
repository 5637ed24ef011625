#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/locate.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// The cheapest culprits: what differs between two sides before anything runs.

// A compiled network: a graph and its parameters.
struct NetworkSide {
  const Graph& graph;
  const Params& params;
};

struct SideDifference {
  enum class What {
    kInput,      // An input that only one side has, or of another type.
    kParameter,  // A parameter that only one side has, or of other contents.
    kNode,       // A node that only one side has, that reads something else,
                 // makes something else or says that it computes something
                 // else.
  };
  What what = What::kNode;
  std::string name;   // The key of the node, in the candidate where it has it.
  std::string found;  // In the candidate.
  std::string expected;  // In the reference.
};
// Returns "input", "parameter" or "node".
std::string_view NameOf(SideDifference::What what);

// Returns how the candidate differs from the reference, node by node in the
// order of the reference, then what only the candidate has. Nodes are paired by
// their keys. Parameters count as they are and by how much they differ; how
// nodes are stored and what their functions are called makes no difference.
std::vector<SideDifference> CompareSides(const NetworkSide& reference,
                                         const NetworkSide& candidate);

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
