#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// The hashes of all tensors of a run: enough to tell whether two runs did the
// same, and whether what a node read is what was made for it. None for what the
// run has not handed out.
struct RunHashes {
  using Hash = std::optional<uint64_t>;
  ByEntry<Hash> made;
  ByNode<std::vector<Hash>> read;  // By node and input.
  std::vector<Hash> outputs;       // As the caller got them.
};

// Hashes what a run hands out.
class HashSink : public TensorSink {
 public:
  // The index must outlive it.
  explicit HashSink(const GraphIndex& index);

  absl::Status Take(const TensorItem& item) override;
  // Hashes the outputs and returns all.
  RunHashes Finish(absl::Span<const NamedTensor> outputs);

 private:
  const GraphIndex& index_;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  RunHashes hashes_;
};

// A tensor that was written over while a node or the caller still had to read
// it.
struct Overwriting {
  EntryId victim{};
  // The node that read something else; the number of nodes if it was read as an
  // output of the graph.
  NodeId reader{};
  // The first node after the victim was made that the plan lets write to its
  // memory; the number of nodes if there is none.
  NodeId writer{};
};

// Returns what a run shows to have been written over, by reader. The plan is
// that of the run.
std::vector<Overwriting> FindOverwritten(const GraphIndex& index,
                                         const StoragePlan& plan,
                                         const RunHashes& run);

// Returns whether a node made the same bits in the other run; true if it read
// others.
bool IsSteady(const Graph& graph, NodeId node, const RunHashes& run,
              const RunHashes& other);

}  // namespace nodewise
