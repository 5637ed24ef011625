#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// Returns the keys of the function nodes whose name, key or function one of the
// expressions is found in, in the order of the graph; none without expressions.
// Fails with kInvalidArgument for what is not a regular expression of RE2, and
// with kNotFound for one that is found nowhere.
absl::StatusOr<std::vector<std::string>> ChooseNodes(
    const GraphIndex& index, absl::Span<const std::string> expressions);

}  // namespace nodewise
