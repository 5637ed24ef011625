#include "nodewise/compare/rules.h"

#include <cmath>
#include <vector>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Glow's default.
constexpr double kGlowThreshold = 1e-5;

constexpr RuleName kRules[] = {
    {{Rule::Kind::kBounds}, "bounds"},
    {{Rule::Kind::kByType}, "by-type"},
    {{Rule::Kind::kTolerance}, "tolerance"},
    {{Rule::Kind::kAbsolute, {kGlowThreshold, 0}}, "absolute"},
    {{Rule::Kind::kAscend}, "ascend"},
};

// How far off results may be without being at fault, in steps of the type, and
// how much farther where errors have come a long way. Callers who know better
// give their own tolerances.
struct TypeTolerance {
  uint8_t code, bits;
  double step;  // From 1 to the next number.
  Tolerance tolerance;
};
constexpr TypeTolerance kTypeTolerances[] = {
    {kDLFloat, 64, 0x1p-52, {1e-7, 1e-7}},
    {kDLFloat, 32, 0x1p-23, {1e-5, 1e-4}},
    {kDLFloat, 16, 0x1p-10, {1e-3, 1e-2}},
    {kDLBfloat, 16, 0x1p-7, {1e-2, 5e-2}},
    {kDLComplex, 128, 0x1p-52, {1e-7, 1e-7}},
    {kDLComplex, 64, 0x1p-23, {1e-5, 1e-4}},
    {kDTypeE4M3, 8, 0x1p-3, {0x1p-9, 0.125}},
    {kDTypeE4M3Fnuz, 8, 0x1p-3, {0x1p-10, 0.125}},
    {kDTypeE5M2, 8, 0x1p-2, {0x1p-16, 0.25}},
    {kDTypeE5M2Fnuz, 8, 0x1p-2, {0x1p-17, 0.25}},
    {kDTypeE8M0, 8, 1, {0, 1}},
    {kDTypeE2M1, 4, 0x1p-1, {0.5, 0.5}},
};

const TypeTolerance* RowOf(DLDataType dtype) {
  for (const TypeTolerance& row : kTypeTolerances) {
    if (row.code == dtype.code && row.bits == dtype.bits) return &row;
  }
  return nullptr;
}

bool IsExactType(DLDataType dtype) {
  return dtype.code == kDLInt || dtype.code == kDLUInt ||
         dtype.code == kDTypeBool;
}

// Everything that the judges of the rules look at. A judge reads it and returns
// a verdict with its reason; none of them measures anything.
struct Evidence {
  const Rule& rule;
  DLDataType dtype;
  const Metrics& metrics;
  const BoundCheck* bounds;
};

std::string ShareOf(uint64_t part, uint64_t whole) {
  return fmt::format("{} of {}", part, CountOf(whole, "element"));
}

std::string Text(const Tolerance& tolerance) {
  return fmt::format("atol {:.3g}, rtol {:.3g}", tolerance.absolute,
                     tolerance.relative);
}

// The tolerance that would have passed has the relative part of the rule:
// `absolute_needed` was measured with that.
Judgement JudgeByTolerance(const Evidence& e) {
  const Metrics& metrics = e.metrics;
  const Tolerance tolerance = ToleranceOf(e.rule, e.dtype);
  if (metrics.outside == 0) {
    return {Verdict::kPass,
            metrics.different == 0 ? "equal" : "within " + Text(tolerance)};
  }
  const bool is_equality = IsExactType(e.dtype) && tolerance.absolute == 0 &&
                           tolerance.relative == 0;
  return {Verdict::kError,
          ShareOf(metrics.outside, metrics.elements) +
              (is_equality ? " not equal" : " beyond " + Text(tolerance)),
          Text({metrics.absolute_needed, tolerance.relative})};
}

// The smallest probability that is not held against a correct kernel, and what
// follows from it: no more than one element in a million is beyond the bound
// that holds in practice.
constexpr double kChance = 1e-9;
constexpr double kUnexpectedShare = 1e-6;
// Independent errors are aligned like this with a probability below kChance if
// the bounds in practice are one standard deviation; they are several.
constexpr double kMostAlignment = 6.2;

// Returns the probability of at least `count` events where `mean` are expected,
// from above: Chernoff's bound on Poisson's distribution.
double TailProbability(double count, double mean) {
  if (count <= mean) return 1;
  if (mean == 0) return 0;
  return std::exp(count - mean - count * std::log(count / mean));
}

// One constant of a correct kernel may be rounded, which is a factor on all
// that it makes; no factor below so many steps of the type is held against it.
constexpr double kFreeSteps = 8;

bool IsScaleFree(DLDataType dtype, const Metrics& metrics) {
  const TypeTolerance* const row = RowOf(dtype);
  return row == nullptr ||
         !(std::fabs(metrics.scale - 1) > kFreeSteps * row->step);
}

// Both must hold: the alignment says that chance does not explain the factor,
// and the steps that it is too large for a rounded constant.
bool IsScaled(const Evidence& e) {
  return e.bounds->alignment > kMostAlignment &&
         !IsScaleFree(e.dtype, e.metrics);
}

bool AreManyUnexpected(const Evidence& e) {
  const auto count = static_cast<double>(e.bounds->unexpected);
  const double mean =
      kUnexpectedShare * static_cast<double>(e.metrics.elements);
  // A single element is never held against a kernel.
  return e.bounds->unexpected > 1 && TailProbability(count, mean) < kChance;
}

// Bounds as large as the values say nothing about a kernel that makes others.
constexpr double kVagueBounds = 0.1;

// Such a bound is proved, and allows for results that have nothing to do with
// the right ones; so what is beyond the usual tolerance cannot be cleared by
// it.
bool AreBoundsVague(const Evidence& e, const Tolerance& usual) {
  const Metrics& metrics = e.metrics;
  return e.bounds->allowed_norm > kVagueBounds * metrics.expected_norm &&
         IsFarOff(usual, metrics) && metrics.outside > 0;
}

// No element is beyond its proved bound, which still leaves five doubts. They
// are taken in this order: elements that have no bound, bounds that allow
// anything, too many elements beyond what is expected, a factor on all, and
// numbers that are subnormal.
Judgement JudgeWithin(const Evidence& e) {
  const Metrics& metrics = e.metrics;
  const BoundCheck& bounds = *e.bounds;
  const Tolerance usual = ToleranceOf({Rule::Kind::kByType}, e.dtype);
  if (bounds.outside_fallback > 0) {
    return {
        Verdict::kInconclusive,
        fmt::format("no bound is known for {} that differ by more than {}",
                    CountOf(bounds.outside_fallback, "element"), Text(usual)),
        Text({metrics.absolute_needed, usual.relative})};
  }
  const std::string many =
      fmt::format("{} beyond what is expected of a correct kernel",
                  ShareOf(bounds.unexpected, metrics.elements));
  if (AreBoundsVague(e, usual)) {
    // A share that chance does not explain accuses where it is large, too.
    if (AreManyUnexpected(e)) {
      return {Verdict::kError,
              fmt::format("{}, though the proved bound is {:.2g} x the values "
                          "themselves",
                          many, bounds.allowed_norm / metrics.expected_norm)};
    }
    return {Verdict::kInconclusive,
            fmt::format("badly conditioned: the error allowed here is {:.2g} x "
                        "the values themselves, and {:.2g} x the difference",
                        bounds.allowed_norm / metrics.expected_norm,
                        bounds.allowed_norm / metrics.difference_norm)};
  }
  if (AreManyUnexpected(e)) {
    return {Verdict::kWarning, "within the proved bound, but " + many};
  }
  if (IsScaled(e)) {
    return {Verdict::kWarning,
            fmt::format("within the proved bound, but all as if multiplied by "
                        "{:.7g}: {:.1f} x what rounding does",
                        metrics.scale, bounds.alignment)};
  }
  if (bounds.subnormal > 0) {
    return {Verdict::kPass,
            fmt::format("{} beyond their bounds by no more than subnormal "
                        "numbers make (the smallest normal one is {:.3g})",
                        ShareOf(bounds.subnormal, metrics.elements),
                        SmallestNormal(e.dtype))};
  }
  if (std::isnan(bounds.ratio)) {
    return {Verdict::kPass, "no bound is known; within " + Text(usual)};
  }
  return {Verdict::kPass,
          fmt::format("{:.2g} x the proved bound", bounds.ratio)};
}

// A bound of 0 means that a kernel has nothing to round.
Judgement JudgeByBounds(const Evidence& e) {
  if (e.bounds == nullptr) return JudgeByTolerance(e);
  if (e.metrics.different == 0) return {Verdict::kPass, "equal"};
  if (e.bounds->outside == 0) return JudgeWithin(e);
  const std::string reason =
      std::isinf(e.bounds->ratio)
          ? "must be exact"
          : fmt::format("{:.2g} x the proved bound", e.bounds->ratio);
  return {Verdict::kError,
          fmt::format("{}; {} beyond it", reason,
                      ShareOf(e.bounds->outside, e.metrics.elements)),
          std::isinf(e.bounds->ratio)
              ? fmt::format("atol {:.3g}", e.metrics.largest_error.error)
              : fmt::format("{:.3g} times the proved bound", e.bounds->ratio)};
}

// One of the shares of Ascend's rules: as many as one element in a hundred may
// be off by one per cent, and so on.
struct DualRule {
  const char* name;
  double share;
  uint64_t above, elements;

  bool IsMet() const {
    return static_cast<double>(above) < share * static_cast<double>(elements);
  }
  std::string Reason() const {
    return fmt::format("{}: {} off by more than {:g} %", name,
                       ShareOf(above, elements), 100 * share);
  }
};

// Both are those of Ascend's own precheck tool, which these verdicts repeat.
constexpr double kAscendCosine = 0.99;
constexpr double kAscendLargest = 0.001;

// Short floats are held to hundredths and thousandths, longer ones to
// thousandths and ten-thousandths: the first is an error if it is not met, the
// second a warning.
Judgement JudgeByAscendRule(const Evidence& e) {
  const Metrics& metrics = e.metrics;
  if (IsExactType(e.dtype)) return JudgeByTolerance(e);
  const std::string would_pass =
      fmt::format("atol {:.3g}", metrics.largest_error.error);
  if (metrics.cosine() <= kAscendCosine) {
    return {Verdict::kError,
            fmt::format("cosine {:.6f}, expected above {}", metrics.cosine(),
                        kAscendCosine),
            would_pass};
  }
  if (metrics.largest_error.error < kAscendLargest) {
    return {Verdict::kPass,
            fmt::format("largest error {:.3g}", metrics.largest_error.error)};
  }
  const DualRule dual[] = {
      {"dual hundredth", 0.01, metrics.above_hundredth, metrics.elements},
      {"dual thousandth", 0.001, metrics.above_thousandth, metrics.elements},
      {"dual ten thousandth", 0.0001, metrics.above_ten_thousandth,
       metrics.elements}};
  const bool is_short = e.dtype.bits <= 16;
  const DualRule& required = dual[is_short ? 0 : 1];
  const DualRule& wanted = dual[is_short ? 1 : 2];
  if (!required.IsMet()) {
    return {Verdict::kError, required.Reason(), would_pass};
  }
  if (!wanted.IsMet()) return {Verdict::kWarning, wanted.Reason(), would_pass};
  return {Verdict::kPass, wanted.Reason()};
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  constexpr std::string_view kNames[] = {"pass", "warning", "inconclusive",
                                         "error"};
  return kNames[static_cast<size_t>(verdict)];
}

absl::Span<const RuleName> AllRules() { return kRules; }

std::string_view NameOf(Rule::Kind kind) {
  for (const RuleName& row : kRules) {
    if (row.rule.kind == kind) return row.name;
  }
  return "";
}

absl::StatusOr<Rule> RuleOfName(std::string_view name) {
  std::vector<std::string> names;
  for (const RuleName& row : kRules) {
    if (row.name == name) return row.rule;
    names.emplace_back(row.name);
  }
  return InvalidArgument("found \"{}\", expected one of {}", Printable(name),
                         ListOf(names));
}

// Integers have no tolerance but one that the user gives for all types.
Tolerance ToleranceOf(const Rule& rule, DLDataType dtype) {
  if (rule.kind == Rule::Kind::kTolerance) return rule.tolerance;
  if (rule.kind == Rule::Kind::kAbsolute && !IsExactType(dtype)) {
    return {rule.tolerance.absolute, 0};
  }
  if (IsExactType(dtype)) return {};
  const TypeTolerance* const row = RowOf(dtype);
  return row == nullptr ? Tolerance() : row->tolerance;
}

bool IsFarOff(const Tolerance& tolerance, const Metrics& metrics) {
  return metrics.difference_norm > tolerance.relative * metrics.expected_norm;
}

// NaN or an infinity on one side alone is an error by every rule, before any of
// them is asked.
Judgement Judge(const Rule& rule, DLDataType dtype, const Metrics& metrics,
                const BoundCheck* bounds) {
  if (metrics.non_finite() > 0) {
    const ElementDifference& first = metrics.first_non_finite;
    return {Verdict::kError,
            fmt::format("{} not finite on one side alone; the first, {}, is "
                        "{}, expected {}",
                        ShareOf(metrics.non_finite(), metrics.elements),
                        first.element, first.actual, first.expected)};
  }
  const Evidence evidence{rule, dtype, metrics, bounds};
  if (rule.kind == Rule::Kind::kBounds) return JudgeByBounds(evidence);
  if (rule.kind == Rule::Kind::kAscend) return JudgeByAscendRule(evidence);
  return JudgeByTolerance(evidence);
}

// JudgeWithin() without its last lines: vague bounds only count where
// something is outside of the tolerance, and the whole is, too.
bool PassesIfWithinBounds(DLDataType dtype, const Metrics& metrics) {
  return metrics.non_finite() == 0 && IsScaleFree(dtype, metrics) &&
         (metrics.outside == 0 ||
          !IsFarOff(ToleranceOf({Rule::Kind::kByType}, dtype), metrics));
}

}  // namespace nodewise
