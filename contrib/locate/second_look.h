#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// A second look at nodes that look wrong or odd: another one may be to blame,
// or none.

// A value that was handed out wrong, and whose error has no consequence.
struct Misreported {
  NodeId node{};  // The node that makes it.
  // Some of those that read it are wrong on what was handed out: so they were
  // given something else.
  bool is_seen = false;
  std::vector<NodeId> readers = {};  // That are wrong only on that.
};

// Returns which of the nodes, wrong by `checks`, are so only in what is handed
// out for them: a runtime that computes two operations as one may hand out the
// second result for the first, or memory that it has written over since. The
// nodes that read the value tell: each made what it should of the right value.
// REQUIRES: `checks` was made with NodeCheckOptions::asks_readers.
std::vector<Misreported> FindMisreported(const GraphIndex& index,
                                         const NodeChecks& checks,
                                         absl::Span<const NodeId> nodes);

// The findings of a run of the graph.
struct JudgedRun {
  const GraphIndex& index;
  const OpSet& operators;
  TensorSource& run;  // Is visited again.
  absl::Span<const NDArray> reference_outputs;
  size_t most_tried;
};

// A node that makes something else of subnormal numbers gets a remark, unless
// an output of the network is beyond its tolerance because of it: if outputs
// are wrong and no node is to blame, has the reference go on with what each
// node made whose difference is a remark, and makes those culprits with which
// that has wrong outputs, too. Adds notes about the others. Fails as
// CheckNodes() does.
absl::Status BlameForSubnormals(const JudgedRun& judged, LocateResult* result);

}  // namespace nodewise
