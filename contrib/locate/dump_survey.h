#pragma once

#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "contrib/locate/run_hashes.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Finds out what a dump has of the run of a graph, and whether it is of that
// graph at all.
class DumpSurvey : public TensorSink {
 public:
  // The index must outlive it.
  explicit DumpSurvey(const GraphIndex& index);

  // Fails with kDataLoss for what the graph does not have, or has of another
  // type, and for a tensor that is not what was hashed.
  absl::Status Take(const TensorItem& item) override;

  bool Has(EntryId entry) const { return has_[entry]; }
  bool HasAll() const;
  // Returns why the node cannot be judged; empty if all tensors that it read
  // and made are there.
  std::string WhyNot(NodeId node) const;
  // Hashes of older dumps, which have another function, are left out.
  const RunHashes& hashes() const { return hashes_; }
  bool HasReadHashes() const { return has_read_hashes_; }
  // Returns whether all that the node read was hashed.
  bool HasReadHashesOf(NodeId node) const;

 private:
  absl::Status TakeMade(const TensorItem& item, EntryId entry);
  absl::Status CheckType(const TensorItem& item, EntryId entry) const;

  const GraphIndex& index_;
  const Graph& graph_;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  ByEntry<bool> has_;
  ByEntry<std::string> why_absent_;
  RunHashes hashes_;
  bool has_read_hashes_ = false;
};

}  // namespace nodewise
