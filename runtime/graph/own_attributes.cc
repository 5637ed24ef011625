#include "nodewise/graph/own_attributes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace nodewise {
namespace {

using Json = nlohmann::json;

// TVM's reader refuses attributes of a graph that are neither a list of
// integers nor a size.
constexpr std::string_view kBuiltInAttribute = "nodewise.built_in";
constexpr std::string_view kYes = R"(["size_t", 1])";

}  // namespace

void SetBuiltInFunctions(Graph* graph) {
  if (HasBuiltInFunctions(*graph)) return;
  graph->other_attrs.emplace_back(kBuiltInAttribute, kYes);
}

void ClearBuiltInFunctions(Graph* graph) {
  std::erase_if(graph->other_attrs, [](const auto& attribute) {
    return attribute.first == kBuiltInAttribute;
  });
}

bool HasBuiltInFunctions(const Graph& graph) {
  const std::string* const value =
      FindAttribute(graph.other_attrs, kBuiltInAttribute);
  if (value == nullptr) return false;
  const Json parsed = Json::parse(*value, nullptr, /*allow_exceptions=*/false);
  return parsed == Json::array({"size_t", 1});
}

std::optional<std::string> ValueNameOf(const Graph& graph,
                                       const EntryRef& ref) {
  const GraphNode& node = graph.nodes[ref.node];
  if (node.kind == GraphNode::Kind::kInput) {
    return HasBuiltInFunctions(graph) ? std::optional(node.name) : std::nullopt;
  }
  const std::string* const text = FindAttribute(node.attrs, kValuesAttribute);
  if (text == nullptr) return std::nullopt;
  const auto names = ParseListText(*text);
  if (!names.has_value() || ref.output >= names->size()) return std::nullopt;
  return (*names)[ref.output];
}

bool HasChannelsLast(const Graph& graph, const EntryRef& ref) {
  const std::string* const text =
      FindAttribute(graph.nodes[ref.node].attrs, kChannelsLastAttribute);
  if (text == nullptr) return false;
  const auto numbers = ParseListText(*text);
  return numbers.has_value() &&
         std::find(numbers->begin(), numbers->end(),
                   std::to_string(ref.output)) != numbers->end();
}

std::optional<NodeId> NodeCovering(const Graph& graph,
                                   std::string_view operation) {
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string* const text =
        FindAttribute(graph.nodes[n].attrs, kCoversAttribute);
    if (text == nullptr) continue;
    const auto names = ParseListText(*text);
    if (!names.has_value()) continue;
    if (std::find(names->begin(), names->end(), operation) != names->end()) {
      return NodeId{n};
    }
  }
  return std::nullopt;
}

std::string ListText(absl::Span<const std::string> names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back(name);
  // Names that are not UTF-8 would make an exception otherwise.
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::vector<std::string>> ParseListText(std::string_view text) {
  const Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& name : list) {
    if (!name.is_string()) return std::nullopt;
    names.push_back(name.get<std::string>());
  }
  return names;
}

const std::string* FindAttribute(
    absl::Span<const std::pair<std::string, std::string>> attrs,
    std::string_view name) {
  const auto found =
      std::find_if(attrs.begin(), attrs.end(),
                   [&](const auto& attr) { return attr.first == name; });
  return found == attrs.end() ? nullptr : &found->second;
}

}  // namespace nodewise
