#include "contrib/locate/spoiler.h"

#include <map>
#include <string>
#include <utility>

#include "contrib/locate/observed_run.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/runner/node_failure.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The most bytes of earlier nodes' outputs that are kept for each question.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// Keeps what some nodes make.
class Keeper : public TensorSink {
 public:
  explicit Keeper(const std::vector<std::string>& nodes) {
    for (const std::string& node : nodes) wanted_[node];
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = wanted_.find(item.key.node);
    if (found == wanted_.end() || item.key.role != TensorRole::kOutput ||
        item.tensor == nullptr) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(found->second[item.key.slot], item.Keep());
    return absl::OkStatus();
  }
  // Undefined for what did not come.
  NDArray Find(const std::string& node, uint32_t slot) const {
    const auto found = wanted_.find(node);
    if (found == wanted_.end()) return NDArray();
    const auto tensor = found->second.find(slot);
    return tensor == found->second.end() ? NDArray() : tensor->second;
  }

 private:
  std::map<std::string, std::map<uint32_t, NDArray>> wanted_;
};

// What the suspect did in a run: a hash of what it made, or how it failed.
struct Outcome {
  bool failed = false;
  uint64_t made = 0;
  bool operator==(const Outcome&) const = default;
};

class SpoilerSearch {
 public:
  SpoilerSearch(const GraphIndex& index, Runner& candidate,
                const std::vector<NamedTensor>& inputs, NodeId suspect,
                int64_t node_limit_ms)
      : index_(index),
        graph_(index.graph()),
        candidate_(candidate),
        inputs_(inputs),
        suspect_(suspect),
        node_limit_ms_(node_limit_ms) {
    for (uint32_t n = 0; n < Index(suspect); ++n) {
      const NodeId node{n};
      if (graph_.IsFunction(node) && !index_.IsFree(node)) {
        earlier_.push_back(node);
      }
    }
  }

  absl::StatusOr<std::optional<NodeId>> Run() {
    if (earlier_.empty() || BytesToKeep() > kMostBytes) return std::nullopt;
    NODEWISE_ASSIGN_OR_RETURN(const Outcome in_run, Try(0));
    NODEWISE_ASSIGN_OR_RETURN(const Outcome again, Try(0));
    if (!(in_run == again)) return std::nullopt;
    NODEWISE_ASSIGN_OR_RETURN(const Outcome alone, Try(earlier_.size()));
    if (alone == in_run) return std::nullopt;
    // Without the first `spoiled` nodes it is as in the run, without the first
    // `sound` it is not.
    size_t spoiled = 0;
    size_t sound = earlier_.size();
    while (sound - spoiled > 1) {
      const size_t middle = spoiled + (sound - spoiled) / 2;
      NODEWISE_ASSIGN_OR_RETURN(const Outcome outcome, Try(middle));
      (outcome == in_run ? spoiled : sound) = middle;
    }
    return earlier_[spoiled];
  }

 private:
  uint64_t BytesToKeep() const {
    uint64_t bytes = 0;
    for (const NodeId node : earlier_) {
      for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
        bytes += index_.BytesOf(graph_.EntryOf(node, slot));
      }
    }
    return bytes;
  }

  // What the suspect does when the first `count` earlier nodes do not run:
  // what they made in a whole run stands in for them.
  absl::StatusOr<Outcome> Try(size_t count) {
    RunOptions run;
    NODEWISE_ASSIGN_OR_RETURN(run.patches, PatchesFor(count));
    run.node_limit_ms = node_limit_ms_;
    run.stop = StopRule{index_.KeyOf(suspect_), "the node", std::nullopt};
    const auto result = candidate_.Run(inputs_, run);
    Outcome outcome;
    if (!result.ok()) {
      const auto failure = FailureOf(result.status());
      if (!failure.has_value() || failure->node != index_.KeyOf(suspect_)) {
        return result.status();
      }
      outcome.failed = true;
      return outcome;
    }
    for (const NamedTensor& output : result->outputs) {
      // Its place counts, too.
      outcome.made = outcome.made * 31 +
                     HashBytes(output.tensor.data(), output.tensor.bytes());
    }
    return outcome;
  }

  absl::StatusOr<std::vector<TensorPatch>> PatchesFor(size_t count) {
    std::vector<TensorPatch> patches;
    if (count == 0) return patches;
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i)
      names.push_back(index_.KeyOf(earlier_[i]));
    Keeper kept(names);
    ObservedRun run(candidate_, inputs_);
    run.SetNodeLimit(node_limit_ms_);
    // It may end at the suspect.
    CutRun cut(&run);
    NODEWISE_RETURN_IF_ERROR(cut.Visit(kept));
    for (size_t i = 0; i < count; ++i) {
      const NodeId node = earlier_[i];
      for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
        NDArray tensor = kept.Find(names[i], slot);
        if (!tensor.defined()) {
          return absl::NotFoundError(names[i] + ": has handed nothing out");
        }
        patches.push_back({names[i] + ":" + std::to_string(slot),
                           std::move(tensor), "a whole run", names[i]});
      }
    }
    return patches;
  }

  const GraphIndex& index_;
  const Graph& graph_;
  Runner& candidate_;
  const std::vector<NamedTensor>& inputs_;
  const NodeId suspect_;
  const int64_t node_limit_ms_;
  std::vector<NodeId> earlier_;
};

}  // namespace

absl::StatusOr<std::optional<NodeId>> FindSpoiler(
    const GraphIndex& index, Runner& candidate,
    const std::vector<NamedTensor>& inputs, NodeId suspect,
    int64_t node_limit_ms) {
  for (const Capability needed :
       {Capability::kTensors, Capability::kPatches, Capability::kSteps}) {
    if (!candidate.Can(needed)) return std::nullopt;
  }
  return SpoilerSearch(index, candidate, inputs, suspect, node_limit_ms).Run();
}

absl::Status BlameSpoiler(const GraphIndex& index, Runner& candidate,
                          const std::vector<NamedTensor>& inputs,
                          NodeId suspect, std::string_view does,
                          int64_t node_limit_ms) {
  const auto found =
      FindSpoiler(index, candidate, inputs, suspect, node_limit_ms);
  if (!found.ok() || !found->has_value()) return absl::OkStatus();
  const NodeId spoiler = **found;
  return StatusOf(
      {NodeFailure::Kind::kSideEffect, index.KeyOf(spoiler),
       fmt::format("makes {} {}, which it does not on the same inputs without "
                   "this node",
                   index.KeyOf(suspect), does),
       index.KeyOf(suspect)},
      index.TitleOf(spoiler), absl::StatusCode::kAborted);
}

}  // namespace nodewise
