#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "contrib/locate/output_error.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// All samples run from end to end on both sides, which ranks them; the worst
// are read once more and examined, so that only one is in memory at a time.
struct SampleSearch {
  const SamplesRequest& request;
  const SamplesOptions& options;
  const Tolerance tolerance = AccumulatedTolerance(request.graph);
  std::unique_ptr<Runner> candidate = {};
  std::unique_ptr<Runner> reference = {};
  SamplesResult result = {};

  absl::StatusOr<SamplesResult> Run() {
    if (request.samples.empty()) {
      return InvalidArgument("there are no samples, expected one or more");
    }
    NODEWISE_ASSIGN_OR_RETURN(candidate, request.candidate());
    NODEWISE_ASSIGN_OR_RETURN(reference, request.reference());
    for (size_t i = 0; i < request.samples.size(); ++i) {
      auto ranked = Measure(i);
      if (ranked.ok()) {
        result.ranked.push_back(*std::move(ranked));
      } else {
        result.failed.push_back({i, ranked.status()});
      }
      if (options.progress) options.progress(i + 1, request.samples.size());
    }
    std::ranges::stable_sort(result.ranked, std::greater(), SeverityOfSample);
    LocateWorst();
    CollectVerdicts();
    return std::move(result);
  }

  // A sample is worse than another one by this: no outputs at all, then
  // elements that are not finite, then how large the error is.
  static std::tuple<bool, uint64_t, double> SeverityOfSample(
      const RankedSample& sample) {
    return {!sample.why_no_outputs.empty(), sample.non_finite,
            std::isnan(sample.error) ? INFINITY : sample.error};
  }

  // The reference comes first: a sample that it refuses is not the candidate's
  // fault.
  absl::StatusOr<RankedSample> Measure(size_t sample) {
    RankedSample ranked;
    ranked.sample = sample;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                              request.samples[sample].read());
    const auto right = reference->Run(inputs);
    if (!right.ok()) return At("the reference", right.status());
    const auto found =
        candidate->Run(inputs, {.node_limit_ms = options.node_limit_ms});
    if (!found.ok()) {
      ranked.is_wrong = true;
      ranked.why_no_outputs = std::string(MessageOf(found.status()));
      return ranked;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto compared,
                              CompareNetworkOutputs(Unnamed(right->outputs),
                                                    found->outputs, tolerance));
    const OutputError error = ErrorOf(compared);
    ranked.non_finite = error.non_finite;
    ranked.error = error.size;
    ranked.is_wrong = AnyIsWrong(compared);
    return ranked;
  }

  void LocateWorst() {
    const size_t count = std::min(options.most_located, result.ranked.size());
    for (size_t i = 0; i < count; ++i) {
      RankedSample& ranked = result.ranked[i];
      const auto inputs = request.samples[ranked.sample].read();
      auto located = inputs.ok() ? request.locate(*inputs) : inputs.status();
      if (located.ok()) {
        ranked.located = *std::move(located);
      } else {
        ranked.not_located = located.status();
      }
    }
  }

  void CollectVerdicts() {
    // By node and verdict: the place in SamplesResult::recurring.
    std::map<std::pair<std::string, NodeVerdict>, size_t> numbers;
    for (const RankedSample& ranked : result.ranked) {
      if (!ranked.located.has_value()) continue;
      for (const NodeReport& report : ranked.located->nodes) {
        const bool counts = IsCulpritVerdict(report.verdict) ||
                            report.verdict == NodeVerdict::kInconclusive;
        if (!counts) continue;
        const auto [at, is_new] = numbers.try_emplace(
            {report.key, report.verdict}, result.recurring.size());
        if (is_new) {
          result.recurring.push_back({report.key, report.verdict, {}});
        }
        result.recurring[at->second].samples.push_back(ranked.sample);
      }
    }
    std::ranges::stable_sort(result.recurring, std::greater(),
                             [](const RecurringVerdict& verdict) {
                               return std::pair(IsCulpritVerdict(verdict.kind),
                                                verdict.samples.size());
                             });
  }
};

}  // namespace

size_t SamplesResult::num_located() const {
  return std::ranges::count_if(ranked, [](const RankedSample& sample) {
    return sample.located.has_value();
  });
}

absl::StatusOr<SamplesResult> LocateInSamples(const SamplesRequest& request,
                                              const SamplesOptions& options) {
  return SampleSearch{request, options}.Run();
}

}  // namespace nodewise
