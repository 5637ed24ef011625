#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/locate.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Finds the node that makes a run wrong with few questions instead of a look at
// every node. How far two runs are apart does not grow from node to node: a
// Relu may hide an error, and the next layer may enlarge it. So nothing is
// asked about what nodes make. Question k is: the candidate computes the first
// k nodes and the reference the rest; is more than half of the error of the
// network's outputs left? For 0 it is no, for all nodes yes, and so there is a
// node with no before it and yes behind it.

struct BisectOptions {
  // Memory for tensors of the candidate that are kept from one run of it for
  // several questions. Those of one question are kept at least.
  size_t most_bytes = size_t{1} << 30;
  // As LocateOptions::node_limit_ms.
  int64_t node_limit_ms = 60'000;
  // Called with the questions that were asked, and about how many there will
  // be.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// The request for a search. Everything must outlive the call.
struct BisectRequest {
  const GraphIndex& index;  // The candidate's graph, with its plan.
  const OpSet& operators;
  // Makes runners of the graph with the capability kTensors. With kSteps no
  // more is run than is asked for; with kNodeInputs memory that is written over
  // too early is found; with kPatches the culprit is confirmed.
  RunnerMaker candidate;
  std::vector<NamedTensor> inputs;
  // As in LocateRequest: a node that ends a run of such runners as "guarded" is
  // a culprit, the reference stands in for it, and the others are bisected.
  // Where the reference cannot stand in, that node is all that is found.
  StandInMaker with_stand_ins = nullptr;
  std::vector<std::string> stand_ins = {};
};

// A question and its answer.
struct BisectQuestion {
  size_t taken = 0;       // The candidate computes as many.
  std::string last = {};  // The key of the last of these; empty for none.
  // The share of the error of the outputs that is left: 1 for all of it.
  double left = 0;
  // It was asked again, to see whether the answer is the same.
  bool is_repeated = false;
  // Round 0 is about the candidate as it is. The next one is about a run in
  // which what the culprits so far make is replaced, and so on; its shares are
  // of the error in that run.
  size_t round = 0;

  // Whether more than half of the error is left.
  bool is_yes() const { return !(left <= 0.5); }
};

// Whether an error before the one that was found may be masked.
enum class Masking {
  kNone,      // All nodes before it are right on what they read.
  kPossible,  // Some of them could not be judged.
  kCertain,   // Some of them are wrong.
};
// Returns "no", "possible" or "yes".
std::string_view NameOf(Masking masking);

struct BisectResult {
  size_t nodes_on_path = 0;  // Function nodes that the wrong outputs depend on.
  std::vector<BisectQuestion> questions;  // In the order in which they came.
  // How often the candidate and the reference ran, most of them in part, also
  // in turns that a node ended.
  size_t candidate_runs = 0;
  size_t reference_runs = 0;
  // The node where the error first shows: in `located.nodes`. None if outputs
  // are right, or the candidate is not deterministic.
  std::optional<size_t> first;
  Masking masking = Masking::kNone;  // Before `first`.
  // The nodes that were judged: `first` and those before it on the path, or
  // those that are not deterministic; and those that ended runs, or that the
  // reference computes anyway. The culprits are those of them that are to
  // blame; if `first` is none, it only inherits or rounds.
  LocateResult located;

  size_t runs() const { return candidate_runs + reference_runs; }
};

// Asks about log2 of the number of nodes questions, both ends and the answer
// twice, and judges the nodes up to the one that was found by what they read.
// If outputs stay wrong with the culprit replaced, that begins anew. A
// candidate that makes other bits when it runs again is not bisected: the nodes
// that do so are the culprits. Fails as the runner does; with kUnimplemented
// for a runner without kTensors, and if a node on the path does not say what it
// computes; with kFailedPrecondition if the answers change and no node can be
// named.
absl::StatusOr<BisectResult> Bisect(const BisectRequest& request,
                                    const BisectOptions& options = {});

}  // namespace nodewise
