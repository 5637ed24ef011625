#include "contrib/locate/kept_run.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class IgnoringSink : public TensorSink {
 public:
  absl::Status Take(const TensorItem&) override { return absl::OkStatus(); }
};

}  // namespace

class KeptRun::Sink : public TensorSink {
 public:
  Sink(const GraphIndex& index, const std::vector<EntryId>& keeps,
       ByEntry<NDArray>* kept, TensorSink* next)
      : graph_(index.graph()),
        hashes_(index),
        is_wanted_(graph_),
        kept_(*kept),
        next_(*next) {
    for (const EntryId entry : keeps) {
      is_wanted_[entry] = true;
      const NodeId node = index.NodeOf(entry);
      nodes_.emplace(index.KeyOf(node), node);
    }
  }

  absl::Status Take(const TensorItem& item) override {
    NODEWISE_RETURN_IF_ERROR(hashes_.Take(item));
    NODEWISE_RETURN_IF_ERROR(Keep(item));
    return next_.Take(item);
  }

  RunHashes Finish(absl::Span<const NamedTensor> outputs) {
    return hashes_.Finish(outputs);
  }

 private:
  absl::Status Keep(const TensorItem& item) {
    if (item.key.role == TensorRole::kInput || item.tensor == nullptr) {
      return absl::OkStatus();
    }
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end() ||
        item.key.slot >= graph_.OutputsOf(found->second)) {
      return absl::OkStatus();
    }
    const EntryId entry = graph_.EntryOf(found->second, item.key.slot);
    if (!is_wanted_[entry]) return absl::OkStatus();
    // A new copy is aligned as operators need it.
    NODEWISE_ASSIGN_OR_RETURN(
        kept_[entry], NDArray::Borrow(*item.tensor, nullptr).CopyToHost());
    return absl::OkStatus();
  }

  const Graph& graph_;
  HashSink hashes_;
  ByEntry<bool> is_wanted_;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  ByEntry<NDArray>& kept_;
  TensorSink& next_;
};

KeptRun::KeptRun(Runner& runner, const GraphIndex& index,
                 const std::vector<NamedTensor>& inputs, KeptRunOptions options)
    : runner_(runner),
      index_(index),
      inputs_(inputs),
      options_(std::move(options)),
      kept_(index.graph()) {}

RunOptions KeptRun::OptionsOfRun() const {
  RunOptions run;
  run.patches = options_.patches;
  run.node_limit_ms = options_.node_limit_ms;
  run.with_node_inputs =
      !options_.last.has_value() && runner_.Can(Capability::kNodeInputs);
  if (!options_.last.has_value()) return run;
  std::unordered_set<std::string> nodes;
  for (const EntryId entry : options_.keeps) {
    nodes.insert(index_.KeyOf(index_.NodeOf(entry)));
  }
  run.select = [nodes = std::move(nodes)](const std::string& node) {
    return nodes.contains(node);
  };
  if (runner_.Can(Capability::kSteps)) {
    run.stop = StopRule{index_.KeyOf(*options_.last), name(), std::nullopt};
  }
  return run;
}

absl::Status KeptRun::Visit(TensorSink& sink) {
  kept_ = ByEntry<NDArray>(index_.graph());
  Sink all(index_, options_.keeps, &kept_, &sink);
  RunOptions run = OptionsOfRun();
  run.sink = &all;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner_.Run(inputs_, run));
  outputs_ = std::move(result.outputs);
  hashes_ = all.Finish(outputs_);
  return absl::OkStatus();
}

absl::Status KeptRun::Run() {
  IgnoringSink ignored;
  return Visit(ignored);
}

}  // namespace nodewise
