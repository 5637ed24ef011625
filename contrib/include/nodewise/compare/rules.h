#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/compare/bounds.h"
#include "nodewise/compare/metrics.h"

namespace nodewise {

// Rules that judge a comparison's numbers: whether the tensor is right, and
// why. All functions are pure; any thread may call them.

// A verdict on one tensor; each is worse than those before it.
enum class Verdict {
  kPass,
  // Right by the rule, but unlikely to be, or right by its wider half alone.
  kWarning,
  // A correct kernel may differ as much, or it is unknown whether it may:
  // neither a pass nor an accusation.
  kInconclusive,
  kError,
};
// Returns "pass", "warning", "inconclusive" or "error".
std::string_view NameOf(Verdict verdict);

struct Judgement {
  Verdict verdict = Verdict::kPass;
  std::string reason;  // "3.1 x the proved bound"
  // The tolerance that would have passed it; empty for a pass.
  std::string would_pass = {};
};

// A rule that judges tensors. Integers and bools must be equal by all of them
// but kTolerance and, where bounds are known, kBounds.
struct Rule {
  enum class Kind {
    // The bounds that come with the reference; kByType where there are none.
    kBounds,
    kByType,     // Tolerances by the element type.
    kTolerance,  // `tolerance`, for all types.
    kAbsolute,   // Glow's: an absolute error up to tolerance.absolute.
    // Ascend's precheck: cosine, then the largest error, then the shares of
    // elements with large relative errors.
    kAscend,
  };
  Kind kind = Kind::kBounds;
  Tolerance tolerance = {};
};

// The name of a rule in options and reports, with its usual tolerance.
struct RuleName {
  Rule rule;
  std::string_view name;
};
absl::Span<const RuleName> AllRules();
std::string_view NameOf(Rule::Kind kind);
// Fails with kInvalidArgument, naming those that there are.
absl::StatusOr<Rule> RuleOfName(std::string_view name);

// Returns the tolerance that a rule has for elements of this type: what counts
// as outside in the metrics that Judge() is given.
Tolerance ToleranceOf(const Rule& rule, DLDataType dtype);

// Returns whether all elements together are beyond the relative part of a
// tolerance.
bool IsFarOff(const Tolerance& tolerance, const Metrics& metrics);

// Judges a tensor of this type by its metrics, and by its bounds if any are
// known (else null).
Judgement Judge(const Rule& rule, DLDataType dtype, const Metrics& metrics,
                const BoundCheck* bounds);

// Returns whether kBounds passes a tensor of this type with any bounds, as long
// as no element is beyond one of its own and one is known for each that is
// beyond ToleranceOf() the rule: its other criteria do not come near their
// limits. Then Judge() need not be given bounds.
bool PassesIfWithinBounds(DLDataType dtype, const Metrics& metrics);

}  // namespace nodewise
