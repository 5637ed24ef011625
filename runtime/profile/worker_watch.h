#pragma once

#include <mutex>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// Sees which thread of the pool works when, node by node, from its making to
// its end. Tasks of somebody else's that lie inside a node's time count as the
// node's. There is one at a time in a process: making another waits.
class WorkerWatch : public NodeObserver {
 public:
  // The thread that makes it is worker 0.
  WorkerWatch();
  ~WorkerWatch() override;

  absl::Status BeforeNode(NodeId node) override;
  absl::Status AfterNode(NodeId node, NodeTime time) override;

  // In the order of nodes.
  std::vector<WorkerSpan> TakeSpans();

 private:
  const std::unique_lock<std::mutex> turn_;
  std::vector<WorkerSpan> spans_;
};

}  // namespace nodewise
