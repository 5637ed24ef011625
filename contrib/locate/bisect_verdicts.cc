#include "contrib/locate/bisect_verdicts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "contrib/locate/node_report.h"

namespace nodewise {
namespace {

// The new reports of one call.
struct NewReports {
  const GraphIndex& index;
  const LocateResult& located;
  std::vector<NodeReport> reports;

  void Add(NodeReport report) {
    if (ReportOn(report.node, located) < located.nodes.size()) return;
    reports.push_back(std::move(report));
  }
  NodeReport* Find(NodeId node) {
    const auto found = std::find_if(
        reports.begin(), reports.end(),
        [node](const NodeReport& report) { return report.node == node; });
    return found == reports.end() ? nullptr : &*found;
  }

  // Only what the nodes that were judged have read counts, and the outputs,
  // which the caller reads.
  void NoteOverwritten(const Overwriting& found) {
    const size_t end = index.graph().nodes.size();
    if (Index(found.reader) != end) {
      NodeReport* const reader = Find(found.reader);
      if (reader == nullptr) return;
      reader->evidence.read_overwritten = true;
    }
    if (Index(found.writer) == end) return;
    if (Find(found.writer) == nullptr) {
      Add(ReportOf(
          index, SkippedNode{found.writer, index.KeyOf(found.writer),
                             "it is not among the nodes up to the one found"}));
    }
    NodeReport* const writer = Find(found.writer);
    if (writer != nullptr) writer->evidence.wrote_over = true;
  }
};

void SortByNode(LocateResult* located) {
  std::vector<NodeId> culprits;
  for (const Culprit& culprit : located->culprits) {
    culprits.push_back(located->nodes[culprit.report].node);
  }
  std::sort(
      located->nodes.begin(), located->nodes.end(),
      [](const NodeReport& a, const NodeReport& b) { return a.node < b.node; });
  for (size_t i = 0; i < culprits.size(); ++i) {
    located->culprits[i].report = ReportOn(culprits[i], *located);
  }
  std::sort(
      located->culprits.begin(), located->culprits.end(),
      [](const Culprit& a, const Culprit& b) { return a.report < b.report; });
}

}  // namespace

std::vector<NodeId> AddVerdicts(const GraphIndex& index,
                                const NodeChecks& checks,
                                const RunHashes& hashes, NodeId first,
                                BisectResult* result) {
  LocateResult& located = result->located;
  NewReports added{index, located, {}};
  for (const NodeCheck& checked : checks.nodes) {
    added.Add(ReportOf(index, checked));
  }
  for (const SkippedNode& skipped : checks.skipped) {
    added.Add(ReportOf(index, skipped));
  }
  const auto overwritten = FindOverwritten(index, index.plan(), hashes);
  for (const Overwriting& found : overwritten) added.NoteOverwritten(found);
  std::vector<NodeId> accused;
  for (NodeReport& report : added.reports) {
    // The outputs show its error, however small it is here.
    if (report.node == first) report.evidence.accumulated = Verdict::kError;
    Conclude(index, overwritten, &report);
    if (Accuses(report.verdict)) {
      accused.push_back(report.node);
      located.culprits.push_back({located.nodes.size(), std::nullopt,
                                  VictimsOf(index, overwritten, report.node)});
    }
    located.nodes.push_back(std::move(report));
  }
  SortByNode(&located);
  return accused;
}

void AddUnsteady(const GraphIndex& index, NodeId node, BisectResult* result) {
  LocateResult& located = result->located;
  NodeReport report =
      ReportOf(index, SkippedNode{node, index.KeyOf(node), "not asked"});
  report.evidence.is_steady = false;
  Conclude(index, {}, &report);
  located.culprits.push_back({located.nodes.size(), std::nullopt, {}});
  located.nodes.push_back(std::move(report));
}

void AddStandIns(const GraphIndex& index, const StandIns& stand_ins,
                 BisectResult* result) {
  LocateResult& located = result->located;
  std::set<std::string> keys(stand_ins.asked_for.begin(),
                             stand_ins.asked_for.end());
  for (const NodeFailure& failure : stand_ins.failures) {
    keys.insert(failure.node);
  }
  for (uint32_t n = 0; n < index.graph().nodes.size(); ++n) {
    const NodeId node{n};
    const std::string& key = index.KeyOf(node);
    if (keys.count(key) == 0 ||
        ReportOn(node, located) < located.nodes.size()) {
      continue;
    }
    located.nodes.push_back(ReportOf(index, SkippedNode{node, key, ""}));
  }
  SortByNode(&located);
  NoteFailures(stand_ins, &located);
  std::erase_if(located.culprits, [&](const Culprit& culprit) {
    return keys.count(located.nodes[culprit.report].key) > 0;
  });
  for (size_t i = 0; i < located.nodes.size(); ++i) {
    NodeReport& report = located.nodes[i];
    if (keys.count(report.key) == 0) continue;
    Conclude(index, {}, &report);
    if (Accuses(report.verdict)) {
      located.culprits.push_back({i, std::nullopt, {}});
    }
  }
  SortByNode(&located);
}

Masking MaskingBefore(NodeId first, const LocateResult& located) {
  Masking masking = Masking::kNone;
  for (const NodeReport& report : located.nodes) {
    if (report.node >= first || report.was_replaced()) continue;
    if (report.verdict == NodeVerdict::kInconclusive) {
      masking = std::max(masking, Masking::kPossible);
    }
    // A plan fault spoils what another node reads.
    if (Accuses(report.verdict) && report.verdict != NodeVerdict::kPlanFault) {
      masking = Masking::kCertain;
    }
  }
  return masking;
}

size_t ReportOn(NodeId node, const LocateResult& located) {
  const auto found = std::find_if(
      located.nodes.begin(), located.nodes.end(),
      [node](const NodeReport& report) { return report.node == node; });
  return static_cast<size_t>(found - located.nodes.begin());
}

}  // namespace nodewise
