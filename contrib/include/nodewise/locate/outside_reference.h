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

// Names the nodes by which a compiled network differs from another runner of
// the same model, a foreign runtime say, which is taken for right. It has no
// bounds, so a tolerance judges; and since it may be wrong itself, the
// definitions of the operators are the referee for each node that it accuses:
// two against one.

// The request for a search. Everything must outlive the call.
struct OutsideReferenceRequest {
  const GraphIndex& index;  // The candidate's graph, with its plan.
  const OpSet& operators;
  CandidateMakers makers;  // All of them are needed.
  // Makes runners with the capability kTensors, which hand values out under the
  // names that the operations in the candidate's nodes give them. It has the
  // same inputs, and its outputs are in the candidate's order.
  RunnerMaker reference;
  std::string reference_name;  // What reasons call it: "ort:model.onnx".
  std::vector<NamedTensor> inputs;
};

// A node that makes something else than the reference of equal inputs.
struct OutsideAccusation {
  size_t report = 0;  // In LocateResult::nodes.
  // Whom the definitions of its operators stand with, within their bounds:
  // kReference makes the node a culprit.
  RefereeSide side = RefereeSide::kNotAsked;
  std::string why_not;  // For kNotAsked.
  // How far the definitions are from each, as RelativeError().
  double from_reference = 0;
  double from_candidate = 0;
};

struct OutsideLocated {
  // `outputs` and what is accumulated are against the outside reference. Only
  // `isolated` and `accumulated` count as evidence, by the tolerance; the
  // shares of culprits are with its values in their place.
  LocateResult result;
  std::vector<OutsideAccusation> accusations;  // In the order of the nodes.
};

// Runs the reference twice, with its values handed out and without, and the
// candidate once. Nodes that are off then run alone, on the reference's values
// and with memory of their own. All values of the reference are kept meanwhile.
// Fails as the runners do, and with kFailedPrecondition if the reference hands
// out nothing that a node makes.
absl::StatusOr<OutsideLocated> LocateByOutsideReference(
    const OutsideReferenceRequest& request, const LocateOptions& options = {});

}  // namespace nodewise
