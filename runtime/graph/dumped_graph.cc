#include "nodewise/graph/dumped_graph.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "fmt/format.h"

namespace nodewise {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The graph format has no function of this name, so nothing is assumed of what
// its nodes do.
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
    // Checks and plans rely on what __nop and __copy promise, and a dumped
    // graph does not tell for which output that holds.
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

// Every node of a dumped graph says its type as "T", and none has an op that
// the compiler writes. One node that is otherwise makes it a plain graph.
bool LooksLikeDumpedGraph(std::string_view text) {
  // Most graphs lack this text and need not be parsed.
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
  // The text that was parsed was made up here; lines must be those of the text
  // that was given.
  for (Diagnostic& diagnostic : found.items()) {
    diagnostic.line = diagnostic.column = 0;
  }
  LocateDiagnostics(text, &found);
  const bool is_sound = !found.HasErrors();
  diagnostics->Append(std::move(found));
  return is_sound;
}

}  // namespace nodewise
