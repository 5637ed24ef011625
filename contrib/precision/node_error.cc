#include "nodewise/precision/node_error.h"

#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

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
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (std::isfinite(a[i])) numbers += a[i] * a[i];
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      double difference = std::fabs(a[i] - b[i]);
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

// The results of one run by the names of their values.
using Results = std::map<std::string, NDArray>;

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

}  // namespace

absl::StatusOr<std::vector<ValueError>> MeasureErrors(
    const Network& original, const Network& lowered,
    const PrecisionReport& report, absl::Span<const Sample> samples) {
  if (samples.empty()) {
    return absl::InvalidArgumentError(
        "errors: there are no sample inputs, expected at least one");
  }
  std::map<std::string, std::string> original_of;
  for (const auto& [before, now] : report.stands_for) {
    original_of[now] = before;
  }
  const Interpreter original_runs(original);
  const Interpreter lowered_runs(lowered);
  std::map<std::string, ErrorSum> sums;
  for (const Sample& sample : samples) {
    Results expected;
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

}  // namespace nodewise
