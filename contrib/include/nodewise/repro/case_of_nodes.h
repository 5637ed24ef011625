#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Cases of several nodes, for failures that no node shows by itself.

struct EarlierOptions {
  // How often sets of nodes are tried at most.
  uint64_t most_runs = 64;
  // Memory for what earlier nodes read.
  uint64_t most_bytes = uint64_t{1} << 30;
  // How long all tries that hang may take together.
  int64_t most_hanging_ms = 60'000;
};

// Looks for nodes before the one of a case without which it does not fail,
// since their functions leave something behind in variables of the library.
// Sets of 1, 2, 4, ... nodes before it are tried until the failure is back, and
// then the nodes that are not needed are left out. All that they read is as in
// the network. If that succeeds the case has these nodes and fails alone; else
// it stays as it is. REQUIRES: `node` is the case's; it has a failure, or is
// judged and not wrong. Fails as runs of the network do.
absl::Status AddEarlierNodes(const ReproSource& source, NodeId node,
                             Runner& runner,
                             absl::Span<const NamedTensor> inputs,
                             const EarlierOptions& options,
                             ReproCase* node_case);

// A node that writes over a tensor which another node still reads.
struct PlanFault {
  NodeId writer{};
  EntryId victim{};
  NodeId reader{};  // The number of nodes for the caller.
};

// Cuts out the node that makes the victim, the writer and the reader, with a
// graph in which the tensors lie over each other as in the network, and nothing
// else does. The case has what the reader makes, and what it should make. Fails
// with kUnimplemented, in words, where fewer nodes do not show the fault: the
// storage ids of the graph do not say that both lie in one place, or a node
// does not say what it computes.
absl::StatusOr<ReproCase> CutPlanFault(const ReproSource& source,
                                       const PlanFault& fault, Runner& runner,
                                       absl::Span<const NamedTensor> inputs);

// Cases of nodes that do not say what they compute, for callers that know it
// from elsewhere.

struct PartOfGraph {
  std::vector<NodeId> nodes;  // In the order of the graph.
  EntryId head{};             // Made by the last of them.
};

struct PartCase {
  // A case of all these nodes, under their own names, with `head` as its
  // output. It has no region and no reference yet.
  ReproCase node_case;
  std::vector<EntryId> reads;  // By input of the case.
};

// Cuts nodes out with what they read of others, which `tensor_of` returns: its
// errors are returned as they are. A tensor that is constant becomes a
// parameter.
absl::StatusOr<PartCase> CutPart(
    const ReproSource& source, const PartOfGraph& part,
    absl::FunctionRef<absl::StatusOr<NDArray>(EntryId entry)> tensor_of,
    absl::FunctionRef<bool(EntryId entry)> is_constant);

}  // namespace nodewise
