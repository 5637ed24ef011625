#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// The passes that can be asked for by name.
struct PassRow {
  std::string_view name;  // "merge_quantised"
  std::string_view what;  // What it does, for listings.
  // `report` may be null; a pass that has none leaves it as it is. REQUIRES: it
  // outlives the pass.
  Pass (*make)(QuantizationReport* report);
};
absl::Span<const PassRow> PassRows();

// Returns the rows of a list of names with commas between them, in its order;
// a name may stand there twice. Fails with kInvalidArgument, with all names
// that there are, for one that there is not, or for an empty list.
absl::StatusOr<std::vector<const PassRow*>> ParsePassList(
    std::string_view list);

}  // namespace nodewise
