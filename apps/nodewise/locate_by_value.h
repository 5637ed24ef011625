#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/model_options.h"

namespace nodewise {

// Adds --special-inputs; and what is said of it where no values are compared
// with a model's.
void AddSpecialInputs(OptionList* options, bool* has_special);
absl::Status SpecialInputsMeanNothing();
absl::Status SetsMeanNothing();  // The same of --sets.

// Returns whether no node of the target says what it computes, as those of
// other compilers do not: then a model is its reference by the values alone.
bool SaysNothing(const Session& loaded);

// Locates in a target whose nodes say nothing, beside the model that it was
// compiled from. The document has `culprits` and `verdicts`, as that of a
// target whose nodes do, and `model`; with `repro`, which may be empty, each
// culprit becomes a folder in there.
absl::Status LocateByValueIn(const Session& loaded, const std::string& model,
                             const ModelOptions& options,
                             const SetsOfInputs& sets, const std::string& repro,
                             Outcome* outcome);

}  // namespace nodewise
