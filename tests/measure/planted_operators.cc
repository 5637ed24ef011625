// Plants every kind of fault into every operator, draws random cases of it as
// `nodewise autotest` does, and says how often that found the fault: see
// docs/measured.md.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "fmt/format.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ops/ops.h"
#include "nodewise/planter/planter.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr const char* kUsage = R"(usage: nodewise_planted_operators [OPTION...]

  --seed N    the seed of the cases and of the faults (1)
  --op NAME   this operator alone
  --kind NAME this kind of faults alone
  --cases N   how many sets of values are drawn for each pair (200)

Exit status: 0 if at least 99 of 100 pairs are found, 1 if not, 2 for bad use.
)";

struct Arguments {
  uint64_t seed = 1;
  uint64_t cases = 200;
  std::string op;
  std::string kind;
};

constexpr uint64_t kSets = 8;
// A fault counts if it changes an element by so many times what accuses.
constexpr double kLargeEffect = 2;

// What became of one operator with one kind of fault.
struct PairResult {
  uint64_t planted = 0;  // Configurations that the fault could be planted into.
  uint64_t changed = 0;  // Sets whose outputs it changes by enough.
  double largest = 0;    // The largest effect, for the proved bound.
  uint64_t found = 0;    // Sets in which it was found.
};

// Returns how many times its proved bound an output is off at most, by code
// that shares nothing with what judges cases but the bounds.
absl::StatusOr<double> EffectOf(const Network& network,
                                const std::vector<NDArray>& inputs,
                                const std::vector<NDArray>& actual) {
  NODEWISE_ASSIGN_OR_RETURN(const auto run, RunWithLazyBounds(network, inputs));
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const NDArray& expected = run->outputs()[i];
    NODEWISE_ASSIGN_OR_RETURN(const BoundSpans bounds, run->bounds(i).All());
    size_t count = 1;
    for (const int64_t side : expected.shape()) {
      count *= static_cast<size_t>(side);
    }
    std::vector<double> want(count);
    std::vector<double> have(count);
    if (!DecodeToDoubles(expected.dtype(), expected.data(), count,
                         want.data()) ||
        !DecodeToDoubles(actual[i].dtype(), actual[i].data(), count,
                         have.data())) {
      continue;
    }
    for (size_t k = 0; k < count; ++k) {
      if (want[k] == have[k] || (std::isnan(want[k]) && std::isnan(have[k]))) {
        continue;
      }
      const double bound = k < bounds.proved.size() ? bounds.proved[k] : 0;
      if (std::isnan(bound) || std::isinf(bound)) continue;
      const double error = std::fabs(want[k] - have[k]);
      largest =
          std::max(largest, std::isfinite(error) && bound > 0
                                ? error / bound
                                : std::numeric_limits<double>::infinity());
    }
  }
  return largest;
}

// A case that was lowered, with a fault in it.
absl::StatusOr<std::unique_ptr<GraphExecutor>> Plant(const OperatorCase& made,
                                                     const ValueSet& set,
                                                     FaultKind kind,
                                                     uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(Lowered lowered, Lower(*made.network, "case"));
  const Ref<Library> library =
      BuiltInFunctions(AllOperators(), Backend::kReference);
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = lowered.params;
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    options.inputs.push_back(
        {made.network->value(made.network->inputs()[i]).name, set.inputs[i]});
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const auto planter,
      Planter::Create(std::move(lowered.graph), library, std::move(options)));
  NODEWISE_ASSIGN_OR_RETURN(PlantedGraph planted, planter->Plant(kind, seed));
  NODEWISE_ASSIGN_OR_RETURN(auto executor,
                            GraphExecutor::Create(std::move(planted.graph),
                                                  std::move(planted.library)));
  NODEWISE_RETURN_IF_ERROR(
      executor->LoadParams(Params{lowered.params}).status());
  return executor;
}

// Tries one configuration with its sets.
void TryConfiguration(const OperatorCase& made, FaultKind kind, uint64_t seed,
                      uint64_t number, PairResult* result) {
  const CaseReference reference(*made.network);
  std::unique_ptr<GraphExecutor> executor;
  for (uint64_t set = 0; set < kSets; ++set) {
    Choices choices(RandomSource(seed, fmt::format("{} {}", number, set)));
    const auto values = DrawSet(made, &choices);
    if (!values.ok()) return;
    const CandidateOutputs expected = reference.Run(values->inputs);
    if (!expected.ok()) continue;
    if (executor == nullptr) {
      auto planted = Plant(made, *values, kind, seed + number);
      if (!planted.ok()) continue;
      executor = *std::move(planted);
      ++result->planted;
    }
    const auto actual = RunExecutor(executor.get(), values->inputs);
    if (!actual.ok()) continue;
    const auto effect = EffectOf(*made.network, values->inputs, *actual);
    if (effect.ok()) {
      result->largest = std::max(result->largest, *effect);
      if (*effect >= kLargeEffect) ++result->changed;
    }
    const CaseVerdict verdict = reference.Judge(*values, expected, actual);
    if (IsFinding(verdict.outcome)) ++result->found;
  }
}

PairResult TryPair(const OperatorDef& def, FaultKind kind,
                   const Arguments& arguments) {
  PairResult result;
  const OperatorDef* const rows[] = {&def};
  for (uint64_t number = 0; number * kSets < arguments.cases; ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto made =
        DrawNumber(rows, arguments.seed, number, &choices, &refused);
    if (made.ok()) {
      TryConfiguration(*made, kind, arguments.seed, number, &result);
    }
    // One set in which it is found is enough.
    if (result.found > 0 && result.changed > 0) break;
  }
  return result;
}

bool HasNoBody(const OperatorDef& row) {
  for (const AttrField& field : row.fields) {
    if (field.is_graph) return false;
  }
  return row.evaluate != nullptr && row.domain != "nodewise";
}

int Measure(const Arguments& arguments) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_kind;
  uint64_t counted = 0;
  uint64_t found = 0;
  uint64_t without_effect = 0;
  uint64_t not_planted = 0;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (!HasNoBody(*row)) continue;
    if (!arguments.op.empty() && row->name != arguments.op) continue;
    for (const FaultKindRow& kind : FaultKinds()) {
      if (kind.sign != FaultSign::kWrongValues) continue;
      if (!arguments.kind.empty() && kind.name != arguments.kind) continue;
      const PairResult result = TryPair(*row, kind.kind, arguments);
      const std::string name =
          fmt::format("{} {} with {}", row->name, row->since, kind.name);
      if (result.planted == 0) {
        ++not_planted;
        continue;
      }
      if (result.changed == 0) {
        ++without_effect;
        fmt::print("small effect: {}: {:.3g} x the bound\n", name,
                   result.largest);
        continue;
      }
      ++counted;
      auto& [of_kind, found_of_kind] = by_kind[std::string(kind.name)];
      ++of_kind;
      if (result.found > 0) {
        ++found;
        ++found_of_kind;
      } else {
        fmt::print("missed: {}: changed {} sets by up to {:.3g} x the bound\n",
                   name, result.changed, result.largest);
      }
    }
  }
  for (const auto& [kind, counts] : by_kind) {
    fmt::print("{:20} {} of {}\n", kind, counts.second, counts.first);
  }
  fmt::print(
      "{} of {} pairs of operator and fault found; {} more change nothing by "
      "twice the bound, and {} cannot be planted\n",
      found, counted, without_effect, not_planted);
  return static_cast<double>(found) >= 0.99 * static_cast<double>(counted) ? 0
                                                                           : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc) {
      std::fputs(kUsage, stderr);
      return 2;
    }
    const std::string value = argv[i + 1];
    if (option == "--seed") {
      arguments.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--cases") {
      arguments.cases = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--op") {
      arguments.op = value;
    } else if (option == "--kind") {
      arguments.kind = value;
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  return Measure(arguments);
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) { return nodewise::Main(argc, argv); }
