#pragma once

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

  const std::string& name() const override { return runner_.name(); }
  absl::Status Visit(TensorSink& sink) override;
  // The network's outputs in the last visit.
  const std::vector<NamedTensor>& outputs() const { return outputs_; }

 private:
  Runner& runner_;
  const std::vector<NamedTensor>& inputs_;
  HashSink* const hashes_;
  const std::vector<TensorPatch> patches_;
  std::vector<NamedTensor> outputs_;
};

// Runs once and returns the hashes of everything.
absl::StatusOr<RunHashes> HashesOfRun(Runner& runner, const GraphIndex& index,
                                      const std::vector<NamedTensor>& inputs);

}  // namespace nodewise
