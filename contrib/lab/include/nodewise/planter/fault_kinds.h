#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// The kinds of faults that can be planted (docs/planter.md): those of compiled
// code, of the compiler's plan, and of the process that runs it.
enum class FaultKind {
  kScale,
  kMissingBias,
  kOneWeight,
  kOneChannel,
  kWrongOrder,
  kWrongPadding,
  kWrongAttribute,
  kOffByOne,
  kDroppedLane,
  kUnmaskedTail,
  kStaleBuffer,
  kSwappedInputs,
  kFloat16Sums,
  kTruncation,
  kNan,
  kApproximation,
  kPlanOverlap,
  kOverrun,
  kFlaky,
  kCrash,
  kHang,
};

// Where a fault shows.
enum class FaultSign {
  kWrongValues,  // What the node makes is wrong in every run.
  kVictims,      // What the node makes is right; what others made is spoiled.
  kSometimes,    // What the node makes is wrong in some runs.
  kNoReturn,     // The node ends the process, or never ends.
};

struct FaultKindRow {
  FaultKind kind;
  std::string_view name;   // "bias-missing"
  std::string_view means;  // "a constant that is added is taken to be 0"
  FaultSign sign;
};

// Returns a row for each kind, in the order of the enum.
absl::Span<const FaultKindRow> FaultKinds();
const FaultKindRow& RowOf(FaultKind kind);
// Fails with kInvalidArgument, with all names, for a name that is none.
absl::StatusOr<FaultKind> ParseFaultKind(std::string_view name);

}  // namespace nodewise
