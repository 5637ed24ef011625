// What reading a graph costs in memory at worst. Each text is read in a process
// of its own, whose peak is then known.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "nodewise/graph/graph_json.h"
#include "nodewise/support/machine.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

constexpr size_t kTextBytes = size_t{30} << 20;

// `before`, then `item` until the text has 30 MB, then `after`.
std::string Dense(const std::string& before, const std::string& item,
                  const std::string& after) {
  std::string text = before;
  text.reserve(kTextBytes + before.size() + after.size());
  while (text.size() < kTextBytes) text += item;
  while (text.back() == ',') text.pop_back();
  return text + after;
}

size_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss);
}

// Whether reading the text takes at most ten times its size and 64 MiB.
bool ReadsWithinLimit(const GraphText& file) {
  const size_t before = PeakKilobytes();
  Graph graph;
  DiagnosticList diagnostics;
  ParseGraph(file, &graph, &diagnostics);
  const size_t used = (PeakKilobytes() - before) << 10;
  const size_t limit = 10 * file.text.size() + (size_t{64} << 20);
  if (used <= limit) return true;
  std::fprintf(stderr, "took %zu MiB of %zu\n", used >> 20, limit >> 20);
  return false;
}

// Runs ReadsWithinLimit in a process of its own; false also if that dies.
bool ReadsWithinLimitApart(const std::string& text) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(ReadsWithinLimit({"graph.json", text, nullptr}) ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

struct DenseCase {
  const char* name;
  const char* before;
  const char* item;
  const char* after;
};

class GraphMemoryTest : public testing::TestWithParam<DenseCase> {};

TEST_P(GraphMemoryTest, DenseTextStaysWithinTenTimesItsSize) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const auto& [name, before, item, after] = GetParam();
  const std::string text = Dense(before, item, after);
  EXPECT_TRUE(ReadsWithinLimitApart(text));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, GraphMemoryTest,
    testing::Values(
        DenseCase{"Nodes", R"({"nodes": [)", "{},", "]}"},
        DenseCase{"NodeInputs", R"({"nodes": [{"inputs": [)", "[],", "]}]}"},
        DenseCase{"NodeAttrs", R"({"nodes": [{"attrs": {)", R"("":"",)",
                  "}}]}"},
        DenseCase{"ControlDeps", R"({"nodes": [{"control_deps": [)", "1,",
                  "]}]}"},
        DenseCase{"WrongArgNodes", R"({"arg_nodes": [)", "-1,", "]}"},
        DenseCase{"Heads", R"({"heads": [)", "[0,0],", "]}"},
        DenseCase{"Shapes", R"({"attrs": {"shape": ["list_shape", [)", "[],",
                  "]]}}"},
        DenseCase{"Shape", R"({"attrs": {"shape": ["list_shape", [[)", "1,",
                  "]]]}}"},
        DenseCase{"WrongTypes", R"({"attrs": {"dltype": ["list_str", [)",
                  R"("a","b",)", "]]}}"},
        DenseCase{"Scopes", R"({"attrs": {"storage_scope": ["list_str", [)",
                  R"("",)", "]]}}"},
        DenseCase{"OtherAttrs", R"({"attrs": {)", R"("":[],)", "}}"},
        DenseCase{"LineEnds", "", "\n", "["},
        DenseCase{"Nesting", "", "[", ""}),
    [](const auto& test) { return std::string(test.param.name); });

// A graph whose lists agree, with a fault in every entry.
TEST(GraphDiagnosticMemoryTest, FaultInEveryEntryStaysWithinTenTimesTheText) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const size_t count = kTextBytes / 15;
  const auto list = [&](const std::string& item) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + item;
    return text;
  };
  const std::string number = std::to_string(count);
  const std::string text =
      R"({"nodes": [{"op": "tvm_op", "name": "f", "inputs": [], "attrs":)"
      R"({"func_name": "f", "num_inputs": "0", "flatten_data": "0",)"
      R"("num_outputs": ")" +
      number + R"("}}], "arg_nodes": [], "heads": [], "node_row_ptr": [0,)" +
      number + R"(], "attrs": {"shape": ["list_shape", [)" + list("[]") +
      R"(]], "dltype": ["list_str", [)" + list(R"("int8")") +
      R"(]], "storage_id": ["list_int", [)" + list("-1") + "]]}}";
  EXPECT_TRUE(ReadsWithinLimitApart(text));
}

}  // namespace
}  // namespace nodewise
