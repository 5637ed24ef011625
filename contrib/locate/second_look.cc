#include "contrib/locate/second_look.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// How many nodes a note says something of subnormal numbers about.
constexpr size_t kMostNotes = 4;

// Outputs go to the caller as they are, so one that looks wrong is wrong.
bool IsHead(const Graph& graph, NodeId node) {
  return std::ranges::find(graph.heads, Index(node), &EntryRef::node) !=
         graph.heads.end();
}

// Whether all that reads the node's outputs is right on what they should be.
bool AreReadersRight(const GraphIndex& index, const NodeChecks& checks,
                     Misreported* misreported) {
  const Graph& graph = index.graph();
  bool is_read = false;
  for (const EntryId entry : EntriesMadeBy(graph, misreported->node)) {
    for (const NodeId reader : index.ReadersOf(entry)) {
      const NodeCheck* const check = checks.Find(reader);
      if (check == nullptr || check->on_right_inputs.empty() ||
          IsLarge(check->on_right_inputs)) {
        return false;
      }
      is_read = true;
      if (!IsLarge(check->outputs)) continue;
      misreported->is_seen = true;
      misreported->readers.push_back(reader);
    }
  }
  return is_read;
}

// The reference goes on with what a node made if it does not check that node.
absl::StatusOr<bool> AreOutputsWrongWith(NodeId node, const JudgedRun& judged) {
  NodeCheckOptions check;
  check.with_accumulated = true;
  check.selects = [node](NodeId id) { return id != node; };
  const auto checks =
      CheckNodes(judged.index, judged.operators, judged.run, check);
  // A network of this node alone: what it made is what comes out.
  if (absl::IsFailedPrecondition(checks.status())) return true;
  NODEWISE_RETURN_IF_ERROR(checks.status());
  std::vector<NamedTensor> outputs;
  for (const NDArray& output : checks->reference_outputs) {
    if (!output.defined()) return false;
    outputs.push_back({"", output});
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<TensorComparison> compared,
      CompareNetworkOutputs(judged.reference_outputs, outputs,
                            AccumulatedTolerance(judged.index.graph())));
  return AnyIsWrong(compared);
}

}  // namespace

std::vector<Misreported> FindMisreported(const GraphIndex& index,
                                         const NodeChecks& checks,
                                         absl::Span<const NodeId> nodes) {
  std::vector<Misreported> found;
  for (const NodeId node : nodes) {
    if (IsHead(index.graph(), node)) continue;
    Misreported misreported{node};
    if (AreReadersRight(index, checks, &misreported)) {
      found.push_back(std::move(misreported));
    }
  }
  return found;
}

absl::Status BlameForSubnormals(const JudgedRun& judged, LocateResult* result) {
  // Each suspect is tried by itself: several that only matter together stay
  // remarks.
  const bool may_matter = result->AreOutputsWrong() && result->culprits.empty();
  size_t tried = 0;
  size_t noted = 0;
  for (size_t i = 0; i < result->nodes.size(); ++i) {
    NodeReport& report = result->nodes[i];
    if (report.remark.empty() || IsCulpritVerdict(report.verdict)) continue;
    if (may_matter && tried++ < judged.most_tried) {
      NODEWISE_ASSIGN_OR_RETURN(const bool matters,
                                AreOutputsWrongWith(report.node, judged));
      if (matters) {
        report.verdict = NodeVerdict::kBroken;
        report.reason = report.remark + "; outputs are wrong because of that";
        result->culprits.push_back({i, std::nullopt, {}});
        continue;
      }
    }
    if (noted++ >= kMostNotes) continue;
    result->notes.push_back(fmt::format("{}: {}: this is not taken for a fault",
                                        report.key, report.remark));
  }
  if (noted > kMostNotes) {
    result->notes.push_back(
        fmt::format("and so for {} more", CountOf(noted - kMostNotes, "node")));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
