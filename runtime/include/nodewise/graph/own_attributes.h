#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// The attributes that a graph JSON has only if nodewise made it of a network
// (docs/formats/graph_json.md). TVM reads over all of them.

// Attributes of a node, as ListText() writes them: the names of the network's
// values that its outputs are, and of the network's operations that are in it.
inline constexpr std::string_view kValuesAttribute = "nodewise.values";
inline constexpr std::string_view kCoversAttribute = "nodewise.covers";
// An attribute of a node: the numbers of its outputs that have their channels,
// side 1 of the network's value, behind all other sides in memory.
inline constexpr std::string_view kChannelsLastAttribute =
    "nodewise.channels_last";

// Set, clear and return whether the functions of a graph are part of the
// process that runs it, so that there is no library beside it.
void SetBuiltInFunctions(Graph* graph);
void ClearBuiltInFunctions(Graph* graph);
bool HasBuiltInFunctions(const Graph& graph);

// Returns the name of the network's value that a node's output is; none for a
// node that does not say.
std::optional<std::string> ValueNameOf(const Graph& graph, const EntryRef& ref);

// Returns whether a node says that its output has its channels last.
bool HasChannelsLast(const Graph& graph, const EntryRef& ref);

// Returns the first node that an operation of the network is in; none if no
// node says so.
std::optional<NodeId> NodeCovering(const Graph& graph,
                                   std::string_view operation);

// Writes a list of names as an attribute's text: a JSON array.
std::string ListText(absl::Span<const std::string> names);
// Reads it back; none if the text is not such a list.
std::optional<std::vector<std::string>> ParseListText(std::string_view text);

// Returns the value of a node's attribute, or null if it has none of that name.
const std::string* FindAttribute(
    absl::Span<const std::pair<std::string, std::string>> attrs,
    std::string_view name);

}  // namespace nodewise
