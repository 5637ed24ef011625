#include <cstddef>
#include <cstdint>
#include <string>

#include "nodewise/ir/origin.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace {

absl::StatusOr<nodewise::Network> Import(absl::Span<const uint8_t> bytes) {
  nodewise::DiagnosticList diagnostics;
  nodewise::ImportOptions options;
  options.keep_opaque = true;
  auto network = nodewise::ImportOnnx(
      bytes, "fuzz.onnx", "", nodewise::AllOperators(), options, &diagnostics);
  NODEWISE_CHECK(!network.ok() || !diagnostics.HasErrors());
  return network;
}

}  // namespace

// Any bytes are an error, or a network without faults that comes back from what
// it would be written as.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto network = Import({data, size});
  if (!network.ok()) return 0;
  NODEWISE_CHECK(nodewise::ToStatus(nodewise::Verify(network->data())).ok());
  for (const nodewise::OperationId id : network->order()) {
    static_cast<void>(nodewise::SourceOf(network->operation(id)));
  }
  const auto bytes = nodewise::ExportOnnx(*network);
  if (!bytes.ok()) return 0;
  NODEWISE_CHECK(
      Import({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()})
          .ok());
  return 0;
}
