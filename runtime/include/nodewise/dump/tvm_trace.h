#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Writes the trace of a dump as TVM does: one line with a B and an E event for
// each node, inputs too. The nodes follow each other from 0, each as long as
// `times`, which is indexed by node, says. Hands the text to `write` in pieces.
void WriteTvmTrace(const Graph& graph, absl::Span<const NodeTime> times,
                   absl::FunctionRef<void(std::string_view)> write);

// Return parts of a Chrome trace: a string as Python's json.dumps() writes it,
// in ASCII alone, and microseconds as Python prints them, to the nanosecond:
// "12.0", "0.25". REQUIRES: `ns` is not negative.
std::string TraceString(std::string_view text);
std::string TraceMicroseconds(int64_t ns);

}  // namespace nodewise
