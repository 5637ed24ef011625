#include "apps/nodewise/repro_folders.h"

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/runner/stand_in.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

ReproSource SourceOf(const GraphTarget& target) {
  ReproSource source{target.index(),
                     AllOperators(),
                     target.artefact().library,
                     target.files().library,
                     {}};
  for (const NamedTensor& param : target.artefact().params.tensors) {
    source.params.push_back(param.name);
  }
  return source;
}

std::string ShownBy(const ReproCase& node_case) {
  if (!node_case.region.has_value()) {
    return "not judged: " + node_case.why_no_region;
  }
  const std::string simpler =
      node_case.is_shrunk() ? ", with simpler inputs" : "";
  if (node_case.failure.has_value()) {
    if (node_case.fails_alone == false) return "came to its end alone";
    return node_case.verdict + ": " + node_case.failure->what + simpler;
  }
  const ReproOutput* const wrong = node_case.FindWrong();
  if (wrong == nullptr) {
    return node_case.verdict.empty() ? "right" : "right when it ran alone";
  }
  return "wrong: " + wrong->comparison->judgement.reason + simpler;
}

void AddRepro(const ReproCase& node_case, const std::string& path,
              JsonWriter* json) {
  json->BeginObject();
  json->Add("node", node_case.node);
  json->Add("folder", path);
  json->Add("judged", node_case.region.has_value());
  json->Add("wrong", node_case.FindWrong() != nullptr);
  if (node_case.failure.has_value()) {
    json->Add("failure", NameOf(node_case.failure->kind));
    if (node_case.fails_alone.has_value()) {
      json->Add("fails_alone", *node_case.fails_alone);
    }
  }
  json->Add("shrunk", node_case.is_shrunk());
  json->Add("shrink_runs", node_case.shrink_runs);
  json->EndObject();
}

// Runs all nodes but those that end runs or spoil memory.
absl::StatusOr<std::unique_ptr<Runner>> MakeSafeRunner(
    const LoadedTarget& loaded, const std::set<std::string>& failing) {
  std::shared_ptr<const GraphTarget> target = loaded.target;
  if (!failing.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(target,
                              WithStandIns(*loaded.target, AllOperators(),
                                           [failing](const std::string& node) {
                                             return failing.count(node) > 0;
                                           }));
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {target->name(), target}));
  return maker();
}

}  // namespace

std::string ReproPath(const std::string& dir, size_t number,
                      const std::string& key) {
  const std::filesystem::path path(dir);
  return (path / fmt::format("{:03}_{}", number, PlainName(key))).string();
}

absl::Status MakeReproRoot(const std::string& dir) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(dir));
  std::error_code error;
  std::filesystem::create_directory(dir, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot make the folder: {}", dir, error.message()));
}

absl::Status WriteReproFolders(const LoadedTarget& loaded,
                               const std::vector<ReproFolder>& folders,
                               const ShrinkOptions& shrink, Outcome* outcome,
                               int64_t node_limit_ms) {
  const GraphTarget& target = *loaded.target;
  std::map<std::string, const ReproFolder*> by_node;  // By its key.
  std::vector<NodeId> nodes;
  std::set<std::string> failing;
  for (const ReproFolder& folder : folders) {
    const std::string key = target.index().KeyOf(folder.node);
    nodes.push_back(folder.node);
    by_node[key] = &folder;
    if (folder.failure.has_value()) failing.insert(key);
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, MakeSafeRunner(loaded, failing));
  ReproSource source = SourceOf(target);
  source.may_run = [&](NodeId node) {
    return failing.count(target.index().KeyOf(node)) == 0;
  };
  TextTable table;
  outcome->json.BeginArray("repros");
  const auto write = [&](ReproCase node_case) -> absl::Status {
    const ReproFolder& folder = *by_node[node_case.node];
    const std::string& path = folder.path;
    node_case.verdict = folder.verdict;
    node_case.reason = folder.reason;
    node_case.failure = folder.failure;
    node_case.node_limit_ms = node_limit_ms;
    if (folder.failure.has_value()) CheckFailsAlone(&node_case);
    NODEWISE_RETURN_IF_ERROR(ShrinkCase(shrink, &node_case));
    NODEWISE_RETURN_IF_ERROR(WriteRepro(node_case, path));
    table.AddRow({"wrote", path, ShownBy(node_case)});
    AddRepro(node_case, path, &outcome->json);
    return absl::OkStatus();
  };
  const absl::Status status =
      VisitCases(source, nodes, *runner,
                 NameInputs(target.inputs(), loaded.inputs), write);
  outcome->json.EndArray();
  outcome->text += table.ToString(0, 0, LineWidth());
  return status;
}

}  // namespace nodewise
