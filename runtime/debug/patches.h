#pragma once

#include <vector>

#include "absl/status/status.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Contents that entries are given in place of what their nodes make. A patch
// belongs to a base entry: entries that are the same tensor have one in common.
class Patches {
 public:
  // The executor of the run must outlive the object.
  explicit Patches(RunView run)
      : run_(run), index_(run.index()), graph_(run.graph()) {}

  bool empty() const { return patches_.empty(); }
  size_t size() const { return patches_.size(); }
  void Clear() { patches_.clear(); }
  // Takes the place of an earlier patch of the entry.
  void Set(EntryId base, NDArray contents);

  bool Has(EntryId entry) const;
  // Whether all outputs of the node are patched: it need not be called.
  bool Replace(NodeId node) const;

  // Writes the patch of a base entry, or those of all the node's outputs, to
  // where they lie. REQUIRES: the base entry has one.
  absl::Status WriteEntry(EntryId base) const;
  absl::Status WriteOutputs(NodeId node) const;

  // Whether a node before `end` reads, near or far, what a patch changed.
  ByNode<bool> Dependents(NodeId end) const;

 private:
  struct Patch {
    EntryId base;
    NDArray contents;
  };

  absl::Status Write(const Patch& patch) const;

  const RunView run_;
  const GraphIndex& index_;
  const Graph& graph_;
  std::vector<Patch> patches_;
};

}  // namespace nodewise
