#include "nodewise/autotest/case_verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "fmt/format.h"
#include "nodewise/interp/exact_tensors.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {
namespace {

constexpr CompareOptions kBitForBit = {{Rule::Kind::kTolerance, {0, 0}}};
constexpr std::string_view kNames[] = {"agrees",
                                       "inconclusive",
                                       "reference refuses",
                                       "both refuse",
                                       "candidate refuses",
                                       "mismatch",
                                       "wrong type",
                                       "crash",
                                       "hang"};

CaseVerdict WrongType(size_t output, std::string reason) {
  return {CaseOutcome::kWrongType, output, std::move(reason)};
}

// Returns whether the kernel's algorithm itself may be inexact, as Winograd's
// is.
bool MayRoundExactSums(const Network& network) {
  return std::ranges::any_of(network.order(), [&](OperationId id) {
    const OpAttrs& attrs = network.operation(id).attrs;
    return attrs.As<ops::Conv>() != nullptr ||
           attrs.As<ops::ConvTranspose>() != nullptr;
  });
}

bool IsFinite(const NDArray& tensor) {
  if (!IsFloat(tensor.dtype())) return true;
  return std::ranges::all_of(ToDoubles(tensor),
                             [](double x) { return std::isfinite(x); });
}

CaseVerdict VerdictOf(size_t output, TensorComparison comparison) {
  const Verdict weighed = WeighedVerdict(comparison);
  CaseVerdict verdict{weighed == Verdict::kError ? CaseOutcome::kMismatch
                      : weighed == Verdict::kInconclusive
                          ? CaseOutcome::kInconclusive
                          : CaseOutcome::kAgrees,
                      output, comparison.judgement.reason};
  verdict.comparison = std::move(comparison);
  return verdict;
}

absl::Status CheckDemandedDomain(const InputDomain& domain,
                                 const NDArray& tensor) {
  if (domain.may_be_nan || !tensor.defined() || !IsFloat(tensor.dtype())) {
    return absl::OkStatus();
  }
  const bool has_nan = std::ranges::any_of(
      ToDoubles(tensor), [](double x) { return std::isnan(x); });
  return has_nan ? OutOfRange("an operator reads NaN that says nothing of NaN")
                 : absl::OkStatus();
}

// The reference, but with other signs of the zeros that one operation makes:
// such signs are not judged, so nothing that follows from one may be judged.
class ZeroSignFlipper : public Evaluator {
 public:
  explicit ZeroSignFlipper(OperationId of) : of_(of) {}

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    const OperationId id = call.operation.id;
    NODEWISE_ASSIGN_OR_RETURN(Evaluated made, ReferenceEvaluator().Evaluate(
                                                  std::move(call), options));
    if (id != of_) return made;
    for (NDArray& output : made.outputs) {
      if (!output.defined() || !IsFloat(output.dtype())) continue;
      std::vector<double> numbers = ToDoubles(output);
      for (double& x : numbers) {
        if (x == 0) x = -x;
      }
      NODEWISE_ASSIGN_OR_RETURN(
          output, TensorOfDoubles(output.dtype(), output.shape(), numbers));
    }
    return made;
  }

 private:
  const OperationId of_;
};

bool IsSameNumber(double x, double y) {
  return x == y || (std::isnan(x) && std::isnan(y));
}

bool DiffersBeyondZeroSigns(const NDArray& a, const NDArray& b) {
  if (!(TensorType::From(*a) == TensorType::From(*b))) return true;
  if (!IsFloat(a.dtype())) return !HasEqualBytes(a, b);
  return !std::ranges::equal(ToDoubles(a), ToDoubles(b), &IsSameNumber);
}

// Returns whether an output follows from the sign of a zero on the way: 1 / 0
// and 1 / -0 are far apart. Each operation is tried alone, with the signs of
// all of its zeros turned; a network that cannot be run then counts as one that
// hangs on them.
bool DependsOnZeroSigns(const Network& network,
                        const std::vector<NDArray>& inputs,
                        const NDArray& expected, size_t output) {
  return std::ranges::any_of(network.order(), [&](OperationId id) {
    const ZeroSignFlipper evaluator(id);
    const auto other = Interpreter(network, evaluator).Run(inputs);
    return !other.ok() || DiffersBeyondZeroSigns((*other)[output], expected);
  });
}

// Returns whether numbers that are not finite on one side alone are all that is
// wrong, and no bounds are known for them: what they are made of is off by an
// amount that is not known, and may have crossed the end of the type.
bool OverflowsSomewhere(const NDArray& expected, const NDArray& actual,
                        BoundSource& source) {
  if (!IsFloat(expected.dtype())) return false;
  const auto bounds = source.All();
  if (!bounds.ok()) return false;
  const std::vector<double> x = ToDoubles(expected);
  std::vector<double> y = ToDoubles(actual);
  for (size_t i = 0; i < x.size(); ++i) {
    if (IsSameNumber(x[i], y[i]) ||
        (std::isfinite(x[i]) && std::isfinite(y[i]))) {
      continue;
    }
    if (i >= bounds->proved.size() || !std::isnan(bounds->proved[i])) {
      return false;
    }
    y[i] = x[i];
  }
  // Once the excused places hold the right numbers, all other elements have to
  // be right.
  const auto excused = TensorOfDoubles(expected.dtype(), expected.shape(), y);
  if (!excused.ok()) return false;
  const TensorKey key{"y", 0, TensorRole::kOutput, "reference"};
  const auto compared = CompareTensors(
      {.key = key, .tensor = expected.tensor(), .bound_source = &source},
      **excused);
  return compared.ok() && !compared->is_wrong();
}

CaseVerdict InconclusiveVerdict(size_t output, const absl::Status& status) {
  return {CaseOutcome::kInconclusive, output, std::string(status.message())};
}

// Bounds are sampled when they are asked for, once for all outputs.
struct Evidence {
  const Network& network;
  const ValueSet& set;
  bool is_gradient = false;
  std::vector<Bounds> sampled = {};
};

// The bounds that are proved are of the reference's own formula. For a
// gradient, which may be computed by another one, bounds are sampled as well,
// from runs in which the results of operations are moved by as much as a kernel
// may be off. A mismatch by the first and not by the second is inconclusive.
absl::StatusOr<CaseVerdict> ByBounds(Evidence& evidence, size_t output,
                                     TensorItem item, const DLTensor& actual) {
  NODEWISE_ASSIGN_OR_RETURN(auto compared, CompareTensors(item, actual));
  CaseVerdict proved = VerdictOf(output, std::move(compared));
  const bool is_wrong = proved.outcome == CaseOutcome::kMismatch;
  if (proved.outcome == CaseOutcome::kAgrees || !evidence.is_gradient) {
    return proved;
  }
  std::vector<Bounds>& sampled = evidence.sampled;
  if (sampled.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(
        sampled, SampledBounds(evidence.network, evidence.set.inputs));
  }
  item.bound_source = nullptr;
  item.proved_bounds = sampled[output].proved;
  item.expected_bounds = sampled[output].expected;
  NODEWISE_ASSIGN_OR_RETURN(compared, CompareTensors(item, actual));
  CaseVerdict verdict = VerdictOf(output, std::move(compared));
  if (!is_wrong || verdict.outcome == CaseOutcome::kMismatch) return verdict;
  proved.outcome = CaseOutcome::kInconclusive;
  proved.reason += "; another formula may differ as much";
  return proved;
}

// For a network of several operations: makes a mismatch inconclusive where a
// correct candidate may differ as well.
void DowngradeMismatch(const Evidence& evidence, const NDArray& expected,
                       const NDArray& actual, BoundSource& bounds,
                       CaseVerdict* verdict) {
  if (evidence.network.order().size() < 2) return;
  if (DependsOnZeroSigns(evidence.network, evidence.set.inputs, expected,
                         verdict->output)) {
    verdict->reason = "follows from the sign of a zero on the way";
  } else if (verdict->comparison.has_value() &&
             verdict->comparison->metrics.non_finite() > 0 &&
             OverflowsSomewhere(expected, actual, bounds)) {
    verdict->reason = "it is not known how far away an overflow is";
  } else {
    return;
  }
  verdict->outcome = CaseOutcome::kInconclusive;
}

// Types and shapes first, of all outputs, since numbers of a wrong shape
// compare with nothing. Then equal bytes, which most outputs have and which
// spare the run that bounds take. What is left is compared output by output,
// and the worst verdict is that of the case.
CaseVerdict JudgeOutputs(Evidence evidence,
                         const std::vector<NDArray>& expected,
                         const std::vector<NDArray>& actual) {
  if (actual.size() != expected.size()) {
    return WrongType(0, fmt::format("{} outputs, expected {}", actual.size(),
                                    expected.size()));
  }
  bool is_equal = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!actual[i].defined()) return WrongType(i, "no tensor");
    if (!(actual[i].dtype() == expected[i].dtype()) ||
        actual[i].shape() != expected[i].shape()) {
      return WrongType(i,
                       fmt::format("is {}, expected {}",
                                   ToString(TensorType::From(*actual[i])),
                                   ToString(TensorType::From(*expected[i]))));
    }
    is_equal = is_equal && HasEqualBytes(expected[i], actual[i]);
  }
  if (is_equal) return {};
  if (evidence.is_gradient && !std::ranges::all_of(expected, &IsFinite)) {
    return {CaseOutcome::kInconclusive, 0,
            "the gradient is not finite, and depends on what is rounded"};
  }
  const auto run = RunWithLazyBounds(evidence.network, evidence.set.inputs);
  if (!run.ok()) return InconclusiveVerdict(0, run.status());
  CaseVerdict worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorKey key{"y", static_cast<uint32_t>(i), TensorRole::kOutput,
                        "reference"};
    TensorItem item{.key = key,
                    .tensor = expected[i].tensor(),
                    .bound_source = &(*run)->bounds(i)};
    auto by_bounds = ByBounds(evidence, i, item, *actual[i]);
    if (!by_bounds.ok()) return InconclusiveVerdict(i, by_bounds.status());
    CaseVerdict verdict = *std::move(by_bounds);
    if (verdict.outcome < CaseOutcome::kMismatch && evidence.set.is_exact &&
        !MayRoundExactSums(evidence.network)) {
      item.bound_source = nullptr;
      auto compared = CompareTensors(item, *actual[i], kBitForBit);
      if (compared.ok() && compared->is_wrong()) {
        verdict = VerdictOf(i, *std::move(compared));
        verdict.reason = "other bits than every order of the sums gives";
      }
    }
    if (verdict.outcome == CaseOutcome::kMismatch) {
      DowngradeMismatch(evidence, expected[i], actual[i], (*run)->bounds(i),
                        &verdict);
    }
    if (verdict.outcome > worst.outcome) worst = std::move(verdict);
  }
  return worst;
}

}  // namespace

std::string_view NameOf(CaseOutcome outcome) {
  return kNames[static_cast<size_t>(outcome)];
}

CaseReference::CaseReference(const Network& network, bool is_gradient)
    : network_(network), is_gradient_(is_gradient), interpreter_(network) {}

CaseReference::CaseReference(const OperatorCase& made)
    : CaseReference(*made.network, made.backward != nullptr) {
  for (const ValueDemand& demand : made.configuration.demands) {
    // A network that was made simpler may have lost the value of a demand.
    const auto id = network_.FindValue(demand.value);
    if (id.ok()) demands_[*id] = demand.domain;
  }
}

// Demands of a case are about values on the way, too, so they are checked while
// the reference runs: beyond them an operator says nothing of its result.
CandidateOutputs CaseReference::Run(const std::vector<NDArray>& inputs) const {
  if (demands_.empty()) return interpreter_.Run(inputs);
  for (size_t i = 0; i < network_.inputs().size(); ++i) {
    const auto demand = demands_.find(network_.inputs()[i]);
    if (demand == demands_.end()) continue;
    NODEWISE_RETURN_IF_ERROR(CheckDemandedDomain(demand->second, inputs[i]));
  }
  InterpretOptions options;
  options.observe = [this](const OperationRun& run) -> absl::StatusOr<bool> {
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      const auto demand = demands_.find(run.operation.outputs[i]);
      if (demand == demands_.end()) continue;
      NODEWISE_RETURN_IF_ERROR(
          CheckDemandedDomain(demand->second, run.result.outputs[i]));
    }
    return false;
  };
  return interpreter_.Run(inputs, options);
}

CaseVerdict CaseReference::Judge(const ValueSet& set,
                                 const CandidateOutputs& expected,
                                 const CandidateOutputs& actual) const {
  if (!expected.ok()) {
    return {
        actual.ok() ? CaseOutcome::kReferenceRefuses : CaseOutcome::kBothRefuse,
        0, std::string(expected.status().message())};
  }
  if (actual.ok()) {
    return JudgeOutputs({network_, set, is_gradient_}, *expected, *actual);
  }
  const absl::Status& why = actual.status();
  return {absl::IsAborted(why)            ? CaseOutcome::kCrash
          : absl::IsDeadlineExceeded(why) ? CaseOutcome::kHang
                                          : CaseOutcome::kCandidateRefuses,
          0, std::string(why.message())};
}

}  // namespace nodewise
