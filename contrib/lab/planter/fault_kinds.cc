#include "nodewise/planter/fault_kinds.h"

#include <string>

#include "fmt/format.h"

namespace nodewise {
namespace {

constexpr FaultKindRow kFaultKindRows[] = {
    {FaultKind::kScale, "scale",
     "all that the node makes is one to two per cent too large or too small",
     FaultSign::kWrongValues},
    {FaultKind::kMissingBias, "bias-missing",
     "a constant that is added is taken to be 0", FaultSign::kWrongValues},
    {FaultKind::kOneWeight, "one-weight", "one element of a constant is wrong",
     FaultSign::kWrongValues},
    {FaultKind::kOneChannel, "one-channel",
     "one index along one side of the result is wrong",
     FaultSign::kWrongValues},
    {FaultKind::kWrongOrder, "wrong-order",
     "an axis is another one, or the result is stored transposed",
     FaultSign::kWrongValues},
    {FaultKind::kWrongPadding, "wrong-padding",
     "padding stands at the other end", FaultSign::kWrongValues},
    {FaultKind::kWrongAttribute, "wrong-attribute",
     "a number or a switch among the attributes is wrong: epsilon, a slope, "
     "whether padding counts",
     FaultSign::kWrongValues},
    {FaultKind::kOffByOne, "off-by-one",
     "the result is shifted by one along a side", FaultSign::kWrongValues},
    {FaultKind::kDroppedLane, "lane-drop",
     "every n-th element of the result is 0", FaultSign::kWrongValues},
    {FaultKind::kUnmaskedTail, "tail-not-masked",
     "what is left of a row behind the last whole vector holds other elements "
     "of the row",
     FaultSign::kWrongValues},
    {FaultKind::kStaleBuffer, "stale-buffer",
     "a block of the result is not written and holds something older",
     FaultSign::kWrongValues},
    {FaultKind::kSwappedInputs, "swapped-inputs",
     "two inputs of one type are exchanged", FaultSign::kWrongValues},
    {FaultKind::kFloat16Sums, "float16-sums", "sums are accumulated in float16",
     FaultSign::kWrongValues},
    {FaultKind::kTruncation, "truncation",
     "results are truncated instead of rounded: to integers, or to fewer bits",
     FaultSign::kWrongValues},
    {FaultKind::kNan, "nan", "one element of the result is NaN",
     FaultSign::kWrongValues},
    {FaultKind::kApproximation, "approximation",
     "exp, erf or another function is interpolated between few points",
     FaultSign::kWrongValues},
    {FaultKind::kPlanOverlap, "plan-overlap",
     "the node's result lies in the memory of another one that is still needed",
     FaultSign::kVictims},
    {FaultKind::kOverrun, "overrun",
     "the node writes past the end of its result", FaultSign::kVictims},
    {FaultKind::kFlaky, "flaky", "in a third of the calls the result is wrong",
     FaultSign::kSometimes},
    {FaultKind::kCrash, "crash", "the node ends the process by SIGSEGV",
     FaultSign::kNoReturn},
    {FaultKind::kHang, "hang", "the node never ends", FaultSign::kNoReturn},
};

}  // namespace

absl::Span<const FaultKindRow> FaultKinds() { return kFaultKindRows; }

const FaultKindRow& RowOf(FaultKind kind) {
  return kFaultKindRows[static_cast<size_t>(kind)];
}

absl::StatusOr<FaultKind> ParseFaultKind(std::string_view name) {
  std::string names;
  for (const FaultKindRow& row : kFaultKindRows) {
    if (row.name == name) return row.kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: is not a kind of fault, expected one of {}", name, names));
}

}  // namespace nodewise
