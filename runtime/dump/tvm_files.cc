#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "nodewise/dump/dump.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

// Rewrites a node as TVM does. Existing keys keep their place, new ones follow.
// TVM's debugger replaces each reference by the name of the node and adds the
// type and the shape of output 0.
void RewriteNode(const Graph& graph, NodeId id, Json* json) {
  const GraphNode& node = graph.node(id);
  const bool is_function = node.kind == GraphNode::Kind::kFunction;
  Json inputs = Json::array();
  for (const EntryRef& ref : node.inputs) {
    inputs.push_back(graph.nodes[ref.node].name);
  }
  (*json)["inputs"] = std::move(inputs);
  (*json)["op"] = is_function ? node.function : "param";
  Json& attrs = (*json)["attrs"];
  if (!attrs.is_object()) attrs = Json::object();
  if (graph.OutputsOf(id) == 0) return;
  const GraphEntry& entry = graph.entry(graph.EntryOf(id, 0));
  attrs["T"] = "type: " + ToString(entry.dtype);
  (*json)["shape"] = entry.shape;
}

// Returns the text as TVM rewrites it, or discarded JSON if it is not this
// graph's. Works on the JSON that was loaded rather than on the graph, so that
// keys which nodewise does not know stay in the file.
Json Rewrite(const Graph& graph, std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Json discarded = Json(Json::value_t::discarded);
  if (!json.is_object() || !json.contains("nodes")) return discarded;
  Json& nodes = json["nodes"];
  if (!nodes.is_array() || nodes.size() != graph.nodes.size()) {
    return discarded;
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!nodes[i].is_object()) return discarded;
    RewriteNode(graph, NodeId{i}, &nodes[i]);
  }
  return json;
}

}  // namespace

std::string GraphDumpJson(const Graph& graph) {
  // The graph itself does not keep the order of all keys.
  Json json = Rewrite(graph, graph.text.text);
  if (json.is_discarded()) json = Rewrite(graph, WriteGraph(graph));
  // Written like Python's json.dumps(indent=4), in ASCII alone. Names may hold
  // any bytes, which must not throw.
  return json.dump(4, ' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace);
}

// Most names need no escape, and a JSON library would copy each of them several
// times.
std::string TraceString(std::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  });
  if (is_plain) return '"' + std::string(text) + '"';
  return Json(std::string(text))
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Written out by hand, since floating-point numbers of microseconds lose
// nanoseconds in long runs. At least one digit follows the point.
std::string TraceMicroseconds(int64_t ns) {
  char text[24];
  char* end = std::to_chars(text, text + sizeof(text), ns / 1000).ptr;
  *end++ = '.';
  int64_t rest = ns % 1000;
  do {
    *end++ = static_cast<char>('0' + rest / 100);
    rest = rest % 100 * 10;
  } while (rest > 0);
  return std::string(text, end);
}

void WriteTvmTrace(const Graph& graph, absl::Span<const NodeTime> times,
                   absl::FunctionRef<void(std::string_view)> write) {
  // Pieces of this size keep the text in a cache and the calls few.
  constexpr size_t kPieceBytes = 4096;
  std::string text = R"({"displayTimeUnit": "ns", "traceEvents": [)";
  std::string now = TraceMicroseconds(0);
  int64_t now_ns = 0;
  std::string node;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    node.assign(R"(, "tid": 1, "pid": 1, "name": )")
        .append(TraceString(graph.nodes[n].name))
        .append(R"(, "ph": ")");
    text.append(n == 0 ? R"({"ts": )" : R"(, {"ts": )").append(now);
    text.append(node).append(R"(B"}, {"ts": )");
    if (n < times.size() && times[n].Duration() > 0) {
      now_ns += times[n].Duration();
      now = TraceMicroseconds(now_ns);
    }
    text.append(now).append(node).append(R"(E"})");
    if (text.size() < kPieceBytes) continue;
    write(text);
    text.clear();
  }
  write(text.append("]}"));
}

}  // namespace nodewise
