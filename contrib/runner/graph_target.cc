#include "nodewise/runner/graph_target.h"

#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::Load(
    ArtefactFiles files, std::vector<DLDevice> devices, TypesOfInputs types,
    const Ref<Library>& built_ins) {
  auto artefact = LoadArtefact(files, {}, built_ins);
  if (absl::IsUnimplemented(artefact.status())) {
    // The library may leave dimensions open, which the inputs then give.
    NODEWISE_ASSIGN_OR_RETURN(const auto given, types());
    if (!given.empty()) artefact = LoadArtefact(files, given);
  }
  NODEWISE_RETURN_IF_ERROR(artefact.status());
  std::shared_ptr<GraphTarget> target(
      new GraphTarget(std::move(files), *std::move(artefact),
                      std::move(devices), ParamUse::kCopied));
  NODEWISE_RETURN_IF_ERROR(target->Init());
  return target;
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::FromArtefact(
    std::string name, Artefact artefact, std::vector<DLDevice> devices,
    ParamUse param_use) {
  ArtefactFiles files;
  files.params = name;
  files.target = std::move(name);
  std::shared_ptr<GraphTarget> target(new GraphTarget(
      std::move(files), std::move(artefact), std::move(devices), param_use));
  NODEWISE_RETURN_IF_ERROR(target->Init());
  return target;
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::WithArtefact(
    Artefact artefact) const {
  std::shared_ptr<GraphTarget> target(
      new GraphTarget(files_, std::move(artefact), devices_, param_use_));
  NODEWISE_RETURN_IF_ERROR(target->Init());
  return target;
}

absl::Status GraphTarget::Init() {
  std::vector<GraphInput> inputs = InputsOf(graph());
  NODEWISE_RETURN_IF_ERROR(MarkLinked(graph(), *artefact_.library, &inputs));
  unknown_params_ = MarkParams(graph(), artefact_.params, &inputs);
  inputs_ = ListInputs(graph(), std::move(inputs));
  index_ = std::make_unique<const GraphIndex>(graph());
  // Makes the keys, which threads may then ask for at once.
  if (!graph().nodes.empty()) index_->KeyOf(NodeId{0});
  return absl::OkStatus();
}

absl::StatusOr<const GraphIndex*> GraphTarget::PlannedIndex() const {
  std::call_once(is_planned_, [&] {
    auto plan = PlanStorage(
        graph(), devices_.empty() ? kDLCPU : devices_.front().device_type);
    plan_status_ = plan.status();
    if (!plan.ok()) return;
    plan_ = *std::move(plan);
    planned_index_ = std::make_unique<const GraphIndex>(graph(), plan_);
    // As in Init().
    if (!graph().nodes.empty()) planned_index_->KeyOf(NodeId{0});
  });
  NODEWISE_RETURN_IF_ERROR(plan_status_);
  return planned_index_.get();
}

// A library that is the whole artefact may have some parameters, and a file
// beside it more.
std::string GraphTarget::WhereParamsAre() const {
  if (files_.params.empty()) return files_.library;
  if (!files_.graph.empty() || files_.library.empty()) return files_.params;
  return files_.library + " or " + files_.params;
}

absl::Status GraphTarget::SetParams(GraphExecutor* executor) const {
  const Params& params = artefact_.params;
  const auto set = param_use_ == ParamUse::kInPlace
                       ? executor->BindParams(params)
                       : executor->LoadParams(params);
  return At(WhereParamsAre(), set.status());
}

absl::Status GraphTarget::SetAll(absl::Span<const RunInput> inputs,
                                 GraphExecutor* executor) const {
  NODEWISE_RETURN_IF_ERROR(SetParams(executor));
  for (const RunInput& input : inputs) {
    NODEWISE_RETURN_IF_ERROR(
        At(input.from, executor->SetInput(input.input, *input.tensor)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GraphExecutor>> GraphTarget::MakeExecutor()
    const {
  return MakeExecutor({});
}

absl::StatusOr<std::unique_ptr<GraphExecutor>> GraphTarget::MakeExecutor(
    absl::Span<const RunInput> inputs) const {
  GraphExecutor::Options options;
  options.devices = devices_;
  NODEWISE_ASSIGN_OR_RETURN(
      auto executor,
      GraphExecutor::Create(artefact_.graph, artefact_.library, options));
  NODEWISE_RETURN_IF_ERROR(SetAll(inputs, executor.get()));
  return executor;
}

}  // namespace nodewise
