#include <cstdio>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

// Returns a string as JSON that TVM reads too: TVM knows no \u escapes, so only
// what must be escaped is, and bytes above 127 stay as they are.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

// Joins what `item(i)` gives for each i with ", ".
template <typename Item>
std::string Join(size_t count, Item item) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += item(i);
  }
  return text;
}

std::string TextOf(const EntryRef& ref) {
  return fmt::format("[{}, {}, {}]", ref.node, ref.output, ref.version);
}

std::string Refs(const std::vector<EntryRef>& refs) {
  return "[" + Join(refs.size(), [&](size_t i) { return TextOf(refs[i]); }) +
         "]";
}

std::string Numbers(const std::vector<uint32_t>& numbers) {
  return "[" +
         Join(numbers.size(),
              [&](size_t i) { return std::to_string(numbers[i]); }) +
         "]";
}

std::string NodeJson(const GraphNode& node) {
  const bool input = node.kind == GraphNode::Kind::kInput;
  std::string text =
      fmt::format("    {{\n      \"op\": \"{}\",\n      \"name\": {},\n",
                  input ? "null" : "tvm_op", Quote(node.name));
  // TVM wants these four of every node that has attributes.
  if (!input || !node.attrs.empty()) {
    text += fmt::format(
        "      \"attrs\": {{\n"
        "        \"num_outputs\": \"{}\",\n"
        "        \"num_inputs\": \"{}\",\n"
        "        \"flatten_data\": \"{}\",\n"
        "        \"func_name\": {}",
        node.num_outputs, node.num_inputs, node.flatten ? 1 : 0,
        Quote(node.function));
    for (const auto& [key, value] : node.attrs) {
      text += ",\n        " + Quote(key) + ": " + Quote(value);
    }
    text += "\n      },\n";
  }
  if (!node.control_deps.empty()) {
    text += "      \"control_deps\": " + Numbers(node.control_deps) + ",\n";
  }
  return text + "      \"inputs\": " + Refs(node.inputs) + "\n    }";
}

class AttrWriter {
 public:
  explicit AttrWriter(size_t count) : count_(count) {}

  template <typename Item>
  void Add(const char* key, const char* tag, Item item) {
    Raw(key, fmt::format("[\"{}\", [{}]]", tag, Join(count_, item)));
  }
  void Raw(std::string_view key, std::string_view value) {
    text_ += fmt::format("{}    {}: {}", text_.empty() ? "" : ",\n", Quote(key),
                         value);
  }
  const std::string& text() const { return text_; }

 private:
  size_t count_;
  std::string text_;
};

}  // namespace

std::string WriteGraph(const Graph& graph) {
  AttrWriter attrs(graph.entries.size());
  const auto& entries = graph.entries;
  attrs.Add("shape", "list_shape", [&](size_t i) {
    const auto& shape = entries[i].shape;
    return "[" +
           Join(shape.size(),
                [&](size_t d) { return std::to_string(shape[d]); }) +
           "]";
  });
  attrs.Add("storage_id", "list_int",
            [&](size_t i) { return std::to_string(entries[i].storage_id); });
  attrs.Add("dltype", "list_str",
            [&](size_t i) { return Quote(ToString(entries[i].dtype)); });
  if (graph.has_device_index) {
    attrs.Add("device_index", "list_int",
              [&](size_t i) { return std::to_string(entries[i].device_type); });
  }
  if (!graph.storage_scopes.empty()) {
    attrs.Add("storage_scope", "list_str",
              [&](size_t i) { return Quote(graph.storage_scopes[i]); });
  }
  for (const auto& [key, raw] : graph.other_attrs) attrs.Raw(key, raw);

  std::string text = "{\n  \"nodes\": [\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    text += NodeJson(graph.nodes[i]);
    text += i + 1 < graph.nodes.size() ? ",\n" : "\n";
  }
  text += "  ],\n  \"arg_nodes\": " + Numbers(graph.arg_nodes);
  text += ",\n  \"heads\": " + Refs(graph.heads);
  text += ",\n  \"attrs\": {\n" + attrs.text() + "\n  }";
  text += ",\n  \"node_row_ptr\": " + Numbers(graph.node_row_ptr);
  return text + "\n}\n";
}

}  // namespace nodewise
