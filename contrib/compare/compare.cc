#include "nodewise/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_collector.h"

namespace nodewise {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How much of its bound an error is.
double RatioOf(const BoundedDifference& difference) {
  if (std::isnan(difference.error)) return kInfinity;
  if (difference.error == 0) return 0;
  return difference.error / difference.bound;  // Infinite for a bound of 0.
}

class TensorComparer {
 public:
  explicit TensorComparer(const TensorItem& reference)
      : proved_(reference.proved_bounds), expected_(reference.expected_bounds) {
    result_.key = reference.key;
  }

  // Takes one that differs, without its bound.
  void Take(BoundedDifference found) {
    ++result_.different;
    const size_t i = found.element;
    if (i < proved_.size()) found.bound = proved_[i];
    if (!std::isfinite(found.expected) || !std::isfinite(found.actual)) {
      ++result_.non_finite;
      found.error = kNan;
      Rank(Verdict::kNonFinite, found);
      return;
    }
    result_.largest_error = std::max(result_.largest_error, found.error);
    if (i < expected_.size() && found.error > expected_[i]) {
      ++result_.unexpected;
    }
    if (std::isnan(found.bound)) {
      ++result_.without_bound;
      Rank(Verdict::kNotJudged, found);
    } else if (found.error > found.bound) {
      ++result_.outside;
      Rank(Verdict::kOutsideBound, found);
    } else {
      Rank(Verdict::kWithinBound, found);
    }
  }

  TensorComparison Finish(uint64_t elements) {
    result_.elements = elements;
    return std::move(result_);
  }

 private:
  void Rank(Verdict verdict, const BoundedDifference& found) {
    if (verdict < result_.verdict) return;
    if (verdict == result_.verdict) {
      const double worst = RatioOf(result_.worst), ratio = RatioOf(found);
      // Errors without a bound, and those of an exact value, are compared by
      // themselves.
      const bool is_worse = worst == ratio || std::isnan(ratio)
                                ? found.error > result_.worst.error
                                : ratio > worst;
      if (!is_worse) return;
    }
    result_.verdict = verdict;
    result_.worst = found;
  }

  const absl::Span<const double> proved_, expected_;
  TensorComparison result_;
};

// Both tensors as doubles.
struct NumberPairs {
  std::vector<double> expected, actual;
};

// Fails with kUnimplemented for a type whose elements are no single numbers.
absl::StatusOr<NumberPairs> Decode(const NDArray& reference,
                                   const NDArray& candidate, size_t count) {
  NumberPairs pairs{std::vector<double>(count), std::vector<double>(count)};
  const DLDataType dtype = reference.dtype();
  if (DecodeToDoubles(dtype, reference.data(), count, pairs.expected.data()) &&
      DecodeToDoubles(dtype, candidate.data(), count, pairs.actual.data())) {
    return pairs;
  }
  return absl::UnimplementedError(fmt::format(
      "differs, and is of type {}, which has no numbers", ToString(dtype)));
}

// Returns how far two 64-bit integers are apart whose doubles are equal, which
// is little.
double ErrorOfIntegers(const NDArray& reference, const NDArray& candidate,
                       size_t i) {
  const auto expected = LoadElement<uint64_t>(reference.data(), i);
  const auto actual = LoadElement<uint64_t>(candidate.data(), i);
  return static_cast<double>(expected > actual ? expected - actual
                                               : actual - expected);
}

// Returns the factor that brings the reference nearest to the candidate.
double FitScale(const NumberPairs& pairs) {
  double products = 0, squares = 0;
  for (size_t i = 0; i < pairs.expected.size(); ++i) {
    products += pairs.expected[i] * pairs.actual[i];
    squares += pairs.expected[i] * pairs.expected[i];
  }
  return squares > 0 ? products / squares : kNan;
}

TensorComparison ComparePairs(const TensorItem& reference,
                              const NDArray& expected, const NDArray& actual,
                              const NumberPairs& pairs) {
  TensorComparer comparer(reference);
  const DLDataType dtype = expected.dtype();
  const bool are_large =
      dtype.bits == 64 && (dtype.code == kDLInt || dtype.code == kDLUInt);
  for (size_t i = 0; i < pairs.expected.size(); ++i) {
    const double x = pairs.expected[i], y = pairs.actual[i];
    double error = std::fabs(y - x);
    if (x == y && are_large) error = ErrorOfIntegers(expected, actual, i);
    const bool is_same = x == y ? error == 0 || std::isnan(error)
                                : std::isnan(x) && std::isnan(y);
    if (!is_same) comparer.Take({i, x, y, error, kNan});
  }
  TensorComparison result = comparer.Finish(pairs.expected.size());
  if (result.different > 0) result.scale = FitScale(pairs);
  return result;
}

absl::Status CheckTypes(const TensorItem& reference,
                        const DLTensor& candidate) {
  if (reference.tensor == nullptr) {
    return absl::NotFoundError(fmt::format(
        "{}: the reference has no tensor{}{}", reference.key.Name(),
        reference.why_absent.empty() ? "" : ": ", reference.why_absent));
  }
  const DLTensor& expected = *reference.tensor;
  if (expected.dtype == candidate.dtype &&
      ShapeOf(expected) == ShapeOf(candidate)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: is {}, expected {} as in the reference", reference.key.Name(),
      TypeToString(ShapeOf(candidate), candidate.dtype),
      TypeToString(ShapeOf(expected), expected.dtype)));
}

// Compact and in host memory.
absl::StatusOr<NDArray> Readable(const DLTensor& tensor) {
  const NDArray borrowed = NDArray::Borrow(tensor, nullptr);
  const bool is_ready =
      tensor.device.device_type == kDLCPU && IsCompact(tensor);
  return is_ready ? borrowed : borrowed.CopyToHost();
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kWithinBound:
      return "within bound";
    case Verdict::kNotJudged:
      return "not judged";
    case Verdict::kOutsideBound:
      return "outside bound";
    case Verdict::kNonFinite:
      return "not finite";
  }
  return "";
}

bool IsWrong(Verdict verdict) {
  return verdict == Verdict::kOutsideBound || verdict == Verdict::kNonFinite;
}

double ErrorOverBound(const TensorComparison& comparison) {
  return comparison.different == 0 ? 0 : RatioOf(comparison.worst);
}

absl::StatusOr<TensorComparison> CompareTensors(const TensorItem& reference,
                                                const DLTensor& candidate) {
  NODEWISE_RETURN_IF_ERROR(CheckTypes(reference, candidate));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray expected,
                            Readable(*reference.tensor));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray actual, Readable(candidate));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements,
                            NumElements(expected.shape()));
  if (expected.bytes() == 0 ||
      std::memcmp(expected.data(), actual.data(), expected.bytes()) == 0) {
    return TensorComparer(reference).Finish(static_cast<uint64_t>(elements));
  }
  const auto pairs = Decode(expected, actual, static_cast<size_t>(elements));
  if (!pairs.ok()) return At(reference.key.Name(), pairs.status());
  return ComparePairs(reference, expected, actual, *pairs);
}

namespace {

// Compares each tensor of the reference as it comes.
class ComparingSink : public TensorSink {
 public:
  ComparingSink(const TensorCollector& candidate, Comparison* comparison)
      : comparison_(*comparison) {
    for (const TensorCollector::Kept& kept : candidate.kept()) {
      waiting_[kept.key] = &kept;
    }
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = waiting_.find(item.key);
    if (found == waiting_.end()) {
      Skip(item.key, "the candidate does not have it");
      return absl::OkStatus();
    }
    const TensorCollector::Kept& kept = *found->second;
    waiting_.erase(found);
    if (!kept.tensor.defined()) {
      Skip(item.key, "the candidate has no tensor: " + kept.why_absent);
      return absl::OkStatus();
    }
    auto compared = CompareTensors(item, *kept.tensor);
    if (compared.ok()) {
      comparison_.tensors.push_back(*std::move(compared));
    } else {
      Skip(item.key, std::string(MessageOf(compared.status())));
    }
    return absl::OkStatus();
  }

  // What is left, in the candidate's order.
  void Finish(const TensorCollector& candidate) {
    for (const TensorCollector::Kept& kept : candidate.kept()) {
      if (!waiting_.contains(kept.key)) continue;
      Skip(kept.key, "the reference does not have it");
      waiting_.erase(kept.key);
    }
  }

 private:
  void Skip(const TensorKey& key, std::string why) {
    comparison_.skipped.push_back({key, std::move(why)});
  }

  std::unordered_map<TensorKey, const TensorCollector::Kept*> waiting_;
  Comparison& comparison_;
};

}  // namespace

absl::StatusOr<Comparison> CompareSources(TensorSource& reference,
                                          TensorSource& candidate) {
  TensorCollector collected(candidate.name());
  NODEWISE_RETURN_IF_ERROR(candidate.Visit(collected));
  Comparison comparison;
  ComparingSink sink(collected, &comparison);
  NODEWISE_RETURN_IF_ERROR(reference.Visit(sink));
  sink.Finish(collected);
  if (comparison.tensors.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{} and {}: there is nothing to compare, expected tensors "
                    "with the same names",
                    reference.name(), candidate.name()));
  }
  return comparison;
}

}  // namespace nodewise
