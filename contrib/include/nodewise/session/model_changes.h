#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/known_part.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/precision/precision.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/session/target_spec.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// What is opaque in a model that is to run, and what follows.
struct OpaqueReport {
  std::vector<OpaqueOperator> operators;  // Empty: nothing is.
  std::string text;                       // "Foo: 4 operations, Bar: ...".
  std::string program;                    // What runs them; "": nothing does.
  // Without a program: KnownPart.
  std::vector<MissingOutput> missing;
  std::vector<std::string> ends;
  std::vector<ValueId> open;
};

// Has the program of the spec run the opaque operations of this process, if it
// names one. Not thread-safe.
absl::Status UseOpaqueProgram(const ModelSpec& spec);

// Does so; without a program the network becomes its known part. Fails as
// KnownPartOf(), too.
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelSpec& spec,
                                        Network* network);

// What passes did to a model, in their order.
struct PassesReport {
  struct Ran {
    std::string pass;
    std::string text;  // Lines about operations; empty if it tells nothing.
    size_t operations = 0;  // In the network, after it.
  };
  std::vector<Ran> ran;
  std::vector<Finding> left;  // What they have cut off.
};

// Runs the passes of a list (nodewise/passes/pass_list.h). Fails as
// ParsePassList() and RunPasses() do.
absl::StatusOr<PassesReport> RunPassList(const std::string& list,
                                         Network* network);

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
