#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Hands what a pass does to the writer of its dump.
class Recorder : public NodeObserver {
 public:
  // The executor must outlive the recorder. `is_alone`: nobody else watches the
  // pass, so that nothing runs between two nodes.
  Recorder(const DebugExecutor* executor, std::shared_ptr<const DumpPlan> plan,
           RecordOptions options, bool is_alone)
      : executor_(*executor),
        plan_(std::move(plan)),
        options_(std::move(options)),
        is_alone_(is_alone) {}

  absl::Status Open();
  const std::string& folder() const { return writer_->folder(); }
  absl::Status Close(absl::Span<const NodeTime> times) {
    return writer_->Close(times);
  }

  absl::Status BeforePass() override;
  absl::Status BeforeNode(NodeId node) override;
  absl::Status AfterNode(NodeId node, NodeTime time) override;

 private:
  const DebugExecutor& executor_;
  const std::shared_ptr<const DumpPlan> plan_;
  const RecordOptions options_;
  const bool is_alone_;
  std::unique_ptr<DumpWriter> writer_;
};

}  // namespace nodewise
