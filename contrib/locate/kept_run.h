#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contrib/locate/run_hashes.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// The request for a run of the candidate.
struct KeptRunOptions {
  std::vector<EntryId> keeps;  // Tensors that are kept, in host memory.
  // The run may end behind this node, if the runner can do that, and nothing
  // but `keeps` is looked at. None: the whole network runs, and all that it
  // makes and reads is hashed.
  std::optional<NodeId> last;
  std::vector<TensorPatch> patches = {};
  int64_t node_limit_ms = RunOptions().node_limit_ms;
};

// A source each of whose visits runs the candidate once, keeps tensors and
// hashes what it sees.
class KeptRun : public TensorSource {
 public:
  // All must outlive it.
  KeptRun(Runner& runner, const GraphIndex& index,
          const std::vector<NamedTensor>& inputs, KeptRunOptions options);

  const std::string& name() const override { return runner_.name(); }
  absl::Status Visit(TensorSink& sink) override;
  // Visits without a sink: only what is kept and hashed is wanted.
  absl::Status Run();

  // These are of the last visit. Outputs are there if the whole network ran.
  const std::vector<NamedTensor>& outputs() const { return outputs_; }
  const RunHashes& hashes() const { return hashes_; }
  ByEntry<NDArray>& kept() { return kept_; }

 private:
  class Sink;

  RunOptions OptionsOfRun() const;

  Runner& runner_;
  const GraphIndex& index_;
  const std::vector<NamedTensor>& inputs_;
  const KeptRunOptions options_;
  std::vector<NamedTensor> outputs_;
  RunHashes hashes_;
  ByEntry<NDArray> kept_;
};

}  // namespace nodewise
