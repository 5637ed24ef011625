#include <utility>

#include "nodewise/ir/network_text.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Sizes and frozen inputs are given to a network as the import gives them to a
// model.
absl::StatusOr<Network> LoadText(const std::string& path,
                                 const ModelSpec& spec) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data, LoadNetworkText(path));
  auto network = Network::FromData(std::move(data));
  if (!network.ok()) return At(path, network.status());
  for (const auto& [name, size] : spec.dims) {
    const absl::Status status = network->BindDim(name, size);
    if (!status.ok()) return At(path, status);
  }
  for (const NamedTensor& frozen : spec.freeze) {
    const auto input = network->FindValue(frozen.name);
    const absl::Status status =
        input.ok() ? network->Freeze(*input, frozen.tensor) : input.status();
    if (!status.ok()) return At(path, status);
  }
  return network;
}

}  // namespace

absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelSpec& spec,
                                  DiagnosticList* diagnostics) {
  if (!IsModel(path)) return LoadText(path, spec);
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

}  // namespace nodewise
