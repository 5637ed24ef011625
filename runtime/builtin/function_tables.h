#pragma once

#include "absl/types/span.h"
#include "nodewise/func/registry.h"

namespace nodewise {

// The named functions of this build, one table for each subject.
absl::Span<const FunctionRow> ArrayFunctions();
absl::Span<const FunctionRow> ContainerFunctions();
absl::Span<const FunctionRow> ModuleFunctions();
absl::Span<const FunctionRow> RuntimeFunctions();
absl::Span<const FunctionRow> SortFunctions();
absl::Span<const FunctionRow> TimingFunctions();

}  // namespace nodewise
