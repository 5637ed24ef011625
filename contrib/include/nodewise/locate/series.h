#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// Finds the first bad one in a sequence of builds of a network, of which the
// first is good and the last is bad. A build is bad if its outputs are not
// those of the first, by the tolerance of their types. Each runs in a process
// of its own, so that one that crashes or hangs is only passed over. Only in
// builds with USE_PROFILER.

struct SeriesBuild {
  std::string name;
  // Loads it; called whenever it is to run.
  std::function<absl::StatusOr<std::shared_ptr<const GraphTarget>>()> load;
};

enum class BuildState {
  kGood,
  kBad,
  kSkipped,  // It cannot be loaded or run, or has other outputs.
};
// Returns "good", "bad" or "skipped".
std::string_view NameOf(BuildState state);

// What was found out about a build that was tried.
struct BuildAnswer {
  size_t build = 0;
  BuildState state = BuildState::kGood;
  double error = 0;      // Relative, over all its outputs together.
  std::string why = {};  // Why it was skipped.
};

struct SeriesOptions {
  int64_t time_limit_ms = 600'000;  // For one run.
  // Called with the builds that were tried, and about how many there will be.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

struct SeriesResult {
  std::vector<BuildAnswer> answers;  // In the order of the questions.
  // Neighbours, but for builds between them that were skipped. None if the last
  // build makes what the first one does.
  std::optional<size_t> first_bad;
  size_t last_good = 0;
  // The builds between them, any of which may be the first bad one, too.
  std::vector<size_t> skipped_between;
};

// Tries the first and the last build, both twice, and about log2(number of
// builds) others. If the series turns from good to bad several times, it finds
// one of these changes. Fails with kInvalidArgument for fewer than two builds,
// as the first or last build does, and with kFailedPrecondition if one of these
// is not deterministic.
absl::StatusOr<SeriesResult> FindFirstBad(
    const std::vector<SeriesBuild>& builds,
    const std::vector<NamedTensor>& inputs, const SeriesOptions& options = {});

}  // namespace nodewise
