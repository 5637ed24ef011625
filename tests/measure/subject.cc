#include "tests/measure/subject.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/precision/precision.h"
#include "nodewise/random/random.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/zoo/zoo_networks.h"
#include "tests/measure/case.h"
#include "tests/support/compiled_network.h"

namespace nodewise {
namespace {

constexpr DLDevice kHost{kDLCPU, 0};
constexpr std::string_view kLight = "light:";

// The name of a subject, read.
struct Wanted {
  std::string network;
  uint64_t seed = 1;
  std::optional<Precision> precision;
  bool fuse = true;
  bool is_compiled = false;
  Backend backend = Backend::kFastest;
};

absl::Status BadName(std::string_view name, std::string_view part) {
  return absl::InvalidArgumentError(fmt::format(
      "network \"{}\": found \"{}\", expected NAME[/SEED] with +fp16, +bf16, "
      "+int8, +unfused, +reference or +c behind it",
      Printable(name), Printable(part)));
}

absl::StatusOr<Wanted> ParseName(std::string_view name) {
  const std::vector<std::string> parts = SplitAt('+', name);
  const std::vector<std::string> seeded = SplitAt('/', parts[0]);
  Wanted wanted;
  wanted.network = seeded[0];
  if (seeded.size() > 2) return BadName(name, parts[0]);
  if (seeded.size() == 2) {
    const char* const end = seeded[1].data() + seeded[1].size();
    const auto read = std::from_chars(seeded[1].data(), end, wanted.seed);
    if (read.ec != std::errc() || read.ptr != end) {
      return BadName(name, seeded[1]);
    }
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "unfused") {
      wanted.fuse = false;
    } else if (parts[i] == "reference") {
      wanted.backend = Backend::kReference;
    } else if (parts[i] == "c") {
      wanted.is_compiled = true;
    } else {
      const auto precision = ParsePrecision(parts[i]);
      if (!precision.ok()) return BadName(name, parts[i]);
      wanted.precision = *precision;
    }
  }
  return wanted;
}

absl::StatusOr<LoadedModel> ReadModel(const Wanted& wanted,
                                      const std::string& models) {
  std::string path =
      fmt::format("{}/{}_{}.onnx", models, wanted.network.substr(kLight.size()),
                  wanted.seed);
  DiagnosticList diagnostics;
  auto network = ImportOnnx(path, AllOperators(), {}, &diagnostics);
  if (!network.ok()) return At(path, network.status());
  return LoadedModel{std::move(path), *std::move(network)};
}

absl::StatusOr<Network> MakeNetwork(const Wanted& wanted,
                                    const std::string& models) {
  if (!wanted.network.starts_with(kLight)) {
    NODEWISE_ASSIGN_OR_RETURN(const ZooNetwork row,
                              FindZooNetwork(wanted.network));
    return row.make(AllOperators(), wanted.seed);
  }
  NODEWISE_ASSIGN_OR_RETURN(LoadedModel model, ReadModel(wanted, models));
  return std::move(model.network);
}

absl::StatusOr<NDArray> DrawInput(const std::string& name,
                                  absl::Span<const int64_t> shape,
                                  DLDataType dtype, uint64_t seed) {
  RandomSource random(seed, name);
  return RandomTensor(random, shape, dtype);
}

absl::Status ChangeTo(Precision precision, uint64_t seed, Network* network) {
  PrecisionOptions options;
  options.precision = precision;
  if (precision == Precision::kInt8) {
    Sample sample;
    NODEWISE_ASSIGN_OR_RETURN(const auto inputs, DrawInputsOf(*network, seed));
    for (const NamedTensor& input : inputs) sample.push_back(input.tensor);
    options.most_weight = OneDnnMostWeight();
    NODEWISE_ASSIGN_OR_RETURN(options.calibration,
                              Calibrate(*network, {&sample, 1}));
  }
  NODEWISE_RETURN_IF_ERROR(LowerPrecision(options, *network).status());
  if (precision == Precision::kInt8) MergeQuantization(*network);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> Subject::DrawInputs(
    uint64_t seed) const {
  std::vector<NamedTensor> inputs;
  for (const uint32_t node : graph.arg_nodes) {
    const std::string& input = graph.nodes[node].name;
    const bool is_param =
        std::any_of(params.begin(), params.end(),
                    [&](const NamedTensor& p) { return p.name == input; });
    if (is_param) continue;
    const GraphEntry& entry = graph.entry(graph.EntryOf(NodeId{node}, 0));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              DrawInput(input, entry.shape, entry.dtype, seed));
    inputs.push_back({input, std::move(tensor)});
  }
  return inputs;
}

absl::StatusOr<std::vector<NamedTensor>> DrawInputsOf(const Network& network,
                                                      uint64_t seed) {
  std::vector<NamedTensor> inputs;
  for (const ValueId id : network.inputs()) {
    const NetworkValue& input = network.value(id);
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        DrawInput(input.name, *input.type.sizes(), input.type.dtype, seed));
    inputs.push_back({input.name, std::move(tensor)});
  }
  return inputs;
}

absl::StatusOr<LoadedModel> LoadModel(std::string_view name,
                                      const SubjectFolders& folders) {
  NODEWISE_ASSIGN_OR_RETURN(const Wanted wanted, ParseName(name));
  if (!wanted.network.starts_with(kLight)) return BadName(name, name);
  return ReadModel(wanted, folders.models);
}

absl::StatusOr<Subject> MakeSubject(std::string_view name,
                                    const SubjectFolders& folders) {
  NODEWISE_ASSIGN_OR_RETURN(const Wanted wanted, ParseName(name));
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            MakeNetwork(wanted, folders.models));
  if (wanted.precision.has_value()) {
    NODEWISE_RETURN_IF_ERROR(
        ChangeTo(*wanted.precision, wanted.seed, &network));
  }
  // Nothing but plain layouts can be written as C.
  const Backend layouts =
      wanted.is_compiled ? Backend::kReference : wanted.backend;
  LowerOptions options = LoweringFor(AllOperators(), layouts);
  options.fuse = wanted.fuse;
  NODEWISE_ASSIGN_OR_RETURN(Lowered lowered, Lower(network, "net", options));
  Subject subject{std::string(name), std::move(lowered.graph), nullptr,
                  std::move(lowered.params)};
  if (!wanted.is_compiled) {
    subject.library = BuiltInFunctions(AllOperators(), wanted.backend);
    return subject;
  }
  NODEWISE_ASSIGN_OR_RETURN(
      CompiledNetwork compiled,
      CompileNetwork(subject.graph, AllOperators(), folders.scratch));
  subject.graph = std::move(compiled.graph);
  subject.library = std::move(compiled.library);
  return subject;
}

absl::StatusOr<RunnerMaker> SubjectTarget::Maker() const {
  return MakerOf("debug", {target->name(), target});
}

absl::StatusOr<RunnerMaker> SubjectTarget::PrivateMaker() const {
  const Artefact& artefact = target->artefact();
  NODEWISE_ASSIGN_OR_RETURN(
      auto apart, GraphTarget::FromArtefact(target->name(),
                                            {WithPrivateStorage(artefact.graph),
                                             artefact.library, artefact.params},
                                            target->devices()));
  return MakerOf("debug", {target->name(), std::move(apart)});
}

absl::StatusOr<SubjectTarget> TargetOf(const std::string& name, Graph graph,
                                       Ref<Library> library,
                                       const std::vector<NamedTensor>& params) {
  SubjectTarget made;
  NODEWISE_ASSIGN_OR_RETURN(
      made.target,
      GraphTarget::FromArtefact(
          name, {std::move(graph), std::move(library), Params{params}},
          {kHost}));
  NODEWISE_ASSIGN_OR_RETURN(made.plan,
                            PlanStorage(made.target->graph(), kDLCPU));
  return made;
}

}  // namespace nodewise
