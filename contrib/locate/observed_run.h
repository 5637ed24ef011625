#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contrib/locate/run_hashes.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// A source each of whose visits runs a runner once, with what nodes read.
class ObservedRun : public TensorSource {
 public:
  // `hashes` gets the tensors, too, unless it is null. All must outlive it.
  ObservedRun(Runner& runner, const std::vector<NamedTensor>& inputs,
              HashSink* hashes = nullptr);
  // Runs with these patches.
  ObservedRun(Runner& runner, const std::vector<NamedTensor>& inputs,
              std::vector<TensorPatch> patches);

  // How long a node may take: RunOptions::node_limit_ms.
  void SetNodeLimit(int64_t limit_ms) { node_limit_ms_ = limit_ms; }

  const std::string& name() const override { return runner_.name(); }
  absl::Status Visit(TensorSink& sink) override;
  // The network's outputs in the last visit.
  const std::vector<NamedTensor>& outputs() const { return outputs_; }
  // The nodes that left the floating-point environment changed in it.
  const std::vector<NodeFloats>& floats() const { return floats_; }
  // What ran it, as RunResult::runtime.
  const std::string& runtime() const { return runtime_; }

 private:
  Runner& runner_;
  const std::vector<NamedTensor>& inputs_;
  HashSink* const hashes_;
  const std::vector<TensorPatch> patches_;
  int64_t node_limit_ms_ = RunOptions().node_limit_ms;
  std::vector<NamedTensor> outputs_;
  std::vector<NodeFloats> floats_;
  std::string runtime_;
};

// A run that may end at a node that fails: what it has handed out until then is
// all there is. Any other failure is one.
class CutRun : public TensorSource {
 public:
  explicit CutRun(ObservedRun* run) : run_(*run) {}

  const std::string& name() const override { return run_.name(); }
  absl::Status Visit(TensorSink& sink) override;

 private:
  ObservedRun& run_;
};

// Hashes what several runs hand out, one after the other, but for the outputs
// as the caller gets them.
class RunsSink : public TensorSink {
 public:
  // The index must outlive it.
  explicit RunsSink(const GraphIndex& index) : index_(index) {}

  absl::Status Take(const TensorItem& item) override;
  // Returns the runs, also one that has not come to its end.
  std::vector<RunHashes> Finish();
  // Returns how many runs have begun.
  size_t begun() const { return runs_.size(); }

 private:
  const GraphIndex& index_;
  std::optional<TensorKey> first_;  // The first tensor of every run.
  std::vector<HashSink> runs_;
};

}  // namespace nodewise
