#include <climits>
#include <string>

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

}  // namespace

absl::StatusOr<std::string> ExportOnnx(const Network& network) {
  proto::Model model;
  model.set_ir_version(IrVersionOf(network.opset()));
  model.set_producer_name("nodewise");
  for (const auto& [domain, version] : network.data().opsets) {
    proto::OperatorSetId* const import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  NODEWISE_RETURN_IF_ERROR(
      GraphExporter(network, nullptr, {}).Export(model.mutable_graph()));
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
