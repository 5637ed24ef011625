#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Runs that are looked at, and what they show.

// Finds the nodes of a graph by the keys of what runs hand out.
class KeyedNodes {
 public:
  explicit KeyedNodes(const GraphIndex& index);

  // Returns the node that made or read it; none if the graph has none of that
  // key.
  std::optional<NodeId> NodeOf(const TensorItem& item) const;
  // Returns the entry that it is; none for what a node has read, and for what
  // the graph does not have.
  std::optional<EntryId> MadeEntryOf(const TensorItem& item) const;

 private:
  const Graph& graph_;  // Must outlive this.
  std::unordered_map<std::string, NodeId> nodes_;
};

// The hashes of all tensors of a run: enough to tell whether two runs did the
// same, and whether what a node read is what was made for it. None for what the
// run has not handed out.
struct RunHashes {
  using Hash = std::optional<uint64_t>;

  RunHashes() = default;
  // Without hashes, but with a place for each.
  explicit RunHashes(const Graph& graph);

  ByEntry<Hash> made;
  ByNode<std::vector<Hash>> read;  // By node and input.
  std::vector<Hash> outputs;       // As the caller got them.
};

// Hashes what a run hands out.
class HashSink : public TensorSink {
 public:
  // The index must outlive it.
  explicit HashSink(const GraphIndex& index)
      : nodes_(index), hashes_(index.graph()) {}

  absl::Status Consume(const TensorItem& item) override;
  // Hashes the outputs and returns all.
  RunHashes Finish(absl::Span<const NamedTensor> outputs);

 private:
  const KeyedNodes nodes_;
  RunHashes hashes_;
};

// A tensor that was written over while a node or the caller still had to read
// it.
struct Overwriting {
  EntryId victim{};
  // The node that read something else; the number of nodes if it was read as an
  // output of the graph.
  NodeId reader{};
  // The first node after the victim was made that the plan lets write to its
  // memory; the number of nodes if there is none.
  NodeId writer{};
};

// Returns what a run shows to have been written over, by reader. The plan of
// the index is that of the run.
std::vector<Overwriting> FindOverwritten(const GraphIndex& index,
                                         const RunHashes& run);

// Returns whether a node made the same bits in the other run; true if it read
// others.
bool IsSteady(const Graph& graph, NodeId node, const RunHashes& run,
              const RunHashes& other);

// The request for a run that is looked at.
struct ObserveOptions {
  std::vector<EntryId> keeps = {};  // Tensors that are kept, in host memory.
  // The run may end behind this node, if the runner can do that, and nothing
  // but `keeps` is looked at. None: the whole network runs.
  std::optional<NodeId> last = std::nullopt;
  std::vector<TensorPatch> patches = {};
  bool with_node_inputs = true;
  bool with_hashes = false;
  // It may end at a node that fails: what it has handed out until then is all
  // there is. Any other failure is one.
  bool may_be_cut = false;
  int64_t node_limit_ms = RunOptions().node_limit_ms;
};

// A source each of whose visits runs a runner once.
class ObservedRun : public TensorSource {
 public:
  // All but the options must outlive it.
  ObservedRun(Runner& runner, const GraphIndex& index,
              const std::vector<NamedTensor>& inputs, ObserveOptions options);

  const std::string& name() const override { return runner_.name(); }
  absl::Status Visit(TensorSink& sink) override { return VisitWith(&sink); }
  // Visits without a sink: only what is kept and hashed is wanted.
  absl::Status Run() { return VisitWith(nullptr); }

  // These are of the last visit.
  const RunResult& result() const { return result_; }
  const RunHashes& hashes() const { return hashes_; }
  ByEntry<NDArray>& kept() { return kept_; }

 private:
  absl::Status VisitWith(TensorSink* sink);
  RunOptions OptionsOfRun() const;

  Runner& runner_;
  const GraphIndex& index_;
  const std::vector<NamedTensor>& inputs_;
  const ObserveOptions options_;
  RunResult result_;
  RunHashes hashes_;
  ByEntry<NDArray> kept_;
};

}  // namespace nodewise
