#include "nodewise/locate/verdict.h"

#include <algorithm>

namespace nodewise {

std::string_view NameOf(NodeVerdict verdict) {
  switch (verdict) {
    case NodeVerdict::kHealthy:
      return "healthy";
    case NodeVerdict::kIntendedInfinity:
      return "intended infinity";
    case NodeVerdict::kInherits:
      return "inherits";
    case NodeVerdict::kDeviates:
      return "deviates";
    case NodeVerdict::kInconclusive:
      return "inconclusive";
    case NodeVerdict::kBadInput:
      return "bad input";
    case NodeVerdict::kNotDeterministic:
      return "not deterministic";
    case NodeVerdict::kPlanFault:
      return "plan fault";
    case NodeVerdict::kChangesFloats:
      return "changes floats";
    case NodeVerdict::kBroken:
      return "broken";
    case NodeVerdict::kSideEffect:
      return "side effect";
    case NodeVerdict::kOverrun:
      return "overrun";
    case NodeVerdict::kHangs:
      return "hangs";
    case NodeVerdict::kCrashes:
      return "crashes";
  }
  return "";
}

bool Accuses(NodeVerdict verdict) {
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

NodeVerdict JoinEvidence(const NodeEvidence& evidence) {
  // All else that was seen of such a node is what the reference made.
  if (evidence.crashed) return NodeVerdict::kCrashes;
  if (evidence.hung) return NodeVerdict::kHangs;
  if (evidence.wrote_astray) return NodeVerdict::kOverrun;
  if (evidence.has_side_effect) return NodeVerdict::kSideEffect;
  if (evidence.is_stand_in) return NodeVerdict::kInconclusive;
  if (evidence.is_misreported) return NodeVerdict::kInconclusive;
  // A node that is not steady may look like anything in the single runs.
  if (!evidence.is_steady) return NodeVerdict::kNotDeterministic;
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

Verdict IsolatedVerdict(const NodeCheck& check) {
  Verdict worst = Verdict::kPass;
  for (const TensorComparison& output : check.outputs) {
    worst = std::max(worst, WeighedVerdict(output));
  }
  return worst;
}

bool IsLarge(absl::Span<const TensorComparison> outputs) {
  return std::any_of(
      outputs.begin(), outputs.end(), [](const TensorComparison& output) {
        return output.is_large && WeighedVerdict(output) == Verdict::kError;
      });
}

}  // namespace nodewise
