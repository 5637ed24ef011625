#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/check.h"
#include "tests/fuzz/memory_limit.h"

namespace {

using nodewise::DiagnosticList;
using nodewise::Graph;

// Does everything that is done to a graph before it runs.
bool ParseAndPlan(std::string_view text, Graph* graph) {
  DiagnosticList diagnostics;
  const bool sound =
      ParseGraph({"fuzz.json", text, nullptr}, graph, &diagnostics);
  NODEWISE_CHECK(sound == !diagnostics.HasErrors());
  if (sound) {
    const auto plan = PlanStorage(*graph, kDLCPU);
    if (plan.ok()) CheckPlan(*graph, *plan, &diagnostics);
  }
  for (const nodewise::Diagnostic& diagnostic : diagnostics.items()) {
    NODEWISE_CHECK(!diagnostic.ToString().empty());
  }
  return sound;
}

}  // namespace

// Any text gives faults, or a graph that is written in the same way again when
// it is read back. The memory limit applies only to reading: the written text
// may be much longer than a dense one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Graph graph;
  {
    const nodewise::MemoryLimit limit(size);
    if (!ParseAndPlan({reinterpret_cast<const char*>(data), size}, &graph)) {
      return 0;
    }
  }
  const std::string written = WriteGraph(graph);
  const auto again = nodewise::ParseGraph({"again.json", written, nullptr});
  NODEWISE_CHECK(again.ok());
  NODEWISE_CHECK(WriteGraph(*again) == written);
  return 0;
}
