#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/module/module.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// Two builds of one network in one: each node has the functions of both, and
// calls the one that is chosen. The choice may change between runs, so that a
// search over mixtures makes one executor. Everything else (storage,
// parameters, devices) is the candidate's.
//
// Not thread-safe: runs of the target read what Choose() writes.
class MixedTarget {
 public:
  // Both keep their libraries loaded. Nodes are paired by their keys. Fails
  // with kInvalidArgument, naming a node that only one side has, or whose
  // numbers of inputs and outputs differ; and as GraphTarget::FromArtefact().
  static absl::StatusOr<MixedTarget> Create(const GraphTarget& candidate,
                                            const GraphTarget& reference);

  // Its graph has the nodes of the candidate's, with the same numbers. At
  // first, all nodes call the reference's functions.
  const std::shared_ptr<const GraphTarget>& target() const { return target_; }

  // Chooses for each node of the candidate's graph whether the next runs call
  // the candidate's function.
  void Choose(const ByNode<bool>& from_candidate);

 private:
  MixedTarget(std::shared_ptr<const GraphTarget> target,
              std::shared_ptr<std::vector<char>> sides)
      : target_(std::move(target)), sides_(std::move(sides)) {}

  std::shared_ptr<const GraphTarget> target_;
  // By node: whether the candidate's function is called. Functions have it too.
  std::shared_ptr<std::vector<char>> sides_;
};

// The reference in the place of some nodes of a compiled network: a node that
// cannot run here, or that is suspected, is computed by the definitions of its
// operators, and all others by their own functions. Only nodes that say what
// they compute can be replaced, as those of Lower() and of compiled C do.

// Returns whether the reference stands in for a node.
using NodeChoice = std::function<bool(const std::string& node_name)>;

// Returns a library that has the functions of another one, which it keeps, but
// binds the nodes that `replaces` chooses to kernels of the reference. Nodes
// are called as they call themselves in what they say; in a graph of the
// WithStandIns() below, by their GraphIndex::KeyOf(). A node without a name is
// never replaced. Binding fails with kUnimplemented, naming the node, if a node
// is chosen that does not say what it computes, or something unsound.
Ref<Library> WithStandIns(Ref<Library> library, const OpSet& ops,
                          NodeChoice replaces);

// Returns the target with such a library; its graph is the same but for marks
// by which the library knows the nodes. Nodes that only give a tensor another
// shape or place (__nop, __copy) stay as they are. Fails as
// GraphTarget::FromArtefact(); nodes are bound when an executor is made.
absl::StatusOr<std::shared_ptr<const GraphTarget>> WithStandIns(
    const GraphTarget& target, const OpSet& ops, NodeChoice replaces);

}  // namespace nodewise
