#include "nodewise/locate/series.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "contrib/locate/output_error.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/process/isolation.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// In the order of BuildState.
constexpr std::string_view kStateNames[] = {"good", "bad", "skipped"};

// Halving, with builds that say nothing: one that cannot be judged is passed
// over for its neighbours, and so the answer may be a range of builds. Answers
// need not be monotone: what is found is a good build and a bad one behind it,
// both of which have run.
struct SeriesSearch {
  const std::vector<SeriesBuild>& builds;
  const std::vector<NamedTensor>& inputs;
  const SeriesOptions& options;
  Tolerance tolerance = {};
  std::vector<NDArray> expected = {};  // The outputs of the first build.
  std::set<size_t> skipped = {};
  SeriesResult result = {};

  absl::StatusOr<SeriesResult> Run() {
    if (builds.size() < 2) {
      return InvalidArgument(
          "the series has {}, expected two or more: a good one first and a bad "
          "one last",
          CountOf(builds.size(), "build"));
    }
    const auto right = OutputsOf(0, true);
    if (!right.ok()) return AtBuild(0, right.status());
    expected = Unnamed(*right);
    Note({0, BuildState::kGood});
    // The last one must run, for it is what is to be explained.
    const size_t last = builds.size() - 1;
    const auto answer_of_last = Judge(last, true);
    if (!answer_of_last.ok()) return AtBuild(last, answer_of_last.status());
    Note(*answer_of_last);
    if (answer_of_last->state != BuildState::kBad) return std::move(result);
    result.first_bad = last;
    // Every turn tries one more build, so it comes to an end.
    while (const std::optional<size_t> next = Next()) {
      const auto judged = Judge(*next, false);
      const BuildAnswer answer =
          judged.ok() ? *judged
                      : BuildAnswer{*next, BuildState::kSkipped, 0,
                                    std::string(MessageOf(judged.status()))};
      Note(answer);
      if (answer.state == BuildState::kSkipped) skipped.insert(*next);
      if (answer.state == BuildState::kGood) result.last_good = *next;
      if (answer.state == BuildState::kBad) result.first_bad = *next;
    }
    for (size_t i = result.last_good + 1; i < *result.first_bad; ++i) {
      result.skipped_between.push_back(i);
    }
    return std::move(result);
  }

  using Outputs = std::vector<NamedTensor>;

  // Errors of files begin with their names already.
  absl::Status AtBuild(size_t build, const absl::Status& status) const {
    const std::string& name = builds[build].name;
    return MessageOf(status).starts_with(name) ? status : At(name, status);
  }

  absl::StatusOr<Outputs> RunBuild(const GraphTarget& target) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto executor, target.MakeExecutor());
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                              MatchInputs(target.inputs(), inputs));
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *tensors[i]));
    }
    NODEWISE_RETURN_IF_ERROR(
        RunInChild(executor.get(), {options.time_limit_ms}));
    return FetchOutputs(*executor);
  }

  absl::StatusOr<Outputs> OutputsOf(size_t build, bool is_end) {
    NODEWISE_ASSIGN_OR_RETURN(const auto target, builds[build].load());
    if (build == 0) tolerance = AccumulatedTolerance(target->graph());
    NODEWISE_ASSIGN_OR_RETURN(Outputs outputs, RunBuild(*target));
    // The ends decide on all that is asked between them.
    if (!is_end) return outputs;
    NODEWISE_ASSIGN_OR_RETURN(const Outputs again, RunBuild(*target));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (HaveSameBytes(outputs[i].tensor, again[i].tensor)) continue;
      return FailedPrecondition(
          "output {} has other bits when it runs again, so that no answer "
          "could be trusted",
          Printable(outputs[i].name));
    }
    return outputs;
  }

  absl::StatusOr<BuildAnswer> Judge(size_t build, bool is_end) {
    NODEWISE_ASSIGN_OR_RETURN(const Outputs outputs, OutputsOf(build, is_end));
    if (outputs.size() != expected.size()) {
      return InvalidArgument("has {}, expected {}, as the first build has",
                             CountOf(outputs.size(), "output"),
                             expected.size());
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto compared,
        CompareNetworkOutputs(expected, outputs, tolerance));
    const bool is_bad = AnyIsWrong(compared);
    return BuildAnswer{build, is_bad ? BuildState::kBad : BuildState::kGood,
                       ErrorOf(compared).size};
  }

  void Note(const BuildAnswer& answer) {
    result.answers.push_back(answer);
    if (!options.progress) return;
    const size_t total = std::bit_width(builds.size()) + 2;
    options.progress(std::min(result.answers.size(), total), total);
  }

  // Returns the build nearest to the middle that was not tried yet; of two, the
  // earlier one.
  std::optional<size_t> Next() const {
    const size_t low = result.last_good, high = *result.first_bad;
    const size_t middle = low + (high - low) / 2;
    const auto is_open = [&](size_t i) {
      return low < i && i < high && !skipped.contains(i);
    };
    for (size_t distance = 0; distance < high - low; ++distance) {
      if (is_open(middle - distance)) return middle - distance;
      if (is_open(middle + distance)) return middle + distance;
    }
    return std::nullopt;
  }
};

}  // namespace

std::string_view NameOf(BuildState state) {
  return kStateNames[static_cast<size_t>(state)];
}

absl::StatusOr<SeriesResult> FindFirstBad(
    const std::vector<SeriesBuild>& builds,
    const std::vector<NamedTensor>& inputs, const SeriesOptions& options) {
  return SeriesSearch{builds, inputs, options}.Run();
}

}  // namespace nodewise
