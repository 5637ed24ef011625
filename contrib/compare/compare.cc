#include "nodewise/compare/compare.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status CheckTypes(const TensorItem& reference, const DLTensor& candidate,
                        bool may_convert) {
  if (reference.tensor == nullptr) {
    return NotFound("{}: the reference has no tensor{}{}", reference.key.Name(),
                    reference.why_absent.empty() ? "" : ": ",
                    reference.why_absent);
  }
  const DLTensor& expected = *reference.tensor;
  if ((may_convert || IsSameType(expected.dtype, candidate.dtype)) &&
      ShapeOf(expected) == ShapeOf(candidate)) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: is {}, expected {} as in the reference",
                         reference.key.Name(),
                         TypeToString(ShapeOf(candidate), candidate.dtype),
                         TypeToString(ShapeOf(expected), expected.dtype));
}

// Returns the tensor compact and in host memory, since all that follows walks
// over bytes. Most tensors are so already, and are not copied.
absl::StatusOr<NDArray> Readable(const DLTensor& tensor) {
  const NDArray borrowed = NDArray::Borrow(tensor, nullptr);
  const bool is_ready =
      tensor.device.device_type == kDLCPU && IsCompact(tensor);
  return is_ready ? borrowed : borrowed.CopyToHost();
}

// Types without numbers can be compared by this alone.
bool AreEqualBytes(const NDArray& a, const NDArray& b) {
  return a.dtype() == b.dtype() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// All bounds of a source take much longer than to ask it whether everything is
// within them.
absl::Status AddBounds(const TensorItem& reference, const NDArray& expected,
                       const NDArray& actual, const Rule& rule,
                       TensorComparison* result) {
  BoundSpans bounds{reference.proved_bounds, reference.expected_bounds};
  if (bounds.proved.empty() && bounds.expected.empty()) {
    BoundSource* const source = reference.bound_source;
    if (source == nullptr) return absl::OkStatus();
    if (rule.kind == Rule::Kind::kBounds &&
        PassesIfWithinBounds(expected.dtype(), result->metrics)) {
      const Tolerance usual = ToleranceOf(rule, expected.dtype());
      // If elements are beyond the usual tolerance, those without a bound must
      // be within it; else an element without a bound counts for nothing.
      UnboundedLimit unbounded;
      if (result->metrics.outside > 0) {
        unbounded = {usual.absolute, usual.relative};
      }
      NODEWISE_ASSIGN_OR_RETURN(result->is_surely_within,
                                source->IsProvablyWithin(*actual, unbounded));
      if (result->is_surely_within) return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(bounds, source->All());
  }
  result->bounds =
      CheckBounds(*expected, *actual, bounds.proved, bounds.expected,
                  ToleranceOf({Rule::Kind::kByType}, expected.dtype()));
  if (rule.kind != Rule::Kind::kBounds) return absl::OkStatus();
  // Where any result is right, NaN is right as well, but only a rule of bounds
  // knows that.
  IgnoreOpenElements(*result->bounds, &result->metrics);
  return absl::OkStatus();
}

}  // namespace

// An element that is not finite outweighs any error, as it does for the
// verdict.
const ElementDifference& TensorComparison::Worst() const {
  if (metrics.non_finite() > 0) return metrics.first_non_finite;
  if (bounds) return bounds->worst;
  return metrics.outside > 0 && metrics.absolute_needed > 0
             ? metrics.largest_excess
             : metrics.largest_error;
}

// A joint test of many elements may see what no single element shows, but
// significance without size is not an error.
Verdict WeighedVerdict(const TensorComparison& comparison) {
  if (comparison.verdict() != Verdict::kWarning) return comparison.verdict();
  return comparison.metrics.outside > 0 ? Verdict::kError : Verdict::kPass;
}

double ErrorOverBound(const TensorComparison& comparison) {
  if (comparison.is_equal()) return 0;
  if (comparison.metrics.non_finite() > 0) {
    return std::numeric_limits<double>::infinity();
  }
  if (comparison.is_surely_within) return 1;
  return comparison.bounds ? comparison.bounds->ratio
                           : std::numeric_limits<double>::quiet_NaN();
}

absl::StatusOr<TensorComparison> CompareTensors(const TensorItem& reference,
                                                const DLTensor& candidate,
                                                const CompareOptions& options) {
  // A node that has run before may have left rounding or the treatment of
  // subnormal numbers changed, and the judge must not compute with that.
  const DefaultFloatEnvironment floats;
  NODEWISE_RETURN_IF_ERROR(
      CheckTypes(reference, candidate, options.may_convert));
  NODEWISE_ASSIGN_OR_RETURN(const auto expected, Readable(*reference.tensor));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray actual, Readable(candidate));
  TensorComparison result;
  result.key = result.candidate = reference.key;
  result.type = TypeToString(expected.shape(), expected.dtype());
  const DLDataType dtype = expected.dtype();
  const Tolerance tolerance = ToleranceOf(options.rule, dtype);
  const auto metrics = MeasureDifference(*expected, *actual, tolerance);
  if (absl::IsUnimplemented(metrics.status()) &&
      AreEqualBytes(expected, actual)) {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t elements,
                              NumElements(expected.shape()));
    result.metrics.elements = static_cast<uint64_t>(elements);
  } else if (!metrics.ok()) {
    return At(reference.key.Name(), metrics.status());
  } else {
    result.metrics = *metrics;
  }
  result.is_large =
      result.metrics.outside > 0 || IsFarOff(tolerance, result.metrics);
  if (result.metrics.different > 0 && expected.dtype() == actual.dtype()) {
    NODEWISE_RETURN_IF_ERROR(
        AddBounds(reference, expected, actual, options.rule, &result));
  }
  result.judgement =
      result.is_surely_within
          ? Judgement{Verdict::kPass, "within the bounds of every element", ""}
          : Judge(options.rule, dtype, result.metrics,
                  result.bounds ? &*result.bounds : nullptr);
  if (options.describe && result.metrics.different > 0 &&
      dtype == actual.dtype()) {
    result.details =
        DescribeDifference(*expected, *actual, result.metrics, tolerance);
  }
  return result;
}

// A reference that is all zeros has no size that an error could be compared
// with.
double RelativeError(const TensorComparison& comparison) {
  const Metrics& metrics = comparison.metrics;
  if (metrics.different == 0) return 0;
  if (metrics.non_finite() > 0 || metrics.expected_norm == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return metrics.difference_norm / metrics.expected_norm;
}

size_t Comparison::CountOf(Verdict verdict) const {
  return static_cast<size_t>(
      std::ranges::count(tensors, verdict, &TensorComparison::verdict));
}

size_t Comparison::CountOf(SkippedTensor::Kind kind) const {
  return static_cast<size_t>(
      std::ranges::count(skipped, kind, &SkippedTensor::kind));
}

}  // namespace nodewise
