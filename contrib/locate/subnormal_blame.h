#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/locate.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// What a node makes else of subnormal numbers is a remark, unless an output of
// the network is beyond its tolerance because of it.

// The findings of a run of the graph.
struct JudgedRun {
  const GraphIndex& index;
  const OpSet& operators;
  TensorSource& run;  // Is visited again.
  absl::Span<const NDArray> reference_outputs;
  size_t most_tried;
};

// If outputs are wrong and no node is to blame, has the reference go on with
// what each node made whose difference is a remark, and makes those culprits
// with which that has wrong outputs, too. Adds notes about the others. Fails as
// CheckNodes() does.
absl::Status BlameForSubnormals(const JudgedRun& judged, LocateResult* result);

}  // namespace nodewise
