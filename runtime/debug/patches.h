#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Contents that entries are given in place of what their nodes make. A patch
// belongs to a base entry: entries that are the same tensor have one in common.
class Patches {
 public:
  // Both must outlive the object.
  Patches(const Graph& graph, const StoragePlan& plan)
      : graph_(graph), plan_(plan) {}

  bool empty() const { return patches_.empty(); }
  size_t size() const { return patches_.size(); }
  void Clear() { patches_.clear(); }
  // Takes the place of an earlier patch of the entry.
  void Set(EntryId base, NDArray contents);

  bool Has(EntryId entry) const;
  // Whether all outputs of the node are patched: it need not be called.
  bool Replace(NodeId node) const;

  // Where an entry lies now.
  using TensorOf = absl::FunctionRef<const DLTensor&(EntryId)>;
  // Writes the patch of a base entry, or those of all the node's outputs, to
  // where they lie. REQUIRES: the base entry has one.
  absl::Status WriteEntry(EntryId base, TensorOf tensor_of) const;
  absl::Status WriteOutputs(NodeId node, TensorOf tensor_of) const;

  // By node, of those before `end`: whether it reads, near or far, what a patch
  // changed.
  std::vector<bool> Dependents(NodeId end) const;

 private:
  struct Patch {
    EntryId base;
    NDArray contents;
  };

  static absl::Status Write(const Patch& patch, TensorOf tensor_of);

  const Graph& graph_;
  const StoragePlan& plan_;
  std::vector<Patch> patches_;
};

}  // namespace nodewise
