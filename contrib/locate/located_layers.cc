#include <algorithm>
#include <optional>

#include "contrib/locate/node_report.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/locate/node_check.h"

namespace nodewise {
namespace {

NodeReport ReportOfLayer(const LayerResult& result) {
  NodeReport report;
  report.node = result.layer.node;
  report.key = result.layer.name;
  report.covers = result.layer.covers;
  report.verdict = result.verdict;
  report.reason = result.reason;
  report.received = result.received;
  NodeCheck check;
  check.outputs = result.alone;
  check.accumulated = result.in_network;
  report.made = check.MadeError();
  report.passed_on = check.PassedOnError();
  for (const TensorComparison& output : result.in_network) {
    report.evidence.accumulated =
        std::max(report.evidence.accumulated, output.verdict());
  }
  report.evidence.isolated = result.verdict == NodeVerdict::kInconclusive
                                 ? Verdict::kInconclusive
                                 : IsolatedVerdict(check);
  if (check.outputs.empty()) check.outputs = result.in_network;
  if (check.outputs.empty()) return report;
  report.worst = check.Worst();
  if (report.reason.empty()) report.reason = report.worst->judgement.reason;
  return report;
}

}  // namespace

LocateResult LocatedLayers(const LayerModule& mod,
                           const LayerComparator& comparator) {
  LocateResult located;
  for (const LayerResult& result : comparator.layers()) {
    if (Accuses(result.verdict)) {
      located.culprits.push_back({located.nodes.size(), std::nullopt, {}});
    }
    located.nodes.push_back(ReportOfLayer(result));
  }
  std::vector<NodeFailure> failures;
  for (const LayerResult& result : comparator.layers()) {
    if (result.failure.has_value()) failures.push_back(*result.failure);
  }
  NoteFailures({{}, failures}, &located);
  for (const EntryRef& head : mod.graph.heads) {
    for (const LayerResult& result : comparator.layers()) {
      if (Index(result.layer.node) == head.node &&
          head.output < result.in_network.size()) {
        located.outputs.push_back(result.in_network[head.output]);
      }
    }
  }
  return located;
}

}  // namespace nodewise
