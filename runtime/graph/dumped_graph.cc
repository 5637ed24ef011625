#include "nodewise/graph/dumped_graph.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A key reads "conv____topo-index:3____output-num:0". TVM 0.8 wrote
// "conv____0", with the output alone.
constexpr std::string_view kTopoIndex = "____topo-index:";
constexpr std::string_view kOutputNum = "____output-num:";

// Parses a number as we and TVM write it: only digits, no leading zero. A name
// may end in what looks like a part of a key; the form is strict, so that no
// other text is taken for one.
bool ParseNumber(std::string_view text, uint32_t* number) {
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number)) {
    return false;
  }
  return std::to_string(*number) == text;
}

// Takes a mark and the number behind it off the end of a key; returns false if
// it does not end so. Read from the end, since a node's name may hold anything.
bool TakeNumber(std::string_view mark, std::string_view* key,
                uint32_t* number) {
  const size_t at = key->rfind(mark);
  if (at == key->npos) return false;
  if (!ParseNumber(key->substr(at + mark.size()), number)) return false;
  *key = key->substr(0, at);
  return true;
}

// Returns the only input of that name. Without a number, two inputs of that
// name cannot be told apart.
std::optional<NodeId> InputNamed(const Graph& graph, std::string_view name) {
  std::optional<NodeId> found;
  for (const uint32_t node : graph.arg_nodes) {
    if (graph.nodes[node].name != name) continue;
    if (found.has_value()) return std::nullopt;
    found = NodeId{node};
  }
  return found;
}

using OrderedJson = nlohmann::ordered_json;

// The graph format has no such function: nothing is known of what it does.
constexpr char kUnknownFunction[] = "dumped";

// Leaves out what is nested deeper than any graph: writing it would recurse.
OrderedJson Parsed(std::string_view text) {
  constexpr int kMostNesting = 64;
  const auto keep = [](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    return depth <= kMostNesting;
  };
  return OrderedJson::parse(text, keep, /*allow_exceptions=*/false);
}

bool IsText(const OrderedJson& json, const char* key) {
  return json.contains(key) && json[key].is_string();
}

// Turns names of inputs back into numbers of nodes. TVM's debugger replaces
// references by names and calls inputs "param". The graph is put back into the
// form of the compiler, so that the one reader of graphs with all its checks
// reads it too.
class Restorer {
 public:
  Restorer(const GraphText& text, DiagnosticList* diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  void Restore(OrderedJson* nodes) {
    for (size_t n = 0; n < nodes->size(); ++n) {
      OrderedJson& node = (*nodes)[n];
      if (!node.is_object()) continue;
      RestoreOp(&node);
      if (node.contains("inputs")) RestoreInputs(n, &node["inputs"]);
      node.erase("shape");
      if (IsText(node, "name")) numbers_[node["name"]] = n;
    }
  }

 private:
  static void RestoreOp(OrderedJson* node) {
    if (!IsText(*node, "op")) return;
    const bool is_input = (*node)["op"] == "param";
    (*node)["op"] = is_input ? "null" : "tvm_op";
    if (!node->contains("attrs") || !(*node)["attrs"].is_object()) return;
    OrderedJson& attrs = (*node)["attrs"];
    attrs.erase("T");
    if (is_input && attrs.empty()) node->erase("attrs");
    // What __nop and __copy promise holds for an output that is not known.
    const bool is_special = !is_input && IsText(attrs, "func_name") &&
                            (attrs["func_name"] == std::string(kNopFunction) ||
                             attrs["func_name"] == std::string(kCopyFunction));
    if (is_special) attrs["func_name"] = kUnknownFunction;
  }

  void RestoreInputs(size_t n, OrderedJson* inputs) {
    if (!inputs->is_array()) return;
    for (size_t i = 0; i < inputs->size(); ++i) {
      OrderedJson& input = (*inputs)[i];
      if (!input.is_string()) continue;
      const auto known = numbers_.find(input.get<std::string>());
      if (known == numbers_.end()) {
        diagnostics_->Add(
            {Severity::kError, text_.name,
             fmt::format("/nodes/{}/inputs/{}", n, i), 0, 0,
             fmt::format("node {}, which no node before has as its name",
                         input.get<std::string>()),
             "the name of an earlier node", ""});
      }
      input = {known == numbers_.end() ? 0 : known->second, 0, 0};
    }
  }

  const GraphText& text_;
  DiagnosticList* diagnostics_;
  std::map<std::string, size_t> numbers_;
};

}  // namespace

std::string DumpKeyOf(std::string_view node, NodeId id, uint32_t output) {
  return fmt::format("{}{}{}{}{}", node, kTopoIndex, Index(id), kOutputNum,
                     output);
}

absl::StatusOr<DumpKey> ParseDumpKey(std::string_view key) {
  DumpKey parsed;
  std::string_view node = key;
  parsed.has_topo_index = TakeNumber(kOutputNum, &node, &parsed.output) &&
                          TakeNumber(kTopoIndex, &node, &parsed.topo_index);
  if (!parsed.has_topo_index) node = key;
  if (parsed.has_topo_index || TakeNumber("____", &node, &parsed.output)) {
    parsed.node = node;
    return parsed;
  }
  return InvalidArgument(
      "dump key {}: expected NAME____topo-index:N____output-num:N or NAME____N",
      key);
}

std::optional<NodeId> NodeOfDumpKey(const Graph& graph, std::string_view key) {
  // Not every name in a params file is a key.
  const auto parts = ParseDumpKey(key);
  if (!parts.ok()) return std::nullopt;
  if (!parts->has_topo_index) {
    if (parts->output > 0) return std::nullopt;
    return InputNamed(graph, parts->node);
  }
  if (parts->topo_index >= graph.nodes.size()) return std::nullopt;
  const NodeId node{parts->topo_index};
  if (graph.node(node).name != parts->node) return std::nullopt;
  if (parts->output >= graph.OutputsOf(node)) return std::nullopt;
  return node;
}

// Every node of a dumped graph says its type as "T", and none has an op that
// the compiler writes. One node that is otherwise makes it a plain graph.
bool LooksLikeDumpedGraph(std::string_view text) {
  // Most graphs need not be read for this.
  if (text.find("\"type: ") == text.npos) return false;
  const OrderedJson json = Parsed(text);
  if (!json.is_object() || !json.contains("nodes")) return false;
  const OrderedJson& nodes = json["nodes"];
  if (!nodes.is_array() || nodes.empty()) return false;
  return std::all_of(nodes.begin(), nodes.end(), [](const OrderedJson& node) {
    return node.is_object() && IsText(node, "op") && node["op"] != "null" &&
           node["op"] != "tvm_op" && node.contains("attrs") &&
           IsText(node["attrs"], "T");
  });
}

bool ParseDumpedGraph(const GraphText& text, Graph* graph,
                      DiagnosticList* diagnostics) {
  OrderedJson json = Parsed(text.text);
  DiagnosticList found;
  if (json.is_object() && json.contains("nodes")) {
    Restorer(text, &found).Restore(&json["nodes"]);
  }
  ParseGraph(GraphText::FromString(
                 text.name, json.dump(-1, ' ', false,
                                      OrderedJson::error_handler_t::replace)),
             graph, &found);
  graph->text = text;
  // The text that was parsed is made up.
  // Lines are those of the text that was given.
  for (Diagnostic& diagnostic : found.items()) {
    diagnostic.line = diagnostic.column = 0;
  }
  LocateDiagnostics(text, &found);
  const bool is_sound = !found.HasErrors();
  diagnostics->Append(std::move(found));
  return is_sound;
}

}  // namespace nodewise
