#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "apps/network-debugger/flags.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/onnx/onnx_model.h"

namespace nodewise {

// A backend, and the network as it is compiled for both sides.
struct OpenedBackend {
  LayerModule mod;
  LayerBackend backend;
};

// Opens what -backend names: one of LayerBackendNames(), "c", which is compiled
// here, "ort" and "onnx", which adapters run, or "exec:COMMAND". Fails with
// kNotFound for another name, with kUnimplemented for operations that there is
// no C for, and with kUnavailable if they cannot be compiled.
absl::StatusOr<OpenedBackend> OpenBackend(const DebuggerFlags& flags,
                                          const Network& network,
                                          std::vector<ImportedCall> calls);

}  // namespace nodewise
