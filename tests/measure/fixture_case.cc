#include "tests/measure/fixture_case.h"

#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/compare/compare.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_collector.h"
#include "tests/measure/subject.h"
#include "tests/support/fixtures.h"

namespace nodewise {
namespace {

// A run, with all that nodes made.
struct CollectedRun {
  TensorCollector tensors;
  std::vector<NamedTensor> outputs;
};

absl::Status Collect(const RunnerMaker& maker,
                     const std::vector<NamedTensor>& inputs,
                     CollectedRun* collected) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  RunOptions run;
  run.sink = &collected->tensors;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(inputs, run));
  collected->outputs = std::move(result.outputs);
  return absl::OkStatus();
}

bool AreEqual(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Names what differs bit for bit.
void CompareRuns(const std::string& what, const CollectedRun& expected,
                 const CollectedRun& found,
                 std::vector<std::string>* differences) {
  const auto& was = expected.tensors.kept();
  const auto& is = found.tensors.kept();
  if (was.size() != is.size()) {
    differences->push_back(fmt::format("{}: {} tensors instead of {}", what,
                                       is.size(), was.size()));
    return;
  }
  for (size_t i = 0; i < was.size(); ++i) {
    if (was[i].tensor.defined() && is[i].tensor.defined() &&
        AreEqual(was[i].tensor, is[i].tensor)) {
      continue;
    }
    differences->push_back(fmt::format("{}: {}", what, was[i].key.Name()));
  }
}

absl::Status CompareRecorded(const std::string& folder,
                             const CollectedRun& found,
                             std::vector<std::string>* differences) {
  NODEWISE_ASSIGN_OR_RETURN(const Params recorded,
                            OpenParams(folder + "/outputs.params"));
  for (size_t i = 0; i < found.outputs.size(); ++i) {
    const std::string name = fmt::format("output_{}", i);
    const NDArray* const expected = recorded.Find(name);
    if (expected != nullptr && AreEqual(*expected, found.outputs[i].tensor)) {
      continue;
    }
    differences->push_back("recorded: " + name);
  }
  return absl::OkStatus();
}

// Compares with the dump that TVM's own debugger made, where there is one.
absl::Status CompareWithDump(const std::string& folder, CollectedRun* found,
                             std::vector<std::string>* differences) {
  const std::string dump = folder + "/tvm_debug";
  if (!std::filesystem::exists(dump)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto source, OpenTensorSource(dump));
  NODEWISE_ASSIGN_OR_RETURN(const Comparison compared,
                            CompareSources(*source, found->tensors));
  for (const TensorComparison& tensor : compared.tensors) {
    if (tensor.is_equal()) continue;
    differences->push_back("tvm_debug: " + tensor.key.Name());
  }
  for (const SkippedTensor& skipped : compared.skipped) {
    if (!skipped.is_difference()) continue;
    differences->push_back("tvm_debug: " + skipped.key.Name());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunFixture(const std::string& name, Result* result) {
  const std::string folder = FixturesFolder() + "/" + name;
  auto artefact = LoadArtefact({folder + "/graph.json", folder + "/lib.so",
                                folder + "/params.params", name});
  if (!artefact.ok()) {
    return absl::UnimplementedError(std::string(MessageOf(artefact.status())));
  }
  NODEWISE_ASSIGN_OR_RETURN(const Params inputs,
                            OpenParams(folder + "/inputs.params"));
  NODEWISE_ASSIGN_OR_RETURN(const SubjectTarget target,
                            TargetOf(name, artefact->graph, artefact->library,
                                     artefact->params.tensors));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, target.Maker());
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker apart, target.PrivateMaker());
  CollectedRun first, again, privately;
  NODEWISE_RETURN_IF_ERROR(Collect(maker, inputs.tensors, &first));
  NODEWISE_RETURN_IF_ERROR(Collect(maker, inputs.tensors, &again));
  NODEWISE_RETURN_IF_ERROR(Collect(apart, inputs.tensors, &privately));
  std::vector<std::string> differences;
  CompareRuns("repeated", first, again, &differences);
  CompareRuns("private storage", first, privately, &differences);
  NODEWISE_RETURN_IF_ERROR(CompareRecorded(folder, first, &differences));
  NODEWISE_RETURN_IF_ERROR(CompareWithDump(folder, &first, &differences));
  result->outcome =
      differences.empty() ? Result::Outcome::kExact : Result::Outcome::kAccused;
  result->text = ListOf(differences, 5);
  return absl::OkStatus();
}

}  // namespace nodewise
