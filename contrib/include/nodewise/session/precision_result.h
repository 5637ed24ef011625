#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/precision/precision.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/session/target_spec.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// What has been done to a model whose precision was lowered.
struct PrecisionResult {
  PrecisionReport report;
  QuantizationReport merges;  // For int8.
  size_t samples = 0;
  std::vector<ValueError> errors;  // If they were measured, with samples.
  std::optional<Sensitivity> sensitivity;
  std::string keep;  // What was kept already.
};

// Puts the network in the chosen precision; returns null if none is chosen. All
// faults of sample inputs go into `diagnostics`; the status is the first.
absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionSpec& spec, Network* network, DiagnosticList* diagnostics);

}  // namespace nodewise
