#include "contrib/locate/subnormal_blame.h"

#include <algorithm>
#include <string>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostNotes = 4;

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
  return std::any_of(
      compared.begin(), compared.end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
}

}  // namespace

absl::Status BlameForSubnormals(const JudgedRun& judged, LocateResult* result) {
  const bool may_matter = result->AreOutputsWrong() && result->culprits.empty();
  size_t tried = 0;
  size_t noted = 0;
  for (size_t i = 0; i < result->nodes.size(); ++i) {
    NodeReport& report = result->nodes[i];
    if (report.remark.empty() || Accuses(report.verdict)) continue;
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
