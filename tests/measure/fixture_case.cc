#include "tests/measure/fixture_case.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/compare/compare.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_collector.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/measure/subject.h"
#include "tests/support/fixtures.h"

namespace nodewise {
namespace {

// How an artefact may lie in its folder, and what its name then ends with.
struct Form {
  std::string_view ending;
  std::string_view library;
};
constexpr Form kForms[] = {
    {"", "lib.so"}, {"+factory", "factory.so"}, {"+vm", "vm.so"}};

// A VM's code does not say what its kernels are for.
bool IsForHost(const std::string& folder, const Graph& graph) {
  const std::string part =
      std::filesystem::path(folder).parent_path().filename().string();
  if (part.ends_with("-cuda") || part.ends_with("-opencl")) return false;
  return !graph.has_device_index ||
         std::all_of(graph.entries.begin(), graph.entries.end(),
                     [](const GraphEntry& entry) {
                       return entry.device_type == kDLCPU;
                     });
}

// Fails with kUnavailable for what this machine cannot run.
absl::StatusOr<Artefact> Load(const std::string& folder,
                              std::string_view ending) {
  for (const Form& form : kForms) {
    if (form.ending != ending) continue;
    ArtefactFiles files;
    files.target = folder;
    files.library = fmt::format("{}/{}", folder, form.library);
    if (ending.empty()) {
      files.graph = folder + "/graph.json";
      files.params = folder + "/params.params";
    }
    NODEWISE_ASSIGN_OR_RETURN(Artefact artefact, LoadArtefact(files));
    if (IsForHost(folder, artefact.graph)) return artefact;
    return absl::UnavailableError(folder + ": is for another device");
  }
  return absl::InvalidArgumentError(
      fmt::format("{}{}: is not a fixture", folder, Printable(ending)));
}

// Several artefacts of one network have their inputs beside them.
absl::StatusOr<Params> ReadInputs(const std::string& folder) {
  const std::string own = folder + "/inputs.params";
  if (std::filesystem::exists(own)) return OpenParams(own);
  const auto shared =
      std::filesystem::path(folder).parent_path() / "inputs.npz";
  NODEWISE_ASSIGN_OR_RETURN(auto tensors, ReadTensorFile(shared.string()));
  return Params{std::move(tensors)};
}

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

std::vector<std::string> FixtureNames() {
  std::vector<std::string> names;
  if (FixturesFolder().empty()) return names;
  for (const auto& part :
       std::filesystem::directory_iterator(FixturesFolder())) {
    const std::string name = part.path().filename().string();
    for (const std::string& folder : FixtureFolders(name)) {
      for (const Form& form : kForms) {
        const std::filesystem::path path(folder);
        if (!std::filesystem::exists(path / form.library)) continue;
        names.push_back(fmt::format("{}/{}{}", name, path.filename().string(),
                                    form.ending));
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RunFixture(const std::string& name, Result* result) {
  const std::vector<std::string> parts = SplitAt('+', name);
  const std::string folder = FixturesFolder() + "/" + parts[0];
  auto artefact = Load(folder, name.substr(parts[0].size()));
  // What needs another machine than this one is not counted.
  if (absl::IsUnavailable(artefact.status())) {
    return absl::UnimplementedError(std::string(MessageOf(artefact.status())));
  }
  NODEWISE_RETURN_IF_ERROR(artefact.status());
  NODEWISE_ASSIGN_OR_RETURN(const Params inputs, ReadInputs(folder));
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
