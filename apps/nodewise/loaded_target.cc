#include "apps/nodewise/loaded_target.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string UnknownParamsNote(const std::vector<std::string>& names,
                              const std::string& from) {
  return fmt::format("{}: {} that the graph does not have: {}", from,
                     CountOf(names.size(), "parameter"), ListOf(names, 8));
}

void ShowInputs(const LoadedTarget& network, const GraphExecutor& executor,
                Outcome* outcome) {
  TextTable table;
  outcome->json.BeginArray("inputs");
  for (const InputSource& source : network.sources()) {
    const TensorInfo info = executor.InputInfo(source.input);
    table.AddRow({"input", info.name, TypeToString(info.shape, info.dtype),
                  "from " + source.from});
    outcome->json.BeginObject();
    outcome->json.Add("name", info.name);
    outcome->json.Add("dtype", ToString(info.dtype));
    outcome->json.Add("shape", info.shape);
    outcome->json.Add("from", source.from);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += table.ToString(0, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedTarget>> LoadedTarget::Load(
    const TargetOptions& target, const InputOptions& inputs) {
  std::unique_ptr<LoadedTarget> network(new LoadedTarget(target, inputs));
  NODEWISE_ASSIGN_OR_RETURN(network->files_, FilesOf(target));
  NODEWISE_ASSIGN_OR_RETURN(network->devices_, DevicesOf(target));
  auto artefact = LoadArtefact(network->files_);
  if (absl::IsUnimplemented(artefact.status())) {
    // The library may leave dimensions open, which the inputs then give.
    NODEWISE_ASSIGN_OR_RETURN(const auto given, InputTypes(&network->inputs_));
    if (!given.empty()) artefact = LoadArtefact(network->files_, given);
  }
  NODEWISE_RETURN_IF_ERROR(artefact.status());
  network->artefact_ = *std::move(artefact);
  network->index_.emplace(network->artefact_.graph);
  return network;
}

// A library that is the whole artefact may have some parameters, and a file
// beside it more.
std::string LoadedTarget::WhereParamsAre() const {
  if (files_.params.empty()) return files_.library;
  if (!files_.graph.empty()) return files_.params;
  return files_.library + " or " + files_.params;
}

absl::Status LoadedTarget::SetParams(GraphExecutor* executor,
                                     LoadedParams* loaded) const {
  auto set = executor->LoadParams(artefact_.params);
  if (!set.ok()) return At(WhereParamsAre(), set.status());
  *loaded = *std::move(set);
  return absl::OkStatus();
}

std::unique_ptr<GraphExecutor> LoadedTarget::MakeFirst(Outcome* outcome) {
  const auto fail = [&](const absl::Status& status) {
    outcome->AddError(status);
    return nullptr;
  };
  GraphExecutor::Options options;
  options.devices = devices_;
  auto executor =
      GraphExecutor::Create(artefact_.graph, artefact_.library, options);
  if (!executor.ok()) return fail(executor.status());
  LoadedParams loaded;
  const absl::Status status = SetParams(executor->get(), &loaded);
  if (!status.ok()) return fail(status);
  if (!loaded.unknown.empty()) {
    outcome->notes.push_back(
        UnknownParamsNote(loaded.unknown, WhereParamsAre()));
  }
  DiagnosticList diagnostics;
  sources_ = SetInputs(inputs_, executor->get(), &diagnostics);
  if (diagnostics.HasErrors()) {
    outcome->AddErrors(diagnostics);
    return nullptr;
  }
  return *std::move(executor);
}

absl::Status LoadedTarget::SetAll(GraphExecutor* executor) const {
  LoadedParams loaded;
  NODEWISE_RETURN_IF_ERROR(SetParams(executor, &loaded));
  for (const InputSource& source : sources_) {
    NODEWISE_RETURN_IF_ERROR(
        At(source.from, executor->SetInput(source.input, *source.tensor)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GraphExecutor>> LoadedTarget::MakePlain() const {
  GraphExecutor::Options options;
  options.devices = devices_;
  NODEWISE_ASSIGN_OR_RETURN(
      auto executor,
      GraphExecutor::Create(artefact_.graph, artefact_.library, options));
  NODEWISE_RETURN_IF_ERROR(SetAll(executor.get()));
  return executor;
}

void ShowNetwork(const LoadedTarget& network, const GraphExecutor& executor,
                 Outcome* outcome) {
  size_t functions = 0;
  for (const GraphNode& node : executor.graph().nodes) {
    functions += node.kind == GraphNode::Kind::kFunction ? 1 : 0;
  }
  const ArtefactFiles& files = network.files();
  outcome->text +=
      fmt::format("{}: {}, {}\n", Printable(network.target().target),
                  CountOf(functions, "function node"),
                  CountOf(executor.NumOutputs(), "output"));
  outcome->json.BeginObject("target");
  outcome->json.Add("graph", files.graph);
  outcome->json.Add("library", files.library);
  outcome->json.Add("params", files.params);
  if (!files.function.empty()) outcome->json.Add("function", files.function);
  outcome->json.EndObject();
  const InputOptions& inputs = network.inputs();
  if (inputs.seed.has_value()) outcome->json.Add("seed", *inputs.seed);
  ShowInputs(network, executor, outcome);
}

}  // namespace nodewise
