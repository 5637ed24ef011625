#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/node_times.h"

namespace nodewise {

// The trace of a dump in TVM's words: one line, a B and an E event for each
// node, inputs too, one after the other from 0, as long as `times` says, by
// node. The text is handed to `write` in pieces.
void WriteTvmTrace(const Graph& graph, absl::Span<const NodeTime> times,
                   absl::FunctionRef<void(std::string_view)> write);

// What Chrome traces are made of: a string as Python's json.dumps() writes it,
// in ASCII alone, and microseconds with all the nanoseconds, none of which is
// negative, as Python prints them: "12.0", "0.25".
std::string TraceString(std::string_view text);
std::string TraceMicroseconds(int64_t ns);

}  // namespace nodewise
