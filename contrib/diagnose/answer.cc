// The shape in which all searches answer, made of the words of each.

#include "nodewise/diagnose/answer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A node that is accused of anything else makes something else than it should.
const FindingKind& KindOf(NodeVerdict verdict) {
  static constexpr std::pair<NodeVerdict, const FindingKind*> kKinds[] = {
      {NodeVerdict::kPlanFault, &verdict_kinds::kPlanFault},
      {NodeVerdict::kNotDeterministic, &verdict_kinds::kNotDeterministic},
      {NodeVerdict::kChangesFloats, &verdict_kinds::kChangesFloats},
      {NodeVerdict::kSideEffect, &verdict_kinds::kSideEffect},
      {NodeVerdict::kOverrun, &verdict_kinds::kOverrun},
      {NodeVerdict::kHangs, &verdict_kinds::kHangs},
      {NodeVerdict::kCrashes, &verdict_kinds::kCrashes}};
  for (const auto& [known, kind] : kKinds) {
    if (known == verdict) return *kind;
  }
  return verdict_kinds::kBroken;
}

// Many compilers are lax about such numbers on purpose, so this is told apart.
std::string SpecialNumbersText(const std::string& expected) {
  return fmt::format("differs from {} only where numbers are NaN or infinite",
                     expected);
}

// Places have the shape that they have in findings about graphs, so that one
// reader finds both.
NodePlace PlaceOfNode(NodeId node, const std::string& key) {
  return {node, key, fmt::format("node {} ({})", Index(node), Printable(key))};
}

// Every search names its culprits in this shape, from what it knows in its own:
// here the share of the outputs' error that repairing the node takes away.
NamedCulprit NameCulprit(const LocateResult& located, const Culprit& culprit) {
  const NodeReport& node = located.nodes[culprit.report];
  NamedCulprit named{MakeFinding(KindOf(node.verdict),
                                 PlaceOfNode(node.node, node.key), node.reason),
                     std::string(NameOf(node.verdict)),
                     node.covers,
                     {}};
  if (culprit.share.has_value()) {
    named.finding.numbers.push_back({"share", *culprit.share});
  }
  return named;
}

// Where errors are enlarged most is where to look if no node is to blame.
std::string NoCulpritReason(const LocateResult& located) {
  std::string text =
      "outputs differ from the reference's, and every node that could be "
      "judged is right on what it read";
  if (!located.largest_gain.has_value()) return text;
  const NodeReport& node = located.nodes[*located.largest_gain];
  return text + fmt::format(
                    "; {} enlarges the error that it receives most, {:.3g} "
                    "times",
                    node.key, node.gain());
}

// For a search by values, the name says how far the node is from what it should
// hold. Between builds a node is broken only if it is known which side is
// right.
NamedCulprit NameCulprit(const ValueEvidence& evidence, size_t i) {
  const ValueCulprit& culprit = evidence.result.culprits[i];
  const Network& network = *evidence.network;
  std::string kind = KindOf(evidence, i);
  std::vector<std::string> explanations;
  for (const Explanation& explanation : culprit.explanations) {
    explanations.push_back(
        fmt::format("{}: {}", network.operation(explanation.operation).name,
                    explanation.what));
  }
  Finding finding = MakeFinding(
      kind == kBrokenKind ? verdict_kinds::kBroken : verdict_kinds::kDiffers,
      PlaceOfNode(culprit.node, evidence.index->KeyOf(culprit.node)),
      ReasonFor(evidence, i), {{"distance", culprit.distance}});
  return {std::move(finding), std::move(kind),
          OperationNames(network, culprit.operations), std::move(explanations)};
}

// A node is what the last of its entries is, in the order of the states.
EntryState StateOfNode(const ValueEvidence& evidence, uint32_t node) {
  const Graph& graph = evidence.index->graph();
  EntryState state = EntryState::kConstant;
  for (uint32_t e = graph.node_row_ptr[node]; e < graph.node_row_ptr[node + 1];
       ++e) {
    state = std::max(state, evidence.result.entries[e].state);
  }
  return state;
}

}  // namespace

void Answer::AddDoubt(const absl::Status& status) {
  state = State::kUnknown;
  doubts.push_back(FindingOf(status));
}

// Warnings come along where there is an error, since they may explain it; alone
// they leave no doubt.
bool Answer::AddDoubts(const DiagnosticList& faults) {
  if (!faults.HasErrors()) return false;
  state = State::kUnknown;
  for (const Diagnostic& fault : faults.items()) {
    doubts.push_back(FindingOf(fault, finding_kinds::kCannotJudge));
  }
  return true;
}

std::string_view NameOf(EntryState state) {
  static constexpr std::string_view kNames[] = {"constant", "on the way",
                                                "healthy", "unknown", "broken"};
  static_assert(static_cast<size_t>(EntryState::kBroken) + 1 ==
                std::size(kNames));
  return kNames[static_cast<size_t>(state)];
}

std::vector<std::string> OperationNames(
    const Network& network, absl::Span<const OperationId> operations) {
  std::vector<std::string> names;
  for (const OperationId id : operations) {
    names.push_back(network.operation(id).name);
  }
  return names;
}

std::vector<std::string> ValueNames(const Network& network,
                                    absl::Span<const ValueId> values) {
  std::vector<std::string> names;
  for (const ValueId id : values) names.push_back(network.value(id).name);
  return names;
}

double LargestOutputError(const LocateResult& located) {
  double largest = 0;
  for (const TensorComparison& output : located.outputs) {
    largest = std::max(largest, RelativeError(output));
  }
  return largest;
}

// The cases go from what is known least to what is known best. A distance is of
// the size of the tensor, and infinite where the two have nothing in common.
std::string ReasonFor(const ValueEvidence& evidence, size_t number) {
  const ValueCulprit& culprit = evidence.result.culprits[number];
  if (culprit.expected == kNoValue) {
    return fmt::format("holds no tensor of {}", evidence.called);
  }
  const NetworkValue& value = evidence.network->value(culprit.expected);
  const std::string& expected = value.name;
  const bool is_far = !std::isfinite(culprit.distance);
  if (KindOf(evidence, number) != kBrokenKind) {
    if (!culprit.differs_in_finite) return SpecialNumbersText(expected);
    return is_far ? fmt::format("differs from {} by far", expected)
                  : fmt::format("differs from {} by {:.2g} of its size",
                                expected, culprit.distance);
  }
  if (!culprit.output_shape.empty()) {
    const auto sizes = value.type.sizes();
    return fmt::format("is the output {} in the shape ({}), expected ({})",
                       expected, fmt::join(culprit.output_shape, ", "),
                       fmt::join(sizes.value_or(std::vector<int64_t>()), ", "));
  }
  if (culprit.is_exchanged) {
    return fmt::format(
        "holds another tensor instead of {}: two are exchanged, here or where "
        "they are read",
        expected);
  }
  if (!culprit.differs_in_finite) return SpecialNumbersText(expected);
  return is_far
             ? fmt::format("should hold {}, but its numbers are far from that",
                           expected)
             : fmt::format("is off by {:.2g} of its size from {}",
                           culprit.distance, expected);
}

std::string KindOf(const ValueEvidence& evidence, size_t number) {
  return number < evidence.kinds.size() ? evidence.kinds[number]
                                        : std::string(kBrokenKind);
}

// Outputs that are wrong though no node is are a question that stays open,
// unless rounding alone explains it.
void TakeLocated(LocateResult located, bool judged_all, Answer* answer) {
  for (const NodeReport& node : located.nodes) {
    answer->verdicts.push_back({node.key, node.node,
                                std::string(NameOf(node.verdict)), node.reason,
                                IsCulpritVerdict(node.verdict)});
  }
  for (const Culprit& culprit : located.culprits) {
    answer->culprits.push_back(NameCulprit(located, culprit));
  }
  AddNotes(located.notes, answer);
  if (!located.culprits.empty()) {
    answer->state = Answer::State::kWrong;
  } else if (located.AreOutputsWrong() && !located.is_rounding) {
    answer->AddDoubt(absl::FailedPreconditionError(NoCulpritReason(located)));
  }
  answer->evidence.judged_all = judged_all;
  answer->evidence.located = std::move(located);
}

// Nodes that hold no tensor of the network have a verdict, too: they are on the
// way to one.
void TakeByValue(ValueEvidence evidence, Answer* answer) {
  const Graph& graph = evidence.index->graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.IsFunction(NodeId{n})) continue;
    const EntryState state = StateOfNode(evidence, n);
    answer->verdicts.push_back({evidence.index->KeyOf(NodeId{n}), NodeId{n},
                                std::string(NameOf(state)), "",
                                state == EntryState::kBroken});
  }
  for (size_t i = 0; i < evidence.result.culprits.size(); ++i) {
    answer->culprits.push_back(NameCulprit(evidence, i));
  }
  if (!evidence.result.culprits.empty()) answer->state = Answer::State::kWrong;
  answer->evidence.by_value = std::move(evidence);
}

void AddNotes(const std::vector<std::string>& notes, Answer* answer) {
  answer->notes.insert(answer->notes.end(), notes.begin(), notes.end());
}

// A NaN spreads over all that depends on it, and makes right and wrong alike.
void AddNanInputDoubt(absl::Span<const NamedTensor> inputs, Answer* answer) {
  if (answer->state != Answer::State::kRight) return;
  const absl::Status status = CheckGivenNumbers(inputs);
  if (!status.ok()) answer->AddDoubt(status);
}

}  // namespace nodewise
