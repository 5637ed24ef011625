#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nodewise/debug/run_observer.h"
#include "nodewise/dump/dump.h"

namespace nodewise {

// Hands what a pass does to the writer of its dump.
class RecordingObserver : public NodeObserver {
 public:
  // `is_alone`: no other observer watches the pass, so that nothing runs
  // between two nodes.
  RecordingObserver(RunView run, std::shared_ptr<const DumpPlan> plan,
                    RecordOptions options, bool is_alone)
      : run_(run),
        plan_(std::move(plan)),
        options_(std::move(options)),
        is_alone_(is_alone) {}

  absl::Status Open();
  const std::string& folder() const { return writer_->folder(); }
  absl::Status Close(absl::Span<const NodeTime> times) {
    return writer_->Close(times);
  }

  absl::Status BeforePass(const RunView& run) override;
  absl::Status BeforeNode(const NodeRun& node) override;
  absl::Status AfterNode(const NodeRun& node) override;

 private:
  const RunView run_;
  const std::shared_ptr<const DumpPlan> plan_;
  const RecordOptions options_;
  const bool is_alone_;
  std::unique_ptr<DumpWriter> writer_;
};

}  // namespace nodewise
