#include "nodewise/runner/graph_target.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr size_t kAlignment = 64;  // As NDArray::Empty() aligns.

// Returns how far the bytes of the file must be moved for its largest tensor,
// and with it most of the others, to lie as executors can read it in place. A
// mapping begins at a page.
size_t ShiftFor(const Params& mapped) {
  const NDArray* largest = nullptr;
  for (const NamedTensor& param : mapped.tensors) {
    const NDArray& tensor = param.tensor;
    if (largest == nullptr || tensor.bytes() > largest->bytes()) {
      largest = &tensor;
    }
  }
  if (largest == nullptr) return 0;
  const auto address = reinterpret_cast<uintptr_t>(largest->data());
  return (kAlignment - address % kAlignment) % kAlignment;
}

// Reads the parameters that are mapped into memory of our own. Built-in
// functions write to nothing that they read, so executors need no copies of
// them; those of a mapped file would be another copy, and changes of the file
// would show in it.
absl::StatusOr<Params> InMemory(const Params& mapped, const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(path + ": " + error.message());
  const size_t shift = ShiftFor(mapped);
  const int64_t room[] = {static_cast<int64_t>(bytes + shift)};
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray memory, NDArray::Empty(room, DLDataType{kDLUInt, 8, 1}, kCpu));
  char* const begin = static_cast<char*>(memory.data()) + shift;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(begin, static_cast<std::streamsize>(bytes))) {
    return DataLoss("{}: ended early, expected {} bytes (it may be changing)",
                    path, bytes);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      Params params,
      ParseParams({reinterpret_cast<const uint8_t*>(begin), bytes}, path,
                  std::make_shared<NDArray>(memory)));
  for (NamedTensor& param : params.tensors) param.tensor.MakeReadOnly();
  return params;
}

}  // namespace

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
  // Without a library the nodes are regions, whose kernels never write to their
  // inputs, so that all executors can read one copy of the parameters.
  const bool is_ours = files.library.empty();
  if (is_ours && !files.params.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(artefact->params,
                              InMemory(artefact->params, files.params));
  }
  return Make(std::move(files), *std::move(artefact), std::move(devices),
              is_ours ? ParamUse::kInPlace : ParamUse::kCopied);
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::FromArtefact(
    std::string name, Artefact artefact, std::vector<DLDevice> devices,
    ParamUse param_use) {
  ArtefactFiles files;
  files.params = name;
  files.target = std::move(name);
  return Make(std::move(files), std::move(artefact), std::move(devices),
              param_use);
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::WithArtefact(
    Artefact artefact) const {
  return Make(files_, std::move(artefact), devices_, param_use_);
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> GraphTarget::Make(
    ArtefactFiles files, Artefact artefact, std::vector<DLDevice> devices,
    ParamUse param_use) {
  std::shared_ptr<GraphTarget> target(new GraphTarget(
      std::move(files), std::move(artefact), std::move(devices), param_use));
  NODEWISE_RETURN_IF_ERROR(target->Init());
  return target;
}

absl::Status GraphTarget::Init() {
  // Whether an input must be given follows from three places: nodes may not
  // read it, the library may have linked it in, and the files may have it as a
  // parameter.
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
    // A failure is kept as well: every later caller gets the same answer.
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
std::string GraphTarget::ParamsLocation() const {
  if (files_.params.empty()) return files_.library;
  if (!files_.graph.empty() || files_.library.empty()) return files_.params;
  return files_.library + " or " + files_.params;
}

absl::Status GraphTarget::SetParams(GraphExecutor* executor) const {
  const Params& params = artefact_.params;
  // Bound parameters stay where they are and are shared by all executors of the
  // target; loaded ones are copied into each.
  const auto set = param_use_ == ParamUse::kInPlace
                       ? executor->BindParams(params)
                       : executor->LoadParams(params);
  return At(ParamsLocation(), set.status());
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
