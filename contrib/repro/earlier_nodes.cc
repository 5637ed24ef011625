#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/repro/cut_graph.h"
#include "contrib/repro/node_trial.h"
#include "nodewise/repro/case_of_nodes.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class EarlierSearch {
 public:
  using Nodes = std::vector<NodeId>;  // In the order of the graph.

  EarlierSearch(const ReproSource& source, NodeId node, Runner& runner,
                absl::Span<const NamedTensor> inputs,
                const EarlierOptions& options, const ReproCase& node_case)
      : source_(source),
        graph_(source.index.graph()),
        node_(node),
        runner_(runner),
        inputs_(inputs),
        options_(options),
        case_(node_case) {
    if (case_.failure.has_value() &&
        case_.failure->kind == NodeFailure::Kind::kHang) {
      most_failing_ = static_cast<uint64_t>(
          std::max<int64_t>(options.most_hanging_ms / case_.node_limit_ms, 1));
    }
  }

  // Returns the case with earlier nodes; none if it fails with none.
  absl::StatusOr<std::optional<ReproCase>> Search() {
    const Nodes before = NodesBefore();
    for (size_t count = 1; !before.empty(); count *= 2) {
      count = std::min(count, before.size());
      const Nodes tried(before.end() - static_cast<ptrdiff_t>(count),
                        before.end());
      NODEWISE_ASSIGN_OR_RETURN(const bool fits, Record(tried));
      if (!fits) break;
      NODEWISE_ASSIGN_OR_RETURN(const bool fails, Try(tried));
      if (fails) {
        NODEWISE_RETURN_IF_ERROR(LeaveOut(tried));
        break;
      }
      if (count == before.size() || runs_ >= options_.most_runs) break;
    }
    return std::move(found_);
  }

 private:
  Nodes NodesBefore() const {
    Nodes before;
    for (uint32_t n = 0; n < Index(node_); ++n) {
      const NodeId node{n};
      const std::string& function = graph_.node(node).function;
      // Nodes that run nowhere in this process stay out of it here, too.
      const bool may_run = source_.may_run == nullptr || source_.may_run(node);
      if (graph_.IsFunction(node) && function != kNopFunction &&
          function != kCopyFunction && may_run) {
        before.push_back(node);
      }
    }
    return before;
  }

  // Returns whether there is room for what these nodes read.
  absl::StatusOr<bool> Record(const Nodes& nodes) {
    Nodes unknown;
    for (const NodeId node : nodes) {
      if (reads_.contains(node)) continue;
      unknown.push_back(node);
      for (const EntryRef& ref : graph_.node(node).inputs) {
        bytes_ += source_.index.BytesOf(graph_.EntryOf(ref));
      }
    }
    if (bytes_ > options_.most_bytes) return false;
    NODEWISE_ASSIGN_OR_RETURN(
        auto more, ReadsOf(source_.index, unknown, runner_, inputs_));
    reads_.merge(more);
    return true;
  }

  absl::StatusOr<ReproCase> CaseWith(const Nodes& earlier) const {
    ReproCase with = case_;
    GraphCut cut{earlier};
    cut.nodes.push_back(node_);
    for (uint32_t slot = 0; slot < graph_.OutputsOf(node_); ++slot) {
      cut.heads.push_back(graph_.EntryOf(node_, slot));
    }
    InputNames names(source_);
    const auto name_of = [&](const CutInput& input) {
      ReproInput described = names.Describe(input);
      std::string name = described.name;
      if (input.node == node_) return with.inputs[input.slot].name;
      described.tensor = reads_.at(input.node)[input.slot];
      with.earlier_inputs.push_back(std::move(described));
      return name;
    };
    NODEWISE_ASSIGN_OR_RETURN(GraphOfCut made, CutNodes(graph_, cut, name_of));
    with.graph = std::move(made.graph);
    for (const NodeId node : earlier) {
      with.earlier_nodes.push_back(source_.index.KeyOf(node));
    }
    return with;
  }

  // A set that fails is the best one so far.
  absl::StatusOr<bool> Try(const Nodes& earlier) {
    ++runs_;
    NODEWISE_ASSIGN_OR_RETURN(ReproCase with, CaseWith(earlier));
    bool fails = false;
    if (with.failure.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(fails,
                                FailsAsBefore(with, TensorsOf(with.inputs)));
    } else {
      NODEWISE_RETURN_IF_ERROR(JudgeCase(&with));
      fails = with.FindWrong() != nullptr;
    }
    if (!fails) return false;
    ++failing_;
    if (with.failure.has_value()) with.fails_alone = true;
    found_ = std::move(with);
    return true;
  }

  // Halves, quarters and so on are left out as long as the rest still fails.
  absl::Status LeaveOut(Nodes nodes) {
    for (size_t part = (nodes.size() + 1) / 2; part > 0;
         part = part == 1 ? 0 : (part + 1) / 2) {
      for (size_t at = 0; at < nodes.size();) {
        if (runs_ >= options_.most_runs || failing_ >= most_failing_) {
          return absl::OkStatus();
        }
        const size_t end = std::min(at + part, nodes.size());
        Nodes rest(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(at));
        rest.insert(rest.end(), nodes.begin() + static_cast<ptrdiff_t>(end),
                    nodes.end());
        bool fails = false;
        if (!rest.empty()) {
          NODEWISE_ASSIGN_OR_RETURN(fails, Try(rest));
        }
        if (fails) {
          nodes = std::move(rest);
        } else {
          at = end;
        }
      }
    }
    return absl::OkStatus();
  }

  const ReproSource& source_;
  const Graph& graph_;
  const NodeId node_;
  Runner& runner_;
  const absl::Span<const NamedTensor> inputs_;
  const EarlierOptions& options_;
  const ReproCase& case_;
  std::map<NodeId, std::vector<NDArray>> reads_;
  uint64_t bytes_ = 0;
  uint64_t runs_ = 0;
  uint64_t failing_ = 0;  // How many of these runs failed.
  uint64_t most_failing_ = UINT64_MAX;
  std::optional<ReproCase> found_;
};

}  // namespace

absl::Status AddEarlierNodes(const ReproSource& source, NodeId node,
                             Runner& runner,
                             absl::Span<const NamedTensor> inputs,
                             const EarlierOptions& options,
                             ReproCase* node_case) {
  EarlierSearch search(source, node, runner, inputs, options, *node_case);
  NODEWISE_ASSIGN_OR_RETURN(auto found, search.Search());
  if (found.has_value()) *node_case = *std::move(found);
  return absl::OkStatus();
}

}  // namespace nodewise
