#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// The graph JSON of TVM's graph executor (docs/formats/graph_json.md).

// A node has one or more outputs; an entry is one of them. Nodes and entries
// are numbered separately, so their numbers are two types, which cannot be
// mixed up.
enum class NodeId : uint32_t {};
enum class EntryId : uint32_t {};

inline constexpr uint32_t Index(NodeId id) { return static_cast<uint32_t>(id); }
inline constexpr uint32_t Index(EntryId id) {
  return static_cast<uint32_t>(id);
}

// An entry as the file names it: an output of a node.
struct EntryRef {
  uint32_t node = 0;
  uint32_t output = 0;
  uint32_t version = 0;  // Read and written; means nothing.
};

struct GraphNode {
  enum class Kind {
    kInput,     // op "null": an input or a parameter
    kFunction,  // op "tvm_op"
  };

  Kind kind = Kind::kInput;
  std::string name;  // Need not be unique.
  std::vector<EntryRef> inputs;
  // These are for functions only:
  std::string function;  // func_name: a symbol, or __nop, or __copy.
  uint32_t num_inputs = 0;
  uint32_t num_outputs = 1;
  bool flatten = false;  // flatten_data: tensors are passed with one dimension.
  // The other attributes, in the order of the file.
  std::vector<std::pair<std::string, std::string>> attrs;
  std::vector<uint32_t> control_deps;
};

// What the graph's attributes say about one entry.
struct GraphEntry {
  std::vector<int64_t> shape;
  DLDataType dtype{};
  int32_t storage_id = 0;
  int32_t device_type = 0;  // Valid only if the graph has device_index.
};

// Returns a tensor of the entry's type, whose shape it borrows.
DLTensor TensorOfEntry(const GraphEntry& entry, DLDevice device,
                       void* data = nullptr);

// Where a graph was read from. It is kept with the graph, so that faults found
// later can be shown by line and column.
struct GraphText {
  std::string name;  // The file's name, for messages.
  std::string_view text;
  std::shared_ptr<const void> owner;  // Keeps `text` alive.

  static GraphText FromString(std::string name, std::string text);
  static absl::StatusOr<GraphText> FromFile(const std::string& path);
};

// The function names of nodes that only give a tensor another shape, and of
// nodes that copy between devices.
inline constexpr std::string_view kNopFunction = "__nop";
inline constexpr std::string_view kCopyFunction = "__copy";

struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<uint32_t> arg_nodes;  // The inputs' node numbers, in order.
  std::vector<EntryRef> heads;      // The outputs, in order.
  // Entries of node n are [node_row_ptr[n], node_row_ptr[n + 1]).
  std::vector<uint32_t> node_row_ptr;
  std::vector<GraphEntry> entries;
  bool has_device_index = false;
  std::vector<std::string> storage_scopes;  // Empty, or one per entry.
  // Unknown attributes: key and raw JSON.
  std::vector<std::pair<std::string, std::string>> other_attrs;
  GraphText text;

  EntryId EntryOf(const EntryRef& ref) const {
    return EntryId{node_row_ptr[ref.node] + ref.output};
  }
  EntryId EntryOf(NodeId node, uint32_t output) const {
    return EntryId{node_row_ptr[Index(node)] + output};
  }
  const GraphEntry& entry(EntryId id) const { return entries[Index(id)]; }
  const GraphNode& node(NodeId id) const { return nodes[Index(id)]; }
  bool IsFunction(NodeId id) const {
    return node(id).kind == GraphNode::Kind::kFunction;
  }
  uint32_t OutputsOf(NodeId id) const {
    return node_row_ptr[Index(id) + 1] - node_row_ptr[Index(id)];
  }
  // Returns the node that makes an entry.
  NodeId NodeOf(EntryId id) const;
};

// Reads and checks a graph. Keys may come in any order; positions are kept;
// unknown keys are kept or skipped. The graph returned is sound: every index is
// in range, every node reads entries of earlier nodes, every list has one item
// per entry, every tensor has a size. Fails with kDataLoss otherwise.
absl::StatusOr<Graph> ParseGraph(GraphText text);

// Reads and checks a graph, collecting every fault. Returns false if the result
// is not sound.
bool ParseGraph(GraphText text, Graph* graph, DiagnosticList* diagnostics);

// Makes the checks of ParseGraph on a graph that was made or changed by hand.
void CheckGraph(const Graph& graph, DiagnosticList* diagnostics);

// Fills in the lines and columns of diagnostics that name a path in `text`.
void LocateDiagnostics(const GraphText& text, DiagnosticList* diagnostics);

// Returns what is wrong with a graph at a JSON path, located.
absl::Status GraphError(const Graph& graph, std::string path, std::string found,
                        std::string expected = "", std::string hint = "");

// Writes a graph as TVM lays it out; reading it back gives the same graph.
std::string WriteGraph(const Graph& graph);

// Returns how messages name a node: "node 7 (name)".
std::string NodeTitle(const Graph& graph, NodeId node);

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
