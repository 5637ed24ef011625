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

}  // namespace

absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelOptions& options,
                                  DiagnosticList* diagnostics) {
  ImportOptions import;
  import.keep_opaque = true;
  import.random_seed = options.seed.value_or(kUsualSeed);
  import.opaque_types = options.opaque_types;
  for (const std::string& text : options.dims) {
    NODEWISE_ASSIGN_OR_RETURN(auto dim, ParseDim(text));
    import.dims.push_back(std::move(dim));
  }
  for (const std::string& text : options.freeze) {
    NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ReadFrozen(text));
    import.freeze.push_back(std::move(tensor));
  }
  return ImportOnnx(path, AllOperators(), import, diagnostics);
}

absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseNetworkText(file.text(), AllOperators(), path);
}

Ref<LoweredLibrary> BuiltIns(Backend backend) {
  return BuiltInFunctions(AllOperators(), backend);
}

LowerOptions LowerOptionsOf(const LoweringOptions& options, Backend backend) {
  LowerOptions lower;
  if (!options.no_layouts) lower = LoweringFor(AllOperators(), backend);
  lower.fuse = !options.no_fuse && !options.reference;
  lower.reuse_storage = !options.no_reuse;
  return lower;
}

absl::StatusOr<EmittedC> EmitModelC(const Graph& graph) {
  return EmitC(graph, AllOperators());
}

}  // namespace nodewise
