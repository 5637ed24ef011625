#include <climits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contrib/onnx/graph_exporter.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The IR version that came with an opset, but at least 4: before that every
// constant had to be an input too.
struct IrVersion {
  int since_opset;
  int version;
};
constexpr IrVersion kIrVersions[] = {
    {28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
    {15, 8},  {12, 7},  {11, 6},  {10, 5},  {0, 4},
};

int IrVersionOf(int opset) {
  for (const IrVersion& row : kIrVersions) {
    if (opset >= row.since_opset) return row.version;
  }
  return std::end(kIrVersions)[-1].version;
}

// Returns the versions of a model: those of the network, and those that opaque
// operations had in theirs.
std::vector<std::pair<std::string, int>> OpsetsOf(
    const Network& network, std::map<std::string, int> opaque) {
  std::vector<std::pair<std::string, int>> opsets;
  for (auto [domain, version] : network.data().opsets) {
    const auto kept = opaque.find(domain);
    if (kept == opaque.end() && domain == kOpaqueDomain) continue;
    if (kept != opaque.end()) {
      version = kept->second;
      opaque.erase(kept);
    }
    opsets.emplace_back(std::move(domain), version);
  }
  opsets.insert(opsets.end(), opaque.begin(), opaque.end());
  return opsets;
}

}  // namespace

absl::StatusOr<std::string> ExportOnnx(const Network& network) {
  proto::Model model;
  model.set_producer_name("nodewise");
  GraphExporter exporter(network, nullptr, {});
  NODEWISE_RETURN_IF_ERROR(exporter.Export(model.mutable_graph()));
  const std::vector<std::pair<std::string, int>> opsets =
      OpsetsOf(network, exporter.opaque_opsets());
  int opset = 0;
  for (const auto& [domain, version] : opsets) {
    proto::OperatorSetId* const import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
    if (domain.empty()) opset = version;
  }
  model.set_ir_version(IrVersionOf(opset));
  const size_t bytes = model.ByteSizeLong();
  if (bytes > INT_MAX) {
    return absl::InvalidArgumentError(fmt::format(
        "network {}: takes {} bytes as a model, expected less than 2 GiB "
        "(extract a part of it)",
        network.name(), bytes));
  }
  return model.SerializeAsString();
}

}  // namespace nodewise
