#include "contrib/locate/node_report.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// In the order of NodeVerdict.
constexpr std::string_view kVerdictNames[] = {"healthy",
                                              "intended infinity",
                                              "inherits",
                                              "deviates",
                                              "inconclusive",
                                              "bad input",
                                              "not deterministic",
                                              "plan fault",
                                              "changes floats",
                                              "broken",
                                              "side effect",
                                              "overrun",
                                              "hangs",
                                              "crashes"};
static_assert(std::size(kVerdictNames) ==
              static_cast<size_t>(NodeVerdict::kCrashes) + 1);

// A reason is one line; all victims of a culprit are in Culprit::victims.
constexpr size_t kNamedVictims = 3;
// An error larger than this share of its proved bound is near to it. Bounds are
// for the worst case, so what comes near to one is unusual enough for a run
// with exact inputs.
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

// Verdicts that the worst comparison explains have its reason. The others are
// about something that no comparison shows.
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

// Has the reference stand in for all nodes that have failed. Returns false if
// it cannot, with the reason.
absl::StatusOr<bool> MakeStandIns(StandInSearch* search, std::string* why_not) {
  // Without such runners the search goes on with what the cut run has shown.
  if (!search->with_stand_ins) return false;
  std::vector<std::string> nodes;
  for (const NodeFailure& failure : search->failures) {
    nodes.push_back(failure.node);
  }
  auto made = search->with_stand_ins(nodes);
  // Nodes are bound when a runner is made, so one is made to see whether all of
  // them say what they compute.
  const absl::Status status =
      made.ok() ? made->candidate().status() : made.status();
  if (absl::IsUnimplemented(status)) {
    *why_not = std::string(MessageOf(status));
    return false;
  }
  NODEWISE_RETURN_IF_ERROR(status);
  search->makers = *std::move(made);
  return true;
}

bool IsAskedFor(absl::Span<const std::string> asked_for,
                const std::string& node) {
  return std::ranges::find(asked_for, node) != asked_for.end();
}

}  // namespace

std::string_view NameOf(NodeVerdict verdict) {
  return kVerdictNames[static_cast<size_t>(verdict)];
}

// A node that was given NaN is not wrong itself. It is accused all the same,
// for the run is worth nothing from there on and the user must give other
// inputs.
bool IsCulpritVerdict(NodeVerdict verdict) {
  return verdict == NodeVerdict::kBroken ||
         verdict == NodeVerdict::kPlanFault ||
         verdict == NodeVerdict::kNotDeterministic ||
         verdict == NodeVerdict::kChangesFloats ||
         verdict == NodeVerdict::kBadInput ||
         verdict == NodeVerdict::kSideEffect ||
         verdict == NodeVerdict::kOverrun || EndsRuns(verdict);
}

bool EndsRuns(NodeVerdict verdict) {
  return verdict == NodeVerdict::kCrashes || verdict == NodeVerdict::kHangs;
}

// Evidence that is nearer to the machine comes first: a node that ends runs,
// spoils memory or makes other bits each time may look like anything in a
// comparison of numbers, so that no comparison counts against such evidence.
// Then comes what the node made of what it read, and last what it read.
NodeVerdict JoinEvidence(const NodeEvidence& evidence) {
  // The reference stands in for a node that crashes or hangs, so that all else
  // that was seen of the node was made by the reference.
  if (evidence.crashed) return NodeVerdict::kCrashes;
  if (evidence.hung) return NodeVerdict::kHangs;
  if (evidence.wrote_astray) return NodeVerdict::kOverrun;
  if (evidence.has_side_effect) return NodeVerdict::kSideEffect;
  if (evidence.is_stand_in) return NodeVerdict::kInconclusive;
  if (evidence.is_misreported) return NodeVerdict::kInconclusive;
  // A node that is not steady may look like anything in the single runs.
  if (!evidence.is_steady) return NodeVerdict::kNotDeterministic;
  // The numbers of a node that writes over others may be right: its fault is
  // where the plan has put them.
  if (evidence.wrote_over) return NodeVerdict::kPlanFault;
  if (evidence.isolated == Verdict::kError) {
    if (evidence.has_no_consequence) return NodeVerdict::kDeviates;
    const bool is_right_privately =
        evidence.isolated_privately == Verdict::kPass;
    return is_right_privately ? NodeVerdict::kPlanFault : NodeVerdict::kBroken;
  }
  if (evidence.exact == Verdict::kError) return NodeVerdict::kBroken;
  if (evidence.changed_floats) return NodeVerdict::kChangesFloats;
  const bool is_exact = evidence.exact == Verdict::kPass;
  if (evidence.isolated == Verdict::kInconclusive && !is_exact) {
    return NodeVerdict::kInconclusive;
  }
  if (evidence.read_overwritten) return NodeVerdict::kInherits;
  if (evidence.was_given_nan) return NodeVerdict::kBadInput;
  // Small errors that add up are inherited, too: the node itself is right.
  if (evidence.accumulated == Verdict::kError) return NodeVerdict::kInherits;
  if (evidence.made_infinity || evidence.made_nan) {
    return NodeVerdict::kIntendedInfinity;
  }
  return NodeVerdict::kHealthy;
}

Verdict IsolatedVerdict(absl::Span<const TensorComparison> outputs) {
  Verdict worst = Verdict::kPass;
  for (const TensorComparison& output : outputs) {
    worst = std::max(worst, WeighedVerdict(output));
  }
  return worst;
}

bool IsLarge(absl::Span<const TensorComparison> outputs) {
  return std::ranges::any_of(outputs, [](const TensorComparison& output) {
    return output.is_large && WeighedVerdict(output) == Verdict::kError;
  });
}

NodeReport ReportOf(const GraphIndex& index, const NodeCheck& check) {
  NodeReport report = EmptyReport(index, check.node);
  report.operators = check.operators;
  report.cause = check.cause;
  report.worst = check.Worst();
  report.received = check.received;
  report.made = check.MadeError();
  report.passed_on = check.PassedOnError();
  NodeEvidence& evidence = report.evidence;
  evidence.isolated = IsolatedVerdict(check.outputs);
  evidence.is_large = IsLarge(check.outputs);
  // Another way with subnormal numbers passes. It is said all the same, for an
  // output may be wrong because of it.
  for (const TensorComparison& output : check.outputs) {
    const bool has_remark = output.verdict() == Verdict::kPass &&
                            output.bounds.has_value() &&
                            output.bounds->subnormal > 0;
    if (has_remark) report.remark = output.judgement.reason;
  }
  for (const TensorComparison& output : check.accumulated) {
    evidence.accumulated = std::max(evidence.accumulated, output.verdict());
  }
  // A node is not to blame for what it was given: only infinities and NaN of
  // finite numbers are the node's own.
  evidence.was_given_nan = check.given_non_finite.nans > 0;
  evidence.made_infinity = check.made_non_finite.infinities > 0 &&
                           check.read_non_finite.infinities == 0;
  evidence.made_nan = check.made_non_finite.nans > 0 &&
                      !check.read_non_finite.any() &&
                      !check.given_non_finite.any();
  return report;
}

NodeReport ReportUnchecked(const GraphIndex& index, NodeId node,
                           std::string_view why) {
  NodeReport report = EmptyReport(index, node);
  report.evidence.isolated = Verdict::kInconclusive;
  report.reason = fmt::format("not checked: {}", why);
  return report;
}

void AddCulprit(NodeReport report, std::vector<std::string> victims,
                LocateResult* result) {
  result->culprits.push_back(
      {result->nodes.size(), std::nullopt, std::move(victims)});
  result->nodes.push_back(std::move(report));
}

NodeReport* FindReport(NodeId node, LocateResult* result) {
  const auto found =
      std::ranges::lower_bound(result->nodes, node, {}, &NodeReport::node);
  const bool is_there = found != result->nodes.end() && found->node == node;
  return is_there ? &*found : nullptr;
}

void AddPatches(const NodeCheck& check, const std::vector<NDArray>& right,
                std::vector<TensorPatch>* patches) {
  for (size_t slot = 0; slot < right.size(); ++slot) {
    patches->push_back({fmt::format("{}:{}", check.key, slot), right[slot],
                        "the reference", check.key});
  }
}

void NoteFloats(const FloatChange& change, NodeReport* report) {
  if (report == nullptr) return;
  report->floats = change;
  report->evidence.changed_floats = true;
}

void NoteFailure(const NodeFailure& failure, NodeReport* report) {
  report->failure = failure;
  report->reason = failure.what;
  using Kind = NodeFailure::Kind;
  NodeEvidence& evidence = report->evidence;
  bool& flag = failure.kind == Kind::kHang         ? evidence.hung
               : failure.kind == Kind::kStrayWrite ? evidence.wrote_astray
               : failure.kind == Kind::kSideEffect ? evidence.has_side_effect
                                                   : evidence.crashed;
  flag = true;
}

void NoteFailures(const StandIns& stand_ins, LocateResult* result) {
  // Nodes behind the one that cut the run were never reached.
  const NodeFailure* const cut =
      stand_ins.is_cut ? &stand_ins.failures.back() : nullptr;
  for (NodeReport& report : result->nodes) {
    const auto failed =
        std::ranges::find(stand_ins.failures, report.key, &NodeFailure::node);
    const bool has_failed = failed != stand_ins.failures.end();
    const bool is_asked_for = IsAskedFor(stand_ins.asked_for, report.key);
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
    if (!has_failed || &*failed != cut) result->stand_ins.push_back(report.key);
  }
}

void NoteOverwritten(const GraphIndex& index,
                     absl::Span<const Overwriting> overwritten,
                     std::string_view hint, LocateResult* result) {
  // A tensor is listed once for each of its readers, and its writer each time.
  for (const Overwriting& found : overwritten) {
    NodeReport* const reader = FindReport(found.reader, result);
    if (reader != nullptr) reader->evidence.read_overwritten = true;
    NodeReport* const writer = FindReport(found.writer, result);
    if (writer != nullptr) {
      writer->evidence.wrote_over = true;
      continue;
    }
    result->notes.push_back(
        fmt::format("{}: something has written over it, but by the storage "
                    "plan no node does{}",
                    index.KeyOf(found.victim), hint));
  }
}

absl::Status WithFailureHint(const absl::Status& status,
                             const NodeFailure& failure) {
  // A crash or an exit may come of memory that was spoiled before. An error is
  // what a node says itself, so no spoiled memory is suspected there.
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
  // A warning is unlikely of a correct kernel, if not impossible.
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
  const TensorComparison& worst =
      *std::ranges::max_element(check.outputs, {}, &TensorComparison::verdict);
  // Exact inputs on which all is right settle what bounds left open, but the
  // comparison in the run still says how far off the node was there.
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
  // Errors that no node makes alone were enlarged somewhere: the node that did
  // so most is what a person should look at.
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

absl::StatusOr<bool> StandInSearch::Replace(const NodeFailures& known,
                                            std::string* why_not) {
  // The nodes are taken back if they cannot be replaced: they end no run.
  failures = known;
  NODEWISE_ASSIGN_OR_RETURN(const bool are_replaced,
                            MakeStandIns(this, why_not));
  if (!are_replaced) failures.clear();
  return are_replaced;
}

absl::Status StandInSearch::ContinueAfter(const absl::Status& status,
                                          size_t runs) {
  auto failure = FailureOf(status);
  if (!failure.has_value()) return status;
  const bool has_failed =
      std::ranges::find(failures, failure->node, &NodeFailure::node) !=
      failures.end();
  if (has_failed || IsAskedFor(asked_for, failure->node)) {
    return WithFailureHint(status, *failure);
  }
  // A side effect is found by a search that asks for it in several runs.
  if (runs > 0 && failure->kind != NodeFailure::Kind::kSideEffect) {
    failure->what += fmt::format(" (not before, in {})", CountOf(runs, "run"));
  }
  failures.push_back(*std::move(failure));
  NODEWISE_ASSIGN_OR_RETURN(const bool goes_on, MakeStandIns(this, &why_cut));
  is_cut = !goes_on;
  return absl::OkStatus();
}

}  // namespace nodewise
