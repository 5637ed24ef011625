#include "nodewise/precision/sensitivity.h"

#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_set>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Sums over the elements of one value.
struct ErrorSum {
  double max_abs = 0;
  double differences = 0;  // The sum of squared differences.
  double numbers = 0;      // Likewise.

  void Add(const NDArray& expected, const NDArray& found) {
    const std::vector<double> a = ToDoubles(expected);
    const std::vector<double> b = ToDoubles(found);
    // Sums of squares over all samples, so that one large error counts for more
    // than many small ones.
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      // An infinity that both have would make every other difference vanish.
      if (std::isfinite(a[i])) numbers += a[i] * a[i];
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      double difference = std::fabs(a[i] - b[i]);
      // One of them is NaN, and nothing is worse than that.
      if (std::isnan(difference)) {
        difference = std::numeric_limits<double>::infinity();
      }
      max_abs = std::max(max_abs, difference);
      differences += difference * difference;
    }
  }

  double RelativeL2() const {
    // If nothing differs the error is 0, even if all numbers are 0.
    return differences == 0 ? 0 : std::sqrt(differences / numbers);
  }
};

// `observe` is given each result of an operation.
absl::Status RunOn(const Network& network, const Interpreter& interpreter,
                   const Sample& sample,
                   const std::function<void(const std::string& name,
                                            const NDArray& tensor)>& observe) {
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    for (size_t i = 0; i < run.result.outputs.size(); ++i) {
      const ValueId id = run.operation.outputs[i];
      const NDArray& tensor = run.result.outputs[i];
      if (id != kNoValue && tensor.defined()) {
        observe(network.value(id).name, tensor);
      }
    }
    return false;
  };
  return interpreter.Run(sample, options).status();
}

std::vector<ValueError> ErrorsOf(const Network& original,
                                 const PrecisionReport& report,
                                 const std::map<std::string, ErrorSum>& sums) {
  std::vector<ValueError> errors;
  for (const OperationId id : original.order()) {
    const Operation& operation = original.operation(id);
    for (const ValueId output : operation.outputs) {
      if (output == kNoValue) continue;
      const std::string& name = original.value(output).name;
      const auto sum = sums.find(name);
      if (sum == sums.end() || !report.stands_for.contains(name)) continue;
      errors.push_back({operation.name, std::string(operation.kind()), name,
                        sum->second.max_abs, sum->second.RelativeL2()});
    }
  }
  return errors;
}

using Outputs = std::vector<std::vector<NDArray>>;  // By sample.

absl::StatusOr<Outputs> OutputsOf(const Network& network,
                                  absl::Span<const Sample> samples) {
  // One interpreter for all samples: it has planned the run once.
  const Interpreter interpreter(network);
  Outputs outputs;
  for (const Sample& sample : samples) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), interpreter.Run(sample));
  }
  return outputs;
}

struct SensitivityMeter {
  const Network& network;
  const PrecisionOptions& options;
  absl::Span<const Sample> samples;
  Outputs expected;

  absl::StatusOr<double> ErrorWith(
      const std::unordered_set<std::string>& names) const {
    PrecisionOptions narrowed = options;
    narrowed.only = [&](const Operation& operation) {
      return names.contains(operation.name);
    };
    Network lowered = network;
    NODEWISE_RETURN_IF_ERROR(LowerPrecision(narrowed, lowered).status());
    NODEWISE_ASSIGN_OR_RETURN(const Outputs found, OutputsOf(lowered, samples));
    return OutputError(expected, found);
  }
};

// Each operation is lowered alone, so its error is not hidden by those of
// others.
absl::StatusOr<std::vector<Sensitivity::Operator>> Ranking(
    const SensitivityMeter& meter, const PrecisionReport& all) {
  std::vector<Sensitivity::Operator> ranking;
  for (const PrecisionReport::Change& change : all.changes) {
    NODEWISE_ASSIGN_OR_RETURN(const double error,
                              meter.ErrorWith({change.operation}));
    ranking.push_back({change.operation, change.kind, error});
  }
  // Operations with equal errors stay in the order of the network.
  std::ranges::stable_sort(
      ranking, [](const auto& a, const auto& b) { return a.error > b.error; });
  return ranking;
}

// The next length of the keep-list to try: each up to 8, then in steps that
// grow with it, since the curve is flat there and each point costs a run. A
// list of a thousand operations is tried at about thirty lengths so.
size_t NextLength(size_t kept) { return kept < 8 ? kept + 1 : kept + kept / 4; }

absl::StatusOr<std::vector<Sensitivity::Point>> SensitivityCurve(
    const SensitivityMeter& meter,
    absl::Span<const Sensitivity::Operator> ranking) {
  std::vector<Sensitivity::Point> curve;
  // The last point has all of the ranking left alone.
  for (size_t kept = 0;; kept = std::min(NextLength(kept), ranking.size())) {
    std::unordered_set<std::string> lowered;
    for (size_t i = kept; i < ranking.size(); ++i) {
      lowered.insert(ranking[i].operation);
    }
    NODEWISE_ASSIGN_OR_RETURN(const double error, meter.ErrorWith(lowered));
    curve.push_back({kept, error});
    if (kept == ranking.size()) return curve;
  }
}

}  // namespace
absl::StatusOr<std::vector<ValueError>> MeasureErrors(
    const Network& original, const Network& lowered,
    const PrecisionReport& report, absl::Span<const Sample> samples) {
  if (samples.empty()) {
    return InvalidArgument(
        "errors: there are no sample inputs, expected at least one");
  }
  // Values of the lowered network have other names, by which its run shows
  // them.
  std::map<std::string, std::string> original_of;
  for (const auto& [before, now] : report.stands_for) {
    original_of[now] = before;
  }
  const Interpreter original_runs(original);
  const Interpreter lowered_runs(lowered);
  std::map<std::string, ErrorSum> sums;
  for (const Sample& sample : samples) {
    std::map<std::string, NDArray> expected;  // By value.
    NODEWISE_RETURN_IF_ERROR(
        RunOn(original, original_runs, sample,
              [&](const std::string& name, const NDArray& tensor) {
                if (tensor.dtype() == kFloat32) expected[name] = tensor;
              }));
    NODEWISE_RETURN_IF_ERROR(
        RunOn(lowered, lowered_runs, sample,
              [&](const std::string& name, const NDArray& tensor) {
                const auto before = original_of.find(name);
                if (before == original_of.end()) return;
                const auto result = expected.find(before->second);
                if (result == expected.end()) return;
                sums[before->second].Add(result->second, tensor);
                // Each counts once, and tensors are let go as early as
                // possible.
                expected.erase(result);
              }));
  }
  return ErrorsOf(original, report, sums);
}

double OutputError(absl::Span<const std::vector<NDArray>> expected,
                   absl::Span<const std::vector<NDArray>> found) {
  std::vector<ErrorSum> sums(expected.empty() ? 0 : expected[0].size());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < sums.size(); ++k) {
      sums[k].Add(expected[i][k], found[i][k]);
    }
  }
  double worst = 0;
  for (const ErrorSum& sum : sums) worst = std::max(worst, sum.RelativeL2());
  return worst;
}

double Sensitivity::ErrorWith(size_t kept) const {
  double largest = 0;
  for (const Point& point : curve) {
    if (point.kept >= kept) largest = std::max(largest, point.error);
  }
  return largest;
}

void Sensitivity::Suggest() {
  // Both shares are of this error and this number, so that one unit of each
  // weighs the same.
  const double all = curve.front().error;
  const auto count = static_cast<double>(curve.back().kept);
  suggested = 0;
  suggested_error = ErrorWith(0);
  // Nothing is lost, so nothing need be kept.
  if (all == 0 || count == 0) return;
  const auto cost = [&](const Point& point) {
    // An error that is infinite is never worth having.
    const double error = ErrorWith(point.kept);
    const double remains = std::isinf(error) ? 2 : error / all;
    return remains + static_cast<double>(point.kept) / count;
  };
  suggested =
      std::ranges::min_element(curve, [&](const Point& a, const Point& b) {
        return cost(a) < cost(b);
      })->kept;
  suggested_error = ErrorWith(suggested);
}

std::string Sensitivity::ExpressionFor(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    if (!all.empty()) all += "|";
    all += RE2::QuoteMeta(name);
  }
  return all.empty() ? "" : fmt::format("^({})$", all);
}

std::string Sensitivity::KeepExpression(const std::string& kept_before) const {
  if (suggested == 0) return kept_before;
  std::vector<std::string> names;
  for (size_t i = 0; i < suggested; ++i) {
    names.push_back(ranking[i].operation);
  }
  const std::string expression = ExpressionFor(names);
  if (kept_before.empty()) return expression;
  return fmt::format("{}|{}", kept_before, expression);
}

absl::StatusOr<Sensitivity> MeasureSensitivity(
    const Network& network, const PrecisionOptions& options,
    absl::Span<const Sample> samples) {
  if (samples.empty()) {
    return InvalidArgument(
        "sensitivity: there are no sample inputs, expected at least one");
  }
  Network lowered = network;
  NODEWISE_ASSIGN_OR_RETURN(const PrecisionReport all,
                            LowerPrecision(options, lowered));
  NODEWISE_ASSIGN_OR_RETURN(Outputs expected, OutputsOf(network, samples));
  const SensitivityMeter meter{network, options, samples, std::move(expected)};
  Sensitivity result;
  NODEWISE_ASSIGN_OR_RETURN(result.ranking, Ranking(meter, all));
  NODEWISE_ASSIGN_OR_RETURN(result.curve,
                            SensitivityCurve(meter, result.ranking));
  result.Suggest();
  return result;
}

}  // namespace nodewise
