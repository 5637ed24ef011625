#include <charconv>
#include <utility>

#include "apps/nodewise/model_options.h"
#include "fmt/format.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<std::pair<std::string, int64_t>> ParseDim(
    const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--dim", text, "NAME=N"));
  int64_t size = 0;
  const char* const end = parts.value.data() + parts.value.size();
  const auto [stop, error] = std::from_chars(parts.value.data(), end, size);
  if (error != std::errc() || stop != end || size < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--dim: found \"{}\", expected NAME=N, as in batch=1", text));
  }
  return std::pair(std::move(parts.name), size);
}

absl::StatusOr<NamedTensor> ReadFrozen(const std::string& text) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--freeze", text, "NAME=FILE"));
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            ReadOneTensor(parts.value, {parts.name}));
  return NamedTensor{std::move(parts.name), std::move(tensor)};
}

// Sizes and frozen inputs are given to a network as the import gives them to a
// model.
absl::StatusOr<Network> LoadText(const std::string& path,
                                 const ImportOptions& import) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data, LoadNetworkText(path));
  auto network = Network::FromData(std::move(data));
  if (!network.ok()) return At(path, network.status());
  for (const auto& [name, size] : import.dims) {
    const absl::Status status = network->BindDim(name, size);
    if (!status.ok()) return At(path, status);
  }
  for (const NamedTensor& frozen : import.freeze) {
    const auto input = network->FindValue(frozen.name);
    const absl::Status status =
        input.ok() ? network->Freeze(*input, frozen.tensor) : input.status();
    if (!status.ok()) return At(path, status);
  }
  return network;
}

}  // namespace

absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelOptions& options,
                                  DiagnosticList* diagnostics) {
  ImportOptions import;
  import.keep_opaque = true;
  import.random_seed = options.seed.value_or(kUsualSeed);
  import.opaque_types = options.opaque_types;
  import.report_unused = options.report_unused;
  import.kinds = options.kinds;
  for (const std::string& text : options.dims) {
    NODEWISE_ASSIGN_OR_RETURN(auto dim, ParseDim(text));
    import.dims.push_back(std::move(dim));
  }
  for (const std::string& text : options.freeze) {
    NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ReadFrozen(text));
    import.freeze.push_back(std::move(tensor));
  }
  if (!IsModel(path)) return LoadText(path, import);
  return ImportOnnx(path, AllOperators(), import, diagnostics);
}

absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseNetworkText(file.text(), AllOperators(), path);
}

Ref<LoweredLibrary> BuiltIns(Backend backend,
                             std::shared_ptr<const KernelTable> table) {
  return BuiltInFunctions(AllOperators(), backend, std::move(table));
}

LowerOptions LowerOptionsOf(const LoweringOptions& options, Backend backend) {
  LowerOptions lower;
  if (!options.no_layouts) lower = LoweringFor(AllOperators(), backend);
  lower.fuse = !options.no_fuse && !options.reference;
  lower.reuse_storage = !options.no_reuse;
  lower.makers = KernelMakersOf(backend);
  return lower;
}

absl::StatusOr<EmittedC> EmitModelC(const Graph& graph) {
  return EmitC(graph, AllOperators());
}

}  // namespace nodewise
