#include "nodewise/locate/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class SampleSearch {
 public:
  SampleSearch(const SamplesRequest& request, const SamplesOptions& options)
      : request_(request),
        options_(options),
        tolerance_(AccumulatedTolerance(request.graph)) {}

  absl::StatusOr<SamplesResult> Run() {
    if (request_.samples.empty()) {
      return absl::InvalidArgumentError(
          "there are no samples, expected one or more");
    }
    NODEWISE_ASSIGN_OR_RETURN(candidate_, request_.candidate());
    NODEWISE_ASSIGN_OR_RETURN(reference_, request_.reference());
    for (size_t i = 0; i < request_.samples.size(); ++i) {
      auto ranked = Measure(i);
      if (ranked.ok()) {
        result_.ranked.push_back(*std::move(ranked));
      } else {
        result_.failed.push_back({i, ranked.status()});
      }
      if (options_.progress) {
        options_.progress(i + 1, request_.samples.size());
      }
    }
    std::stable_sort(result_.ranked.begin(), result_.ranked.end(), &IsWorse);
    LocateWorst();
    CollectVerdicts();
    return std::move(result_);
  }

 private:
  static bool IsWorse(const RankedSample& a, const RankedSample& b) {
    const auto key = [](const RankedSample& sample) {
      const double size = std::isnan(sample.error)
                              ? std::numeric_limits<double>::infinity()
                              : sample.error;
      return std::tuple(!sample.why_no_outputs.empty(), sample.non_finite,
                        size);
    };
    return key(a) > key(b);
  }

  // Runs both sides on a sample. The reference comes first: a sample that it
  // refuses is not the candidate's fault.
  absl::StatusOr<RankedSample> Measure(size_t sample) {
    RankedSample ranked;
    ranked.sample = sample;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                              request_.samples[sample].read());
    const auto right = reference_->Run(inputs);
    if (!right.ok()) return At("the reference", right.status());
    RunOptions run;
    run.node_limit_ms = options_.node_limit_ms;
    const auto found = candidate_->Run(inputs, run);
    if (!found.ok()) {
      ranked.is_wrong = true;
      ranked.why_no_outputs = std::string(MessageOf(found.status()));
      return ranked;
    }
    std::vector<NDArray> reference;
    for (const NamedTensor& output : right->outputs) {
      reference.push_back(output.tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto compared,
        CompareNetworkOutputs(reference, found->outputs, tolerance_));
    const OutputError error = ErrorOf(compared);
    ranked.non_finite = error.non_finite;
    ranked.error = error.size;
    ranked.is_wrong = std::any_of(
        compared.begin(), compared.end(),
        [](const TensorComparison& output) { return output.is_wrong(); });
    return ranked;
  }

  void LocateWorst() {
    const size_t count = std::min(options_.most_located, result_.ranked.size());
    for (size_t i = 0; i < count; ++i) {
      RankedSample& ranked = result_.ranked[i];
      const auto located = [&]() -> absl::StatusOr<LocateResult> {
        NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                                  request_.samples[ranked.sample].read());
        return request_.locate(inputs);
      }();
      if (located.ok()) {
        ranked.located = *located;
      } else {
        ranked.not_located = located.status();
      }
    }
  }

  void CollectVerdicts() {
    std::map<std::pair<std::string, NodeVerdict>, size_t> numbers;
    for (const RankedSample& ranked : result_.ranked) {
      if (!ranked.located.has_value()) continue;
      for (const NodeReport& report : ranked.located->nodes) {
        const bool counts = Accuses(report.verdict) ||
                            report.verdict == NodeVerdict::kInconclusive;
        if (!counts) continue;
        const auto [at, is_new] = numbers.try_emplace(
            {report.key, report.verdict}, result_.recurring.size());
        if (is_new)
          result_.recurring.push_back({report.key, report.verdict, {}});
        result_.recurring[at->second].samples.push_back(ranked.sample);
      }
    }
    std::stable_sort(result_.recurring.begin(), result_.recurring.end(),
                     [](const RecurringVerdict& a, const RecurringVerdict& b) {
                       return std::pair(Accuses(a.kind), a.samples.size()) >
                              std::pair(Accuses(b.kind), b.samples.size());
                     });
  }

  const SamplesRequest& request_;
  const SamplesOptions& options_;
  const Tolerance tolerance_;
  std::unique_ptr<Runner> candidate_;
  std::unique_ptr<Runner> reference_;
  SamplesResult result_;
};

}  // namespace

size_t SamplesResult::num_located() const {
  return std::count_if(
      ranked.begin(), ranked.end(),
      [](const RankedSample& sample) { return sample.located.has_value(); });
}

absl::StatusOr<SamplesResult> LocateInSamples(const SamplesRequest& request,
                                              const SamplesOptions& options) {
  return SampleSearch(request, options).Run();
}

}  // namespace nodewise
