#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/by_node.h"
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

}  // namespace nodewise
