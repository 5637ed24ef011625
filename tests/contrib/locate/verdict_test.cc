// Each row of the truth table in docs/locate.md.

#include <gtest/gtest.h>

#include "nodewise/locate/locate.h"

namespace nodewise {
namespace {

struct VerdictRow {
  const char* shown;
  NodeEvidence evidence;
  NodeVerdict verdict;
  bool accuses;
};

const VerdictRow kVerdictRows[] = {
    {"nothing", {}, NodeVerdict::kHealthy, false},
    {"crashed, and the reference that stood in is right",
     {.crashed = true},
     NodeVerdict::kCrashes,
     true},
    {"did not return",
     {.hung = true, .is_steady = false},
     NodeVerdict::kHangs,
     true},
    {"wrote to memory that is not its own, and what it spoiled looks wrong",
     {.wrote_astray = true, .is_stand_in = true, .is_steady = false},
     NodeVerdict::kOverrun,
     true},
    {"left the process changed",
     {.has_side_effect = true, .is_stand_in = true},
     NodeVerdict::kSideEffect,
     true},
    {"computed by the reference",
     {.is_stand_in = true, .accumulated = Verdict::kError},
     NodeVerdict::kInconclusive,
     false},
    {"other bits of the same bits",
     {.is_steady = false},
     NodeVerdict::kNotDeterministic,
     true},
    {"unsteady and wrong",
     {.isolated = Verdict::kError, .is_steady = false},
     NodeVerdict::kNotDeterministic,
     true},
    {"wrote over what is needed",
     {.wrote_over = true},
     NodeVerdict::kPlanFault,
     true},
    {"wrong, and right with memory of its own",
     {.isolated = Verdict::kError, .isolated_privately = Verdict::kPass},
     NodeVerdict::kPlanFault,
     true},
    {"wrong wherever it runs",
     {.isolated = Verdict::kError, .isolated_privately = Verdict::kError},
     NodeVerdict::kBroken,
     true},
    {"wrong, and not tried elsewhere",
     {.isolated = Verdict::kError},
     NodeVerdict::kBroken,
     true},
    {"left floats changed, and is right",
     {.accumulated = Verdict::kError, .changed_floats = true},
     NodeVerdict::kChangesFloats,
     true},
    {"left floats changed, and is wrong itself",
     {.isolated = Verdict::kError, .changed_floats = true},
     NodeVerdict::kBroken,
     true},
    {"wrong on wrong inputs",
     {.isolated = Verdict::kError, .accumulated = Verdict::kError},
     NodeVerdict::kBroken,
     true},
    {"could not be judged",
     {.isolated = Verdict::kInconclusive, .accumulated = Verdict::kError},
     NodeVerdict::kInconclusive,
     false},
    {"within its bounds, and wrong on exact inputs",
     {.exact = Verdict::kError},
     NodeVerdict::kBroken,
     true},
    {"could not be judged, but is right on exact inputs",
     {.isolated = Verdict::kInconclusive, .exact = Verdict::kPass},
     NodeVerdict::kHealthy,
     false},
    {"read what was written over",
     {.read_overwritten = true},
     NodeVerdict::kInherits,
     false},
    {"was given NaN",
     {.accumulated = Verdict::kError, .was_given_nan = true},
     NodeVerdict::kBadInput,
     true},
    {"right on wrong inputs",
     {.accumulated = Verdict::kError, .made_infinity = true},
     NodeVerdict::kInherits,
     false},
    {"makes infinities as it should",
     {.made_infinity = true},
     NodeVerdict::kIntendedInfinity,
     false},
    {"makes NaN as it should",
     {.made_nan = true},
     NodeVerdict::kIntendedInfinity,
     false},
};

TEST(NodeVerdictTest, TheTruthTableHolds) {
  for (const VerdictRow& row : kVerdictRows) {
    SCOPED_TRACE(row.shown);
    const NodeVerdict verdict = JoinEvidence(row.evidence);
    EXPECT_EQ(NameOf(verdict), NameOf(row.verdict));
    EXPECT_EQ(IsCulpritVerdict(verdict), row.accuses);
  }
}

NodeCheck CheckWith(Verdict verdict, uint64_t outside) {
  NodeCheck check;
  check.outputs.emplace_back();
  check.outputs[0].judgement.verdict = verdict;
  check.outputs[0].metrics.outside = outside;
  return check;
}

TEST(NodeVerdictTest, AWarningAccusesOnlyIfTheDifferenceIsLarge) {
  EXPECT_EQ(IsolatedVerdict(CheckWith(Verdict::kWarning, 0).outputs),
            Verdict::kPass);
  EXPECT_EQ(IsolatedVerdict(CheckWith(Verdict::kWarning, 1).outputs),
            Verdict::kError);
  EXPECT_EQ(IsolatedVerdict(CheckWith(Verdict::kInconclusive, 1).outputs),
            Verdict::kInconclusive);
}

}  // namespace
}  // namespace nodewise
