// A model: from its file, or from memory, to a graph that executors run.
//
// The steps have an order: sizes are bound first, since types depend on them;
// then what is opaque is settled, as nothing can be computed of it; then
// precision and passes change the network; and what is left is lowered.

#include "contrib/session/open_model.h"

#include <filesystem>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/opaque_runner.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/lower/lower.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/op_def.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Sizes and frozen inputs are given to a network as the import gives them to a
// model.
absl::StatusOr<Network> ReadText(const std::string& path,
                                 const ModelSpec& spec) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data, LoadNetworkText(path));
  auto network = Network::FromData(std::move(data));
  if (!network.ok()) return At(path, network.status());
  for (const auto& [name, size] : spec.dims) {
    NODEWISE_RETURN_IF_ERROR(At(path, network->BindDim(name, size)));
  }
  for (const NamedTensor& frozen : spec.freeze) {
    const auto input = network->FindValue(frozen.name);
    NODEWISE_RETURN_IF_ERROR(At(path, input.status()));
    NODEWISE_RETURN_IF_ERROR(At(path, network->Freeze(*input, frozen.tensor)));
  }
  return network;
}

// Bodies of control flow are counted, too: they draw when they run.
size_t CountRandom(const Network& network) {
  size_t count = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (DrawsRandomNumbers(operation.def(), operation.inputs.size())) ++count;
    for (const AttrField& field : operation.def().fields) {
      if (!field.is_graph) continue;
      const auto value = field.get(operation.attrs.get());
      if (!value.has_value()) continue;
      count += CountRandom(*std::get<Subgraph>(*value).body);
    }
  }
  return count;
}

// A run that draws numbers is repeated only if it is known that there is a
// seed.
void NoteSeed(const Network& network, const ModelSpec& spec,
              std::vector<std::string>* notes) {
  const size_t count = CountRandom(network);
  if (count == 0) return;
  notes->push_back(fmt::format(
      "{} operation{} random numbers: those without a seed of their own draw "
      "from seed {}",
      count, count == 1 ? " draws" : "s draw", spec.seed.value_or(kUsualSeed)));
}

// Models take their open sizes from samples, too, but not from folders.
std::vector<InputFile> FilesWithSizes(const TargetSpec& spec) {
  std::vector<InputFile> files = spec.inputs.files;
  for (const SampleSpec& sample : spec.precision.samples) {
    std::error_code error;
    if (std::filesystem::is_regular_file(sample.path, error)) {
      files.push_back({"", sample.path});
    }
  }
  return files;
}

absl::StatusOr<Network> ReadNetwork(const TargetSpec& spec, InputFiles* files,
                                    DiagnosticList* diagnostics,
                                    std::vector<std::string>* notes) {
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            LoadNetworkOf(spec, notes, diagnostics));
  NoteSeed(network, spec.model, notes);
  SetFrozen(spec.model, files);
  const auto given = files->TypesOf(FilesWithSizes(spec));
  if (given.ok()) BindSizes(*given, &network);
  BindSizes(spec.inputs.tensors, &network);
  return network;
}

// Returns whether opaque operations make something of which the model does not
// state the type with all its sizes.
bool HasOpenTypes(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (operation.attrs.As<ops::Opaque>() == nullptr) continue;
    for (const ValueId output : operation.outputs) {
      if (output == kNoValue) continue;
      const TensorType& type = network.value(output).type;
      if (!type.has_dtype() || !type.is_static()) return true;
    }
  }
  return false;
}

// Runs the network to find the types that the model does not state; inputs must
// be there for all of its own.
absl::StatusOr<std::vector<std::pair<std::string, TensorType>>> FindOpenTypes(
    const Network& network, absl::Span<const NamedTensor> inputs) {
  std::vector<NDArray> tensors;
  for (const NamedTensor& input : inputs) tensors.push_back(input.tensor);
  std::vector<std::pair<std::string, TensorType>> types;
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    if (run.operation.attrs.As<ops::Opaque>() == nullptr) return false;
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      const ValueId output = run.operation.outputs[i];
      if (output == kNoValue) continue;
      types.emplace_back(network.value(output).name,
                         TensorType::From(*run.result.outputs[i]));
    }
    return false;
  };
  NODEWISE_RETURN_IF_ERROR(
      Interpret(network, std::move(tensors), options).status());
  return types;
}

// Reads the model again, with the types that opaque operations turn out to
// make, if there are some that it does not state.
absl::StatusOr<Network> WithFoundTypes(const TargetSpec& spec, Network network,
                                       InputFiles* files,
                                       DiagnosticList* diagnostics) {
  if (!HasOpenTypes(network)) return network;
  DiagnosticList faults;
  const auto list = ListInputs(network);
  const auto given = CollectInputs(spec.inputs, *list, *files, &faults);
  // The caller that needs the inputs says what is wrong with them.
  if (faults.HasErrors()) return network;
  TargetSpec again = spec;
  NODEWISE_ASSIGN_OR_RETURN(again.model.opaque_types,
                            FindOpenTypes(network, NameInputs(*list, given)));
  std::vector<std::string> known_notes;
  return ReadNetwork(again, files, diagnostics, &known_notes);
}

// Gives the session's network the sizes that only data decides, if the spec has
// inputs to run it with.
absl::Status FindOpenSizes(const TargetSpec& spec, const InputFiles& files,
                           Session* session, DiagnosticList* diagnostics) {
  if (spec.inputs.is_empty() || !HasOpenSizes(*session->network)) {
    return absl::OkStatus();
  }
  const auto list = ListInputs(*session->network);
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<RunInput> given,
      CheckedInputs(spec.inputs, *list, files, diagnostics));
  Network sized = *session->network;
  NODEWISE_RETURN_IF_ERROR(
      At(spec.path, FindSizes(NameInputs(*list, given), &sized)));
  session->network = std::make_shared<const Network>(std::move(sized));
  return absl::OkStatus();
}

// A program that runs operations is asked for their types, which models do not
// state for operators that no standard has.
absl::StatusOr<OpaqueReport> ResolveOpaqueTypes(const TargetSpec& spec,
                                                InputFiles* files,
                                                Network* network,
                                                DiagnosticList* diagnostics) {
  if (spec.keeps_opaque) return OpaqueReport();
  auto opaque = TakeOpaque(spec.model, network);
  if (!opaque.ok()) return At(spec.path, opaque.status());
  if (opaque->operators.empty() || opaque->program.empty()) return opaque;
  if (spec.precision.precision.has_value()) {
    return InvalidArgument(
        "{}: cannot be lowered to {} where {} runs operations, expected one of "
        "both",
        spec.path, ToString(*spec.precision.precision), opaque->program);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      *network, WithFoundTypes(spec, std::move(*network), files, diagnostics));
  NODEWISE_RETURN_IF_ERROR(OrderOpaqueOperations(network));
  return opaque;
}

}  // namespace

absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelSpec& spec,
                                  DiagnosticList* diagnostics) {
  if (!IsModel(path)) return ReadText(path, spec);
  ImportOptions import;
  import.dims = spec.dims;
  import.freeze = spec.freeze;
  import.keep_opaque = true;
  import.random_seed = spec.seed.value_or(kUsualSeed);
  import.opaque_types = spec.opaque_types;
  import.report_unused = spec.report_unused;
  import.check_specification = spec.check_specification;
  import.refuse_unsorted = spec.refuse_unsorted;
  import.kinds = spec.kinds;
  return ImportOnnx(path, AllOperators(), import, diagnostics);
}

absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseNetworkText(file.text(), AllOperators(), path);
}

absl::StatusOr<Session> OpenNetwork(const TargetSpec& spec, InputFiles* files,
                                    DiagnosticList* diagnostics) {
  Session session;
  NODEWISE_ASSIGN_OR_RETURN(
      Network network, ReadNetwork(spec, files, diagnostics, &session.notes));
  NODEWISE_ASSIGN_OR_RETURN(
      OpaqueReport opaque,
      ResolveOpaqueTypes(spec, files, &network, diagnostics));
  session.opaque = std::make_shared<const OpaqueReport>(std::move(opaque));
  NODEWISE_ASSIGN_OR_RETURN(
      session.precision,
      ChangePrecision(spec.precision, &network, diagnostics));
  if (!spec.passes.empty()) {
    auto ran = RunPassList(spec.passes, &network);
    if (!ran.ok()) return At(spec.path, ran.status());
    session.passes = std::make_shared<const PassesReport>(*std::move(ran));
  }
  session.network = std::make_shared<const Network>(std::move(network));
  return session;
}

// Layouts depend on the kernels that a backend has, so that it chooses them.
LowerOptions LowerOptionsOf(const LoweringSpec& spec) {
  const Backend backend = spec.backend.value_or(Backend::kFastest);
  LowerOptions lower;
  if (spec.chooses_layouts) lower = LoweringFor(AllOperators(), backend);
  lower.fuse = spec.fuses;
  lower.reuse_storage = spec.reuses_storage;
  lower.makers = KernelMakersOf(backend);
  return lower;
}

Ref<LoweredLibrary> BuiltIns(Backend backend,
                             std::shared_ptr<const KernelTable> table) {
  return BuiltInFunctions(AllOperators(), backend, std::move(table));
}

// A network whose sizes stay open is not an error for a caller that can
// interpret it.
absl::StatusOr<Session> OpenModel(const TargetSpec& spec, InputFiles* files,
                                  DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenNetwork(spec, files, diagnostics));
  if (!spec.keeps_open_sizes) {
    NODEWISE_RETURN_IF_ERROR(
        FindOpenSizes(spec, *files, &session, diagnostics));
  }
  auto lowered = Lower(*session.network, spec.path + ": graph JSON",
                       LowerOptionsOf(spec.lowering));
  if (absl::IsUnimplemented(lowered.status()) && spec.keeps_open_sizes) {
    session.notes.push_back(fmt::format("{}: {}; so the interpreter runs it",
                                        spec.path,
                                        MessageOf(lowered.status())));
    return session;
  }
  if (!lowered.ok()) return At(spec.path, lowered.status());
  session.lowering = spec.lowering;
  session.built_ins = BuiltIns(
      spec.lowering.backend.value_or(Backend::kFastest), lowered->kernels);
  NODEWISE_ASSIGN_OR_RETURN(
      session.target,
      GraphTarget::FromArtefact(spec.path,
                                {std::move(lowered->graph), session.built_ins,
                                 Params{std::move(lowered->params)}},
                                {kCpu}, ParamUse::kInPlace));
  return session;
}

// Nodes are chosen in the lowered graph, since only that has nodes.
absl::Status StandIn(const std::vector<std::string>& expressions,
                     Session* session) {
  if (expressions.empty()) return absl::OkStatus();
  if (session->target == nullptr) {
    return InvalidArgument(
        "stand-in: the interpreter runs the whole model, expected a model or "
        "an artefact that becomes a graph");
  }
  auto nodes = ChooseNodes(session->target->index(), expressions);
  if (!nodes.ok()) return At("stand-in", nodes.status());
  const std::set<std::string> chosen(nodes->begin(), nodes->end());
  NODEWISE_ASSIGN_OR_RETURN(session->target,
                            WithStandIns(*session->target, AllOperators(),
                                         [chosen](const std::string& node) {
                                           return chosen.count(node) > 0;
                                         }));
  session->stand_ins = *std::move(nodes);
  return absl::OkStatus();
}

}  // namespace nodewise
