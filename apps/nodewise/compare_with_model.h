#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/model_options.h"

namespace nodewise {

// Locates in what a run of a compiled network made, which is read from its
// dump: nothing of it runs. The document has `culprits` and `verdicts`, as that
// of `locate`, for one set of inputs, and `dump` and `model`.
absl::Status CompareDumpWithModel(const std::string& dump,
                                  const std::string& model,
                                  const ModelOptions& options,
                                  Outcome* outcome);

}  // namespace nodewise
