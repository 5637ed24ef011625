#include "contrib/align/blame_search.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A compiler takes one operation apart into fewer nodes than this.
constexpr size_t kMostEntries = 6;
constexpr size_t kMostValues = 32;
constexpr size_t kMostLayouts = 3;
// So many of the nodes behind the entry are looked at.
constexpr size_t kMostFollowers = 8;
// Between guesses that explain as much, the one earlier in the graph counts.
constexpr double kShareOfAnEntry = 0.01;

class BlameSearcher {
 public:
  BlameSearcher(const WalkScene& scene, const GraphWalk& walk)
      : scene_(scene),
        graph_(scene.index.graph()),
        walk_(walk),
        fine_(walk.FineEntries()) {}

  absl::StatusOr<std::optional<Guess>> Run(NodeId suspect) {
    double penalty = 0;
    for (const EntryId entry : SuspectEntries(suspect)) {
      NODEWISE_RETURN_IF_ERROR(TryEntry(entry, penalty));
      penalty += kShareOfAnEntry;
      if (best_score_ >= 1) break;
    }
    return std::move(best_);
  }

 private:
  // The suspect's entries that are not fine, and those made of them.
  std::vector<EntryId> SuspectEntries(NodeId suspect) const {
    std::vector<NodeId> nodes = {suspect};
    std::vector<EntryId> entries;
    for (size_t i = 0; i < nodes.size() && entries.size() < kMostEntries; ++i) {
      for (uint32_t output = 0; output < graph_.OutputsOf(nodes[i]); ++output) {
        const EntryId entry = graph_.EntryOf(nodes[i], output);
        if (fine_[Index(entry)]) continue;
        entries.push_back(entry);
        for (const NodeId reader : scene_.index.ReadersOf(entry)) {
          if (std::find(nodes.begin(), nodes.end(), reader) == nodes.end()) {
            nodes.push_back(reader);
          }
        }
      }
    }
    return entries;
  }

  // The output of the network that the entry is by its place; kNoValue if none.
  ValueId OutputAt(EntryId entry) const {
    if (graph_.heads.size() != scene_.network.outputs().size()) return kNoValue;
    for (size_t i = 0; i < graph_.heads.size(); ++i) {
      if (graph_.EntryOf(graph_.heads[i]) == entry) {
        return scene_.network.outputs()[i];
      }
    }
    return kNoValue;
  }

  std::vector<ValueId> ValuesFor(EntryId entry) {
    std::vector<ValueId> values;
    const auto add = [&](ValueId id) {
      if (id != kNoValue && !walk_.IsPinned(id) &&
          std::find(values.begin(), values.end(), id) == values.end()) {
        values.push_back(id);
      }
    };
    const auto& nearest = walk_.entry(entry).nearest;
    if (nearest.has_value()) add(nearest->value);
    add(OutputAt(entry));
    const NodeId node = scene_.index.NodeOf(entry);
    for (const ValueId id : walk_.ReachableFrom(walk_.SourcesOf(node))) {
      add(id);
    }
    return values;
  }

  absl::Status TryEntry(EntryId entry, double penalty) {
    size_t tried = 0;
    for (const ValueId id : ValuesFor(entry)) {
      GraphWalk probe = walk_;
      const auto value = probe.reference().ValueOf(id);
      if (!value.ok()) continue;
      size_t layouts = 0;
      absl::Status status;
      VisitLayouts((*value)->facts.shape, graph_.entry(entry).shape,
                   [&](const Layout& layout) {
                     status = Try({entry, id, layout}, penalty);
                     return status.ok() && ++layouts < kMostLayouts;
                   });
      NODEWISE_RETURN_IF_ERROR(status);
      if (layouts > 0 && ++tried == kMostValues) break;
      if (best_score_ >= 1) break;
    }
    return absl::OkStatus();
  }

  absl::Status Try(Guess guess, double penalty) {
    GraphWalk trial = walk_;
    NODEWISE_RETURN_IF_ERROR(
        trial.Blame(guess.entry, guess.value, guess.layout,
                    std::numeric_limits<double>::infinity()));
    const std::vector<NodeId> followers = FollowersOf(guess.entry);
    double explained = OutputAt(guess.entry) == guess.value ? 1 : 0;
    double looked = OutputAt(guess.entry) == kNoValue ? 0 : 1;
    for (const NodeId node : followers) {
      NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(node));
      ++looked;
      const EntryId first = graph_.EntryOf(node, 0);
      if (trial.entry(first).is_explained()) ++explained;
    }
    guess.share = looked == 0 ? 0 : explained / looked;
    const double score = guess.share - penalty;
    if (guess.share > 0 && score > best_score_) {
      best_score_ = score;
      best_ = std::move(guess);
    }
    return absl::OkStatus();
  }

  // The next function nodes that depend on the entry, in the graph's order.
  std::vector<NodeId> FollowersOf(EntryId entry) const {
    std::set<NodeId> waiting;
    const auto add = [&](EntryId made) {
      for (const NodeId reader : scene_.index.ReadersOf(made)) {
        waiting.insert(reader);
      }
    };
    add(entry);
    std::vector<NodeId> followers;
    while (!waiting.empty() && followers.size() < kMostFollowers) {
      const NodeId node = *waiting.begin();
      waiting.erase(waiting.begin());
      followers.push_back(node);
      for (uint32_t output = 0; output < graph_.OutputsOf(node); ++output) {
        add(graph_.EntryOf(node, output));
      }
    }
    return followers;
  }

  const WalkScene& scene_;
  const Graph& graph_;
  const GraphWalk& walk_;
  const std::vector<bool> fine_;
  std::optional<Guess> best_;
  double best_score_ = 0;
};

}  // namespace

std::optional<NodeId> FirstSuspect(const WalkScene& scene,
                                   const GraphWalk& walk) {
  const Graph& graph = scene.index.graph();
  const std::vector<bool> fine = walk.FineEntries();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
         ++e) {
      if (!fine[e]) return NodeId{n};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Guess>> SearchBlame(const WalkScene& scene,
                                                 const GraphWalk& walk,
                                                 NodeId suspect) {
  return BlameSearcher(scene, walk).Run(suspect);
}

}  // namespace nodewise
