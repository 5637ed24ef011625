#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/session/target_spec.h"

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

// Returns what they mean. Fails with kInvalidArgument for a text that cannot be
// read, and for an option that means nothing without another.
absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice& choice);

}  // namespace nodewise
