#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/precision/precision.h"
#include "nodewise/precision/sensitivity.h"

namespace nodewise {

// Whether a model is to compute in a lower precision, and in which.
struct PrecisionChoice {
  std::string precision;               // Empty: as it is.
  std::vector<std::string> calibrate;  // Files, folders or random:SEED.
  std::string calibration;
  std::string keep;
  // Set by a verb that shows them: each costs runs of the reference.
  bool measure_errors = false;
  bool sensitivity = false;
};

void AddPrecisionOptions(OptionList* options, PrecisionChoice* choice);

// Fails with kInvalidArgument if any is given with a target that is not a
// model.
absl::Status CheckNoPrecisionChoice(const PrecisionChoice& choice,
                                    const std::string& target);

// Returns the files with sample inputs that are not folders: models take their
// open sizes from them.
std::vector<InputFile> CalibrationFilesOf(const PrecisionChoice& choice);

// What has been done to a model.
struct PrecisionResult {
  PrecisionReport report;
  QuantizationReport merges;  // Of int8.
  size_t samples = 0;
  std::vector<ValueError> errors;  // With `measure_errors` and samples.
  std::optional<Sensitivity> sensitivity;
  std::string keep;  // What was kept already.
};

// Puts the network in the chosen precision, if one is chosen; returns null if
// none is. Fails with kInvalidArgument for options that mean nothing without
// another. All faults of sample inputs go into the outcome, which is then
// kError.
absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionChoice& choice, Network* network, Outcome* outcome);

// Shows all of it; and in one line, for verbs that have other things to show.
void ShowPrecision(const PrecisionResult& result, Outcome* outcome);
std::string PrecisionLine(const PrecisionResult& result);

}  // namespace nodewise
