#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/prepared_call.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// The attribute of a node whose function takes numbers besides tensors, as in
// "1=3 2=256": argument 1 is 3, argument 2 is 256.
inline constexpr std::string_view kCallNumbers = "call_numbers";

std::string CallNumbersText(absl::Span<const CallNumber> numbers);

// Returns the numbers of a node that has `tensors` tensors. Fails with
// kInvalidArgument, located, if they cannot be read or leave out an argument.
absl::StatusOr<std::vector<CallNumber>> CallNumbersOf(const Graph& graph,
                                                      NodeId node,
                                                      size_t tensors);

}  // namespace nodewise
