#include "contrib/locate/node_report.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedVictims = 3;
// An error larger than this share of its proved bound is near to it.
constexpr double kNearShare = 0.5;

NodeReport EmptyReport(const GraphIndex& index, NodeId node) {
  NodeReport report;
  report.node = node;
  report.key = index.KeyOf(node);
  const std::string* const covers =
      FindAttribute(index.graph().node(node).attrs, kCoversAttribute);
  if (covers != nullptr) {
    report.covers = ParseListText(*covers).value_or(std::vector<std::string>());
  }
  return report;
}

std::string ReaderName(const GraphIndex& index, NodeId reader) {
  return Index(reader) == index.graph().nodes.size() ? "the caller"
                                                     : index.KeyOf(reader);
}

std::string ReasonOfPlanFault(const GraphIndex& index,
                              absl::Span<const Overwriting> overwritten,
                              const NodeReport& report) {
  if (!report.evidence.wrote_over) {
    return "wrong where the storage plan puts its tensors, and right with "
           "memory of its own for each";
  }
  return "writes over " +
         ListOf(VictimsOf(index, overwritten, report.node), kNamedVictims);
}

std::string ReasonOfInheriting(const GraphIndex& index,
                               absl::Span<const Overwriting> overwritten,
                               const NodeReport& report) {
  for (const Overwriting& found : overwritten) {
    if (found.reader != report.node) continue;
    return fmt::format("right on what it read, but {} had been written over",
                       index.KeyOf(found.victim));
  }
  if (report.received == 0) {
    return "right on what it read; what rounding left is beyond the tolerance";
  }
  return fmt::format(
      "right on what it read, which was off by {:.2g} of its size",
      report.received);
}

std::string ReasonOf(const GraphIndex& index,
                     absl::Span<const Overwriting> overwritten,
                     const NodeReport& report) {
  switch (report.verdict) {
    case NodeVerdict::kPlanFault:
      return ReasonOfPlanFault(index, overwritten, report);
    case NodeVerdict::kInherits:
      return ReasonOfInheriting(index, overwritten, report);
    case NodeVerdict::kNotDeterministic:
      return "made other bits of the same bits when it ran again";
    case NodeVerdict::kChangesFloats:
      return fmt::format(
          "{}left {}: in a plain run, what comes after it runs like that",
          report.evidence.isolated == Verdict::kPass
              ? "right on what it read, but "
              : "",
          DescribeChange(*report.floats));
    case NodeVerdict::kBadInput:
      return "right on what it read, but was given NaN from outside";
    case NodeVerdict::kIntendedInfinity:
      return report.evidence.made_infinity
                 ? "makes infinities, as its definition does"
                 : "makes NaN of finite numbers, as its definition does";
    default:
      if (report.evidence.is_misreported) {
        return "what is handed out for it is not what those that read it have "
               "computed with";
      }
      if (report.evidence.isolated != Verdict::kError &&
          report.evidence.exact.has_value()) {
        return report.on_exact_inputs;
      }
      return report.worst.has_value() ? report.worst->judgement.reason
                                      : report.reason;
  }
}

}  // namespace

NodeReport ReportOf(const GraphIndex& index, const NodeCheck& check) {
  NodeReport report = EmptyReport(index, check.node);
  report.operators = check.operators;
  report.cause = check.cause;
  report.worst = check.Worst();
  report.received = check.received;
  report.made = check.MadeError();
  report.passed_on = check.PassedOnError();
  NodeEvidence& evidence = report.evidence;
  evidence.isolated = IsolatedVerdict(check);
  evidence.is_large = IsLarge(check.outputs);
  for (const TensorComparison& output : check.outputs) {
    const bool has_remark = output.verdict() == Verdict::kPass &&
                            output.bounds.has_value() &&
                            output.bounds->subnormal > 0;
    if (has_remark) report.remark = output.judgement.reason;
  }
  for (const TensorComparison& output : check.accumulated) {
    evidence.accumulated = std::max(evidence.accumulated, output.verdict());
  }
  evidence.was_given_nan = check.given_non_finite.nans > 0;
  evidence.made_infinity = check.made_non_finite.infinities > 0 &&
                           check.read_non_finite.infinities == 0;
  evidence.made_nan = check.made_non_finite.nans > 0 &&
                      !check.read_non_finite.any() &&
                      !check.given_non_finite.any();
  return report;
}

NodeReport ReportOf(const GraphIndex& index, const SkippedNode& skipped) {
  NodeReport report = EmptyReport(index, skipped.node);
  report.evidence.isolated = Verdict::kInconclusive;
  report.reason = "not checked: " + skipped.why;
  return report;
}

void NoteFloats(const FloatChange& change, NodeReport* report) {
  report->floats = change;
  report->evidence.changed_floats = true;
}

void NoteFailure(const NodeFailure& failure, NodeReport* report) {
  report->failure = failure;
  report->reason = failure.what;
  if (failure.kind == NodeFailure::Kind::kHang) {
    report->evidence.hung = true;
  } else if (failure.kind == NodeFailure::Kind::kStrayWrite) {
    report->evidence.wrote_astray = true;
  } else if (failure.kind == NodeFailure::Kind::kSideEffect) {
    report->evidence.has_side_effect = true;
  } else {
    report->evidence.crashed = true;
  }
}

void NoteFailures(const StandIns& stand_ins, LocateResult* result) {
  const NodeFailure* const cut =
      stand_ins.is_cut ? &stand_ins.failures.back() : nullptr;
  for (NodeReport& report : result->nodes) {
    const auto failed = std::find_if(
        stand_ins.failures.begin(), stand_ins.failures.end(),
        [&](const NodeFailure& failure) { return failure.node == report.key; });
    const bool has_failed = failed != stand_ins.failures.end();
    const bool is_asked_for =
        std::find(stand_ins.asked_for.begin(), stand_ins.asked_for.end(),
                  report.key) != stand_ins.asked_for.end();
    if (has_failed) {
      NoteFailure(*failed, &report);
    } else if (is_asked_for) {
      report.evidence.is_stand_in = true;
      report.reason = "not judged: the reference computed it";
    } else if (cut != nullptr && !report.worst.has_value()) {
      report.reason = fmt::format("not judged: {} ended the run", cut->node);
    }
    if (!has_failed && !is_asked_for) continue;
    report.worst.reset();
    report.evidence.isolated = Verdict::kInconclusive;
    report.made = 0;
    if (!has_failed || &*failed != cut) {
      result->stand_ins.push_back(report.key);
    }
  }
}

absl::Status WithWhatItMeans(const absl::Status& status,
                             const NodeFailure& failure) {
  std::string means = fmt::format(
      "and so it does where the reference computes it: a node before it may "
      "have written over memory that is not its own ({} looks for it)",
      NameOf(Way::kSanitizer));
  if (failure.kind == NodeFailure::Kind::kError) {
    means = "and so it does where the reference computes it";
  } else if (failure.kind == NodeFailure::Kind::kHang) {
    means = fmt::format(
        "and neither does the reference where it computes it ({} gives nodes "
        "more time)",
        NameOf(Way::kMoreTime));
  }
  return WithMessage(status, fmt::format("{}, {}", MessageOf(status), means));
}

bool IsUnsettled(const NodeReport& report) {
  if (!report.worst.has_value()) return false;
  const Verdict isolated = report.evidence.isolated;
  return isolated == Verdict::kInconclusive ||
         (isolated == Verdict::kPass && report.worst->bounds.has_value() &&
          (report.worst->verdict() == Verdict::kWarning ||
           report.worst->bounds->ratio > kNearShare));
}

void AddExactCheck(const ExactCheck& check, NodeReport* report) {
  report->evidence.exact = check.verdict();
  if (!check.verdict().has_value()) {
    report->on_exact_inputs = "no exact inputs: " + check.why_not;
    return;
  }
  const TensorComparison& worst = *std::max_element(
      check.outputs.begin(), check.outputs.end(),
      [](const TensorComparison& a, const TensorComparison& b) {
        return a.verdict() < b.verdict();
      });
  if (worst.is_wrong()) {
    report->worst = worst;
    report->evidence.is_large |= IsLarge(check.outputs);
  }
  report->on_exact_inputs = fmt::format(
      "on exact inputs{}: {}",
      check.has_other_weights ? " and weights, so this is about the kernel"
                              : "",
      worst.judgement.reason);
}

void Conclude(const GraphIndex& index,
              absl::Span<const Overwriting> overwritten, NodeReport* report) {
  report->verdict = JoinEvidence(report->evidence);
  report->reason = ReasonOf(index, overwritten, *report);
}

void FindGain(LocateResult* result) {
  if (!result->AreOutputsWrong() || !result->culprits.empty()) return;
  double largest = 0;
  for (size_t i = 0; i < result->nodes.size(); ++i) {
    const double gain = result->nodes[i].gain();
    if (gain <= largest) continue;
    largest = gain;
    result->largest_gain = i;
  }
}

std::vector<std::string> VictimsOf(const GraphIndex& index,
                                   absl::Span<const Overwriting> overwritten,
                                   NodeId writer) {
  std::vector<std::string> victims;
  for (const Overwriting& found : overwritten) {
    if (found.writer != writer) continue;
    victims.push_back(fmt::format("{}, which {} still reads",
                                  index.KeyOf(found.victim),
                                  ReaderName(index, found.reader)));
  }
  return victims;
}

}  // namespace nodewise
