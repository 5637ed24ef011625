#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/diagnose/question.h"

namespace nodewise {

// --sets N
CommandOption SetsOption(std::optional<uint64_t>* sets);

// Returns what a REF on the command line means: a model, another build, another
// program, a dump, or the definitions of the operators ("interpreter", and "").
// How models are read and lowered is as the options say. Fails as SpecOf().
absl::StatusOr<Reference> ReferenceNamed(const std::string& text,
                                         const LoadOptions& load,
                                         const ForeignOptions& foreign);

// Returns builds in their order. Libraries go with the graph and the parameters
// of `load`'s target; all else is a target of its own.
absl::StatusOr<Reference> ParseBuildSeries(
    const std::vector<std::string>& builds, const LoadOptions& load);

}  // namespace nodewise
