#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nodewise/dump/dump.h"
#include "tests/support/graph_builder.h"

namespace nodewise {

// What the tests of dumps share.

inline constexpr char kSubfolder[] = "/_tvmdbg_device_CPU_0";

// An empty folder of this test's own.
inline std::string Folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      (std::string("dump_") + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A tensor for each entry, filled with a number that tells the entries apart.
inline std::vector<NDArray> TensorsOf(const Graph& graph) {
  std::vector<NDArray> tensors;
  for (const GraphEntry& entry : graph.entries) {
    auto tensor = NDArray::Empty(entry.shape, entry.dtype, kCpu).value();
    std::memset(tensor.data(), static_cast<int>(tensors.size()) + 1,
                tensor.bytes());
    tensors.push_back(tensor);
  }
  return tensors;
}

// Writes what a run of the first `num_nodes` nodes would.
inline void Record(const Graph& graph, DumpWriter* writer,
                   uint32_t num_nodes = UINT32_MAX) {
  const std::vector<NDArray> tensors = TensorsOf(graph);
  num_nodes = std::min<uint32_t>(num_nodes, graph.nodes.size());
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind != GraphNode::Kind::kInput) continue;
    writer->Input(NodeId{i}, *tensors[graph.node_row_ptr[i]]);
  }
  for (uint32_t i = 0; i < num_nodes; ++i) {
    if (graph.nodes[i].kind == GraphNode::Kind::kInput) continue;
    std::vector<const DLTensor*> inputs, outputs;
    for (const EntryRef& ref : graph.nodes[i].inputs) {
      inputs.push_back(tensors[Index(graph.EntryOf(ref))].tensor());
    }
    for (uint32_t o = 0; o < graph.OutputsOf(NodeId{i}); ++o) {
      outputs.push_back(tensors[graph.node_row_ptr[i] + o].tensor());
    }
    writer->WillRun(NodeId{i}, inputs, /*is_untouched=*/false);
    writer->DidRun(NodeId{i}, outputs, {10 * i, 10 * i + 5});
  }
}

inline std::vector<NodeTime> TimesOf(const Graph& graph) {
  return std::vector<NodeTime>(graph.nodes.size());
}

// One whole dump.
inline absl::Status WriteDump(const Graph& graph, const RecordOptions& options,
                              uint32_t num_nodes = UINT32_MAX) {
  const auto plan = PlanDump(GraphIndex(graph), options);
  if (!plan.ok()) return plan.status();
  auto writer = DumpWriter::Create(graph, *plan, options, kCpu);
  if (!writer.ok()) return writer.status();
  Record(graph, writer->get(), num_nodes);
  return (*writer)->Close(TimesOf(graph));
}

inline std::vector<std::string> NamesOf(const Params& params) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : params.tensors) names.push_back(entry.name);
  return names;
}

inline std::vector<std::string> KeysOf(
    const std::vector<DumpPlan::Item>& items) {
  std::vector<std::string> keys;
  for (const DumpPlan::Item& item : items) keys.push_back(item.key);
  return keys;
}

// Two nodes with one name, one of them with two outputs.
inline Graph Doubled() {
  return GraphBuilder()
      .Input("x")
      .Op("f", "split", {"x"}, {{.shape = {2}}, {.shape = {3}}})
      .Op("f", "relu", {"#1:1"}, {{.shape = {3}, .dtype = "int8"}})
      .Input("y")
      .Op("g", "__nop", {"#2"}, {{.shape = {1, 3}, .dtype = "int8"}})
      .Head("g")
      .Build();
}

// A chain of n functions over tensors of 256 KiB.
inline Graph LargeChain(int n) {
  GraphBuilder builder;
  const TensorSpec spec{.shape = {65536}};
  builder.Input("x", spec);
  for (int i = 0; i < n; ++i) {
    builder.Op("n" + std::to_string(i), "f",
               {i == 0 ? "x" : "n" + std::to_string(i - 1)}, {spec});
  }
  return builder.Head("n" + std::to_string(n - 1)).Build();
}

}  // namespace nodewise
