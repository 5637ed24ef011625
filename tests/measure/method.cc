#include "tests/measure/method.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/locate/replay.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

absl::StatusOr<LocateResult> LocateWith(LocateOptions options,
                                        const Search& search) {
  options.node_limit_ms = search.target.node_limit_ms;
  return LocateInTarget({search.target.target, search.inputs}, AllOperators(),
                        options);
}

absl::StatusOr<LocateResult> LookAuto(const Search& search) {
  return LocateWith({}, search);
}

// As `locate --method intermediate` does it.
absl::StatusOr<LocateResult> LookIntermediate(const Search& search) {
  LocateOptions options;
  options.repeats = 0;
  options.checks_storage = false;
  return LocateWith(options, search);
}

// As `locate --inputs exact` does it, but only those are named who were wrong
// on exact inputs, so that it shows what these find alone.
absl::StatusOr<LocateResult> LookExactly(const Search& search) {
  LocateOptions options;
  options.repeats = 0;
  options.checks_storage = false;
  options.exact_inputs = ExactInputs::kForAll;
  NODEWISE_ASSIGN_OR_RETURN(LocateResult result, LocateWith(options, search));
  std::erase_if(result.culprits, [&](const Culprit& culprit) {
    return result.nodes[culprit.report].evidence.exact != Verdict::kError;
  });
  return result;
}

// A folder that is gone when this is.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {
    std::filesystem::remove_all(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Dumps a run, and has that played back.
absl::StatusOr<LocateResult> LookIntoDump(const Search& search) {
  const GraphTarget& target = *search.target.target;
  const TemporaryFolder folder(
      fmt::format("{}/dump_{}", search.scratch, getpid()));
  std::vector<RunInput> inputs;
  for (const NamedTensor& given : search.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t input,
                              target.inputs().Find(given.name));
    inputs.push_back({input, "drawn", given.tensor});
  }
  DebugExecutor::DebugOptions options;
  options.devices = target.devices();
  options.record.root = folder.path();
  NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                            MakeDebugExecutor(target, inputs, options));
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  NODEWISE_RETURN_IF_ERROR(executor->dump_status());
  return ReplayDump(folder.path(), AllOperators());
}

// As `locate --method recursive` does it.
absl::StatusOr<LocateResult> LookRecursively(const Search& search) {
  const Artefact& artefact = search.target.target->artefact();
  const LayerModule mod{search.target.target->name(), artefact.graph,
                        artefact.params, search.inputs};
  RecursiveLayerComparator comparator(
      mod, "Interpreter", LayerBackend(mod.name, artefact.library), Rule());
  NODEWISE_RETURN_IF_ERROR(comparator.verify().status());
  return LocatedLayers(mod, comparator);
}

// As `locate --method bisect` does it.
absl::StatusOr<LocateResult> LookByHalves(const Search& search) {
  const GraphIndex index(search.target.target->graph(), search.target.plan);
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers,
                            MakersOf(search.target.target));
  NODEWISE_ASSIGN_OR_RETURN(
      BisectResult result,
      Bisect(
          {index, AllOperators(), std::move(makers.candidate), search.inputs}));
  return std::move(result.located);
}

bool SeesAll(FaultSign) { return true; }
bool SeesValues(FaultSign sign) { return sign == FaultSign::kWrongValues; }

constexpr Method kMethods[] = {
    {"auto", &SeesAll, true, &LookAuto},
    {"intermediate", &SeesValues, true, &LookIntermediate},
    {"replay", &SeesValues, true, &LookIntoDump},
    {"recursive", &SeesValues, false, &LookRecursively},
    {"bisect", &SeesValues, false, &LookByHalves},
    {kExactMethod, &SeesValues, false, &LookExactly},
};

}  // namespace

Answer AnswerOf(const LocateResult& result) {
  Answer answer;
  for (const Culprit& culprit : result.culprits) {
    const NodeReport& node = result.nodes[culprit.report];
    answer.accused.push_back(
        {node.key, std::string(NameOf(node.verdict)), culprit.victims});
  }
  for (const NodeReport& node : result.nodes) {
    if (!node.on_exact_inputs.empty()) {
      answer.on_exact_inputs[node.key] = node.on_exact_inputs;
    }
    if (node.verdict != NodeVerdict::kInconclusive) continue;
    answer.inconclusive.push_back(node.key);
  }
  answer.are_outputs_wrong = result.AreOutputsWrong();
  return answer;
}

absl::Span<const Method> Methods() { return kMethods; }

absl::StatusOr<Method> FindMethod(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
    names.emplace_back(method.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("method: found \"{}\", expected one of {}", Printable(name),
                  ListOf(names, names.size())));
}

absl::StatusOr<Answer> LookWith(const Method& method, const Search& search) {
  const auto begin = std::chrono::steady_clock::now();
  NODEWISE_ASSIGN_OR_RETURN(const LocateResult result, method.look(search));
  Answer answer = AnswerOf(result);
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  answer.seconds = taken.count();
  return answer;
}

}  // namespace nodewise
