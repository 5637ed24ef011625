#pragma once

#include <mutex>
#include <vector>

#include "nodewise/debug/run_observer.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// Sees which thread of the pool works when, node by node, for as long as it
// lives. Tasks of other launches within a node's time count as the node's.
// There is one at a time in a process: constructing another waits.
class WorkerObserver : public NodeObserver {
 public:
  // The constructing thread is worker 0.
  WorkerObserver();
  ~WorkerObserver() override;

  absl::Status BeforeNode(const NodeRun& node) override;
  absl::Status AfterNode(const NodeRun& node) override;

  // Returns the spans, in the order of nodes.
  std::vector<WorkerSpan> TakeSpans();

 private:
  const std::unique_lock<std::mutex> turn_;
  std::vector<WorkerSpan> spans_;
};

}  // namespace nodewise
