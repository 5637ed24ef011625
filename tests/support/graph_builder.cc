#include "tests/support/graph_builder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

Json RefJson(const EntryRef& ref) { return {ref.node, ref.output, 0}; }

Json RefsJson(const std::vector<EntryRef>& refs) {
  Json list = Json::array();
  for (const EntryRef& ref : refs) list.push_back(RefJson(ref));
  return list;
}

// The graph's attributes, each a pair of a tag and a list.
Json AttrsJson(const std::vector<TensorSpec>& entries) {
  Json shapes = Json::array();
  Json dtypes = Json::array();
  Json ids = Json::array();
  Json devices = Json::array();
  bool has_devices = false;
  for (const TensorSpec& entry : entries) {
    shapes.push_back(entry.shape);
    dtypes.push_back(entry.dtype);
    ids.push_back(entry.storage_id < 0 ? static_cast<int64_t>(ids.size())
                                       : entry.storage_id);
    devices.push_back(entry.device_type == 0 ? 1 : entry.device_type);
    has_devices = has_devices || entry.device_type != 0;
  }
  Json attrs = {{"shape", Json::array({"list_shape", shapes})},
                {"dltype", Json::array({"list_str", dtypes})},
                {"storage_id", Json::array({"list_int", ids})}};
  if (has_devices) attrs["device_index"] = Json::array({"list_int", devices});
  return attrs;
}

// Returns the parent of the value that a path names, and that value's key.
std::pair<Json*, std::string> Around(Json* json, const std::string& path) {
  const Json::json_pointer pointer(path);
  return {&json->at(pointer.parent_pointer()), pointer.back()};
}

void Remove(Json* json, const std::string& path) {
  const auto [around, key] = Around(json, path);
  if (around->is_array()) {
    around->erase(std::stoul(key));
  } else {
    NODEWISE_CHECK(around->erase(key) == 1);
  }
}

}  // namespace

GraphBuilder& GraphBuilder::Input(const std::string& name, TensorSpec spec) {
  nodes_.push_back({name, "", {}, {}, 1});
  entries_.push_back(std::move(spec));
  return *this;
}

GraphBuilder& GraphBuilder::Op(const std::string& name,
                               const std::string& function,
                               const std::vector<std::string>& inputs,
                               const std::vector<TensorSpec>& outputs) {
  Node node{name, function, {}, {}, outputs.size()};
  for (const std::string& input : inputs) node.inputs.push_back(Find(input));
  node.attrs = {{"func_name", function},
                {"num_inputs", std::to_string(inputs.size())},
                {"num_outputs", std::to_string(outputs.size())},
                {"flatten_data", "0"}};
  nodes_.push_back(std::move(node));
  entries_.insert(entries_.end(), outputs.begin(), outputs.end());
  return *this;
}

GraphBuilder& GraphBuilder::Attr(const std::string& key,
                                 const std::string& value) {
  auto& attrs = nodes_.back().attrs;
  const auto known =
      std::find_if(attrs.begin(), attrs.end(),
                   [&](const auto& a) { return a.first == key; });
  if (known != attrs.end()) {
    known->second = value;
  } else {
    attrs.emplace_back(key, value);
  }
  return *this;
}

GraphBuilder& GraphBuilder::Head(const std::string& output) {
  heads_.push_back(Find(output));
  return *this;
}

GraphBuilder& GraphBuilder::Without(const std::string& path) {
  edits_.emplace_back(path, "");
  return *this;
}

GraphBuilder& GraphBuilder::With(const std::string& path,
                                 const std::string& json) {
  edits_.emplace_back(path, json);
  return *this;
}

EntryRef GraphBuilder::Find(const std::string& output) const {
  const size_t colon = output.find(':');
  const std::string name = output.substr(0, colon);
  EntryRef ref;
  if (colon != std::string::npos) {
    ref.output = static_cast<uint32_t>(std::stoul(output.substr(colon + 1)));
  }
  if (name[0] == '#') {
    ref.node = static_cast<uint32_t>(std::stoul(name.substr(1)));
    return ref;
  }
  const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const Node& n) { return n.name == name; });
  NODEWISE_CHECK(node != nodes_.end());
  ref.node = static_cast<uint32_t>(node - nodes_.begin());
  return ref;
}

std::string GraphBuilder::Text() const {
  Json nodes = Json::array();
  Json args = Json::array();
  Json rows = {0};
  for (const Node& node : nodes_) {
    Json json = {{"op", node.function.empty() ? "null" : "tvm_op"},
                 {"name", node.name}};
    for (const auto& [key, value] : node.attrs) json["attrs"][key] = value;
    json["inputs"] = RefsJson(node.inputs);
    if (node.function.empty()) args.push_back(nodes.size());
    nodes.push_back(std::move(json));
    rows.push_back(rows.back().get<size_t>() + node.num_outputs);
  }
  Json graph = {{"nodes", nodes},
                {"arg_nodes", args},
                {"heads", RefsJson(heads_)},
                {"attrs", AttrsJson(entries_)},
                {"node_row_ptr", rows}};
  for (const auto& [path, json] : edits_) {
    if (json.empty()) {
      Remove(&graph, path);
    } else {
      graph[Json::json_pointer(path)] = Json::parse(json);
    }
  }
  return graph.dump(2);
}

GraphText GraphBuilder::File() const { return GraphFile(Text()); }

Graph GraphBuilder::Build() const {
  auto graph = ParseGraph(File());
  return *std::move(graph);  // Ends the test if it is not sound.
}

GraphBuilder AddThenRelu() {
  return GraphBuilder()
      .Input("x")
      .Input("y")
      .Op("add0", "add", {"x", "y"})
      .Op("relu0", "relu", {"add0"})
      .Head("relu0");
}

GraphText GraphFile(const std::string& text) {
  return GraphText::FromString("graph.json", text);
}

std::vector<std::string> DiagnosticsOf(GraphText text) {
  Graph graph;
  DiagnosticList diagnostics;
  ParseGraph(std::move(text), &graph, &diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

}  // namespace nodewise
