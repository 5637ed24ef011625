#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr double kLimit = 1.5;
constexpr int kRounds = 7;
constexpr int kNodes = 100000;

// dmlc's writer, which Relay uses, puts each number of an entry on a line of
// its own and a space after each comma.
std::string EntryText(int node) {
  return fmt::format(
      "        [\n          {}, \n          0, \n          0\n        ]", node);
}

std::string InputText(int node) {
  return fmt::format(
      "    {{\n      \"op\": \"null\", \n      \"name\": \"p{}\", \n"
      "      \"inputs\": []\n    }}",
      node);
}

std::string FunctionText(int node, int first, int second) {
  const std::string name =
      fmt::format("tvmgen_default_fused_nn_conv2d_add_nn_relu_{}", node);
  return fmt::format(
      "    {{\n      \"op\": \"tvm_op\", \n      \"name\": \"{}\", \n"
      "      \"attrs\": {{\n        \"num_outputs\": \"1\", \n"
      "        \"num_inputs\": \"2\", \n        \"flatten_data\": \"0\", \n"
      "        \"func_name\": \"{}\", \n        \"hash\": \"{:016x}\"\n"
      "      }}, \n      \"inputs\": [\n{}, \n{}\n      ]\n    }}",
      name, name, node, EntryText(first), EntryText(second));
}

// Lists are written with one item in each line too.
template <typename Item>
std::string ListText(int count, Item item) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}\n        {}", i > 0 ? ", " : "", item(i));
  }
  return text + "\n      ]";
}

// Input 0, then a parameter and a function of it and the node before in turns.
bool IsInput(int node) { return node == 0 || node % 2 == 1; }

// Functions share three blocks of memory, as the compiler's plan has it.
int StorageOf(int node) { return IsInput(node) ? node + 3 : node / 2 % 3; }

std::string NodesText() {
  std::string text;
  for (int n = 0; n < kNodes; ++n) {
    text += n > 0 ? ", \n" : "";
    text += IsInput(n) ? InputText(n) : FunctionText(n, n - 2, n - 1);
  }
  return text;
}

std::string GraphJson() {
  const auto attr = [](const char* key, const char* tag, auto item) {
    return fmt::format("    \"{}\": [\n      \"{}\", \n      {}\n    ]", key,
                       tag, ListText(kNodes, item));
  };
  const auto number = [](int n) { return std::to_string(n); };
  const std::string attrs = absl::StrJoin(
      {attr("dltype", "list_str", [](int) { return "\"float32\""; }),
       attr("storage_id", "list_int",
            [&](int n) { return number(StorageOf(n)); }),
       attr("shape", "list_shape", [](int) { return "[1, 64, 56, 56]"; })},
      ", \n");
  const int inputs = 1 + kNodes / 2;
  return fmt::format(
      "{{\n  \"nodes\": [\n{}\n  ], \n  \"arg_nodes\": {}, \n"
      "  \"heads\": [\n{}\n  ], \n  \"attrs\": {{\n{}\n  }}, \n"
      "  \"node_row_ptr\": {}\n}}",
      NodesText(),
      ListText(inputs, [&](int i) { return number(i == 0 ? 0 : 2 * i - 1); }),
      EntryText(kNodes - 2), attrs, ListText(kNodes + 1, number));
}

}  // namespace

bool BenchParse(const std::string& name) {
  const std::string text = GraphJson();
  // What either side makes is destroyed outside of its time.
  Graph graph;
  const auto ours = [&] {
    return NanosecondsOf([&] {
      DiagnosticList diagnostics;
      Graph parsed;
      NODEWISE_CHECK(
          ParseGraph({"graph.json", text, nullptr}, &parsed, &diagnostics));
      const auto plan = PlanStorage(parsed, kDLCPU);
      NODEWISE_CHECK(plan.ok());
      CheckPlan(parsed, *plan, &diagnostics);
      NODEWISE_CHECK(diagnostics.items().empty());
      std::swap(graph, parsed);
    });
  };
  nlohmann::json document;
  const auto baseline = [&] {
    document = nullptr;
    return NanosecondsOf([&] { document = nlohmann::json::parse(text); });
  };
  return RunContest({name, kLimit, kRounds,
                     [&] {
                       graph = Graph();
                       return ours();
                     },
                     baseline});
}

}  // namespace nodewise
