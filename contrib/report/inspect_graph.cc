#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// How much of an unknown attribute is shown.
constexpr size_t kShownBytes = 60;

// Adds the title of a list and the list.
void AddTable(const std::string& title, const std::string& count,
              const TextTable& table, Inspection* inspection) {
  AddLine(title, count, inspection);
  inspection->text.Add(table, 4, inspection->max_lines);
}

void DescribeNodes(const Graph& graph, Inspection* inspection) {
  // Functions in the order of their first use.
  std::vector<std::string> names;
  std::map<std::string, uint64_t> uses;
  uint64_t calls = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    ++calls;
    if (++uses[node.function] == 1) names.push_back(node.function);
  }
  AddLine("nodes",
          CountOf(calls, "function node") + ", " +
              CountOf(graph.nodes.size() - calls, "input"),
          inspection);
  inspection->json.Add("nodes", uint64_t{graph.nodes.size()});
  inspection->json.Add("function_nodes", calls);
  TextTable table;
  inspection->json.BeginArray("functions");
  for (const std::string& name : names) {
    table.AddRow({name, fmt::format("x{}", uses[name])});
    inspection->json.BeginObject();
    inspection->json.Add("name", name);
    inspection->json.Add("uses", uses[name]);
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  AddTable("functions", fmt::format("{}", names.size()), table, inspection);
}

void AddEntry(const std::string& name, const GraphIndex& index, EntryId id,
              Inspection* inspection) {
  const GraphEntry& entry = index.graph().entry(id);
  inspection->json.BeginObject();
  inspection->json.Add("name", name);
  inspection->json.Add("dtype", ToString(entry.dtype));
  inspection->json.Add("shape", entry.shape);
  inspection->json.Add("bytes", uint64_t{index.BytesOf(id)});
}

void DescribeInputs(const GraphIndex& index, const ParamNames& params,
                    Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  uint64_t num_params = 0;
  uint64_t param_bytes = 0;
  inspection->json.BeginArray("inputs");
  for (const uint32_t n : graph.arg_nodes) {
    const std::string& name = graph.nodes[n].name;
    const EntryId id = graph.EntryOf(NodeId{n}, 0);
    const GraphEntry& entry = graph.entry(id);
    const bool is_param = params.has_value() && params->count(name) > 0;
    num_params += is_param ? 1 : 0;
    param_bytes += is_param ? index.BytesOf(id) : 0;
    table.AddRow({name, TypeToString(entry.shape, entry.dtype),
                  is_param ? "parameter" : ""});
    AddEntry(name, index, id, inspection);
    // Without a params file, inputs and parameters look alike.
    inspection->json.AddScalar("is_param", !params.has_value() ? "null"
                                           : is_param          ? "true"
                                                               : "false");
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  std::string count = fmt::format("{}", graph.arg_nodes.size());
  if (params.has_value()) {
    count += fmt::format(", of which {} ({})", CountOf(num_params, "parameter"),
                         CountOf(param_bytes, "byte"));
    inspection->json.Add("param_bytes", param_bytes);
  } else {
    count += ", inputs and parameters (no params file to tell them apart)";
  }
  AddTable("inputs", count, table, inspection);
}

void DescribeOutputs(const GraphIndex& index, Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  inspection->json.BeginArray("outputs");
  for (const EntryRef& head : graph.heads) {
    const EntryId id = graph.EntryOf(head);
    const GraphEntry& entry = graph.entry(id);
    std::string name = graph.nodes[head.node].name;
    if (graph.OutputsOf(NodeId{head.node}) > 1) {
      name += fmt::format(":{}", head.output);
    }
    table.AddRow({name, TypeToString(entry.shape, entry.dtype)});
    AddEntry(name, index, id, inspection);
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  AddTable("outputs", fmt::format("{}", graph.heads.size()), table, inspection);
}

void AddSlot(const StorageSlot& slot, uint64_t users, TextTable* table,
             Inspection* inspection) {
  const std::string device = DeviceTypeName(slot.device_type);
  table->AddRow({fmt::format("storage {}", slot.storage_id),
                 CountOf(slot.bytes, "byte"), "for " + CountOf(users, "tensor"),
                 "on " + device, slot.scope});
  inspection->json.BeginObject();
  inspection->json.AddScalar("storage_id", fmt::format("{}", slot.storage_id));
  inspection->json.Add("bytes", uint64_t{slot.bytes});
  inspection->json.Add("tensors", users);
  inspection->json.Add("device", device);
  inspection->json.Add("scope", slot.scope);
  inspection->json.EndObject();
}

void DescribeStorage(const Graph& graph, Inspection* inspection) {
  const auto plan = PlanStorage(graph, kDLCPU);
  if (!plan.ok()) {
    AddLine("storage", Printable(MessageOf(plan.status())), inspection);
    return;
  }
  const GraphIndex index(graph, *plan);
  TextTable table;
  uint64_t bytes = 0;
  uint64_t tensor_bytes = 0;
  inspection->json.BeginArray("storage");
  for (uint32_t s = 0; s < plan->slots.size(); ++s) {
    const auto tensors = index.TensorsIn(s);
    for (const EntryId tensor : tensors) tensor_bytes += index.BytesOf(tensor);
    bytes += plan->slots[s].bytes;
    AddSlot(plan->slots[s], tensors.size(), &table, inspection);
  }
  inspection->json.EndArray();
  inspection->json.Add("storage_bytes", bytes);
  inspection->json.Add("tensor_bytes", tensor_bytes);
  AddTable("storage",
           fmt::format("{}, {} ({} without sharing)",
                       CountOf(plan->slots.size(), "slot"),
                       CountOf(bytes, "byte"), CountOf(tensor_bytes, "byte")),
           table, inspection);
}

void DescribeAttributes(const Graph& graph, Inspection* inspection) {
  inspection->json.Add("has_device_index", graph.has_device_index);
  inspection->json.BeginArray("other_attributes");
  std::vector<std::string> lines;
  for (const auto& [key, value] : graph.other_attrs) {
    lines.push_back(key + " " + value.substr(0, kShownBytes) +
                    (value.size() > kShownBytes ? " ..." : ""));
    inspection->json.BeginObject();
    inspection->json.Add("key", key);
    inspection->json.Add("json", value);
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  if (!lines.empty()) AddList("other attributes", lines, inspection);
}

}  // namespace

void DescribeGraph(const Graph& graph, const ParamNames& params,
                   Inspection* inspection) {
  DescribeNodes(graph, inspection);
  const GraphIndex index(graph);
  DescribeInputs(index, params, inspection);
  DescribeOutputs(index, inspection);
  DescribeStorage(graph, inspection);
  DescribeAttributes(graph, inspection);
}

absl::Status InspectGraph(const std::string& path, const ParamNames& params,
                          Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(GraphText text, GraphText::FromFile(path));
  const uint64_t bytes = text.text.size();
  NODEWISE_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(std::move(text)));
  inspection->text += fmt::format("{}: graph JSON, {}\n", Printable(path),
                                  CountOf(bytes, "byte"));
  inspection->json.Add("kind", "graph");
  inspection->json.Add("bytes", bytes);
  DescribeGraph(graph, params, inspection);
  return absl::OkStatus();
}

}  // namespace nodewise
