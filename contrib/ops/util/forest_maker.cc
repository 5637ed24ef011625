#include "contrib/ops/util/forest_maker.h"

#include <map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

// Makes a forest of lists of nodes.
class ForestMaker {
 public:
  ForestMaker(const ops::TreeNodes& op, const Doubles& splits)
      : op_(op), splits_(splits) {}

  absl::StatusOr<Forest> Make(const VoteLists& votes, size_t targets) {
    NODEWISE_RETURN_IF_ERROR(CheckCounts(votes));
    NODEWISE_RETURN_IF_ERROR(NumberNodes());
    for (size_t i = 0; i < op_.nodes_modes.size(); ++i) {
      if (places_[i].is_leaf) continue;
      NODEWISE_RETURN_IF_ERROR(AddNode(i));
    }
    NODEWISE_RETURN_IF_ERROR(AddVotes(votes, targets));
    return std::move(forest_);
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // Tree and node.

  absl::Status CheckCounts(const VoteLists& votes) const;
  // Gives each node its place, and each tree its root.
  absl::Status NumberNodes();
  absl::StatusOr<BranchMode> ModeOf(size_t i) const;
  absl::Status AddNode(size_t i);
  absl::StatusOr<size_t> Find(const char* attribute, int64_t tree,
                              int64_t node) const;
  absl::Status AddVotes(const VoteLists& votes, size_t targets);

  const ops::TreeNodes& op_;
  const Doubles& splits_;
  std::map<Key, size_t> numbers_;
  std::vector<Forest::Place> places_;
  Forest forest_;
};

absl::Status ForestMaker::CheckCounts(const VoteLists& votes) const {
  const size_t count = op_.nodes_modes.size();
  if (count == 0) {
    return AttributeError("nodes_modes", "is missing, expected nodes");
  }
  const Ints& missing = op_.nodes_missing_value_tracks_true;
  const size_t voices = votes.weights.size();
  return All(
      CheckListCount("nodes_falsenodeids", op_.nodes_falsenodeids.size(),
                     count),
      CheckListCount("nodes_featureids", op_.nodes_featureids.size(), count),
      CheckListCount("nodes_missing_value_tracks_true", missing.size(),
                     missing.empty() ? 0 : count),
      CheckListCount("nodes_nodeids", op_.nodes_nodeids.size(), count),
      CheckListCount("nodes_treeids", op_.nodes_treeids.size(), count),
      CheckListCount("nodes_truenodeids", op_.nodes_truenodeids.size(), count),
      CheckListCount("nodes_values", splits_.size(), count),
      CheckListCount(votes.names[0], votes.trees.size(), voices),
      CheckListCount(votes.names[1], votes.nodes.size(), voices),
      CheckListCount(votes.names[2], votes.targets.size(), voices));
}

absl::Status ForestMaker::NumberNodes() {
  std::map<int64_t, bool> is_known_tree;
  size_t nodes = 0;
  for (size_t i = 0; i < op_.nodes_modes.size(); ++i) {
    const int64_t tree = op_.nodes_treeids[i];
    const bool is_leaf = op_.nodes_modes[i] == "LEAF";
    places_.push_back({is_leaf, is_leaf ? forest_.leaves.size() : nodes});
    if (is_leaf) {
      forest_.leaves.emplace_back();
    } else {
      ++nodes;
    }
    if (is_known_tree.emplace(tree, true).second) {
      forest_.roots.push_back(places_.back());
    }
    if (!numbers_.emplace(Key(tree, op_.nodes_nodeids[i]), i).second) {
      return AttributeError(
          "nodes_nodeids",
          fmt::format("has {} twice in tree {}", op_.nodes_nodeids[i], tree));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BranchMode> ForestMaker::ModeOf(size_t i) const {
  constexpr std::pair<std::string_view, BranchMode> kModes[] = {
      {"BRANCH_LEQ", BranchMode::kLeq}, {"BRANCH_LT", BranchMode::kLt},
      {"BRANCH_GTE", BranchMode::kGte}, {"BRANCH_GT", BranchMode::kGt},
      {"BRANCH_EQ", BranchMode::kEq},   {"BRANCH_NEQ", BranchMode::kNeq}};
  for (const auto& [word, mode] : kModes) {
    if (op_.nodes_modes[i] == word) return mode;
  }
  return AttributeError("nodes_modes",
                        fmt::format("has {}, expected LEAF, BRANCH_LEQ, "
                                    "BRANCH_LT, BRANCH_GTE, BRANCH_GT, "
                                    "BRANCH_EQ or BRANCH_NEQ",
                                    op_.nodes_modes[i]));
}

absl::StatusOr<size_t> ForestMaker::Find(const char* attribute, int64_t tree,
                                         int64_t node) const {
  const auto found = numbers_.find({tree, node});
  if (found != numbers_.end()) return found->second;
  return AttributeError(
      attribute, fmt::format("has {}, which tree {} has not", node, tree));
}

absl::Status ForestMaker::AddNode(size_t i) {
  Forest::Node node;
  const int64_t tree = op_.nodes_treeids[i];
  NODEWISE_ASSIGN_OR_RETURN(node.mode, ModeOf(i));
  NODEWISE_ASSIGN_OR_RETURN(
      const size_t if_true,
      Find("nodes_truenodeids", tree, op_.nodes_truenodeids[i]));
  NODEWISE_ASSIGN_OR_RETURN(
      const size_t if_false,
      Find("nodes_falsenodeids", tree, op_.nodes_falsenodeids[i]));
  node.if_true = places_[if_true];
  node.if_false = places_[if_false];
  if (op_.nodes_featureids[i] < 0) {
    return AttributeError(
        "nodes_featureids",
        fmt::format("has {}, expected 0 or more", op_.nodes_featureids[i]));
  }
  node.feature = static_cast<size_t>(op_.nodes_featureids[i]);
  node.split = splits_[i];
  const Ints& missing = op_.nodes_missing_value_tracks_true;
  node.missing_goes_true = !missing.empty() && missing[i] == 1;
  forest_.nodes.push_back(node);
  return absl::OkStatus();
}

absl::Status ForestMaker::AddVotes(const VoteLists& votes, size_t targets) {
  for (size_t i = 0; i < votes.weights.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(
        const size_t node,
        Find(votes.names[1], votes.trees[i], votes.nodes[i]));
    if (votes.targets[i] < 0 ||
        votes.targets[i] >= static_cast<int64_t>(targets)) {
      return AttributeError(votes.names[2],
                            fmt::format("has {}, expected 0 to {}",
                                        votes.targets[i], targets - 1));
    }
    // What says something of an inner node is never met.
    if (!places_[node].is_leaf) continue;
    forest_.leaves[places_[node].index].push_back(
        {static_cast<size_t>(votes.targets[i]), votes.weights[i]});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckListCount(const char* attribute, size_t found,
                            size_t expected) {
  if (found == expected) return absl::OkStatus();
  return AttributeError(
      attribute, fmt::format("has {} elements, expected {}", found, expected));
}

absl::StatusOr<Forest> MakeForest(const ops::TreeNodes& op,
                                  const std::vector<double>& splits,
                                  const VoteLists& votes, size_t targets) {
  return ForestMaker(op, splits).Make(votes, targets);
}

}  // namespace nodewise
