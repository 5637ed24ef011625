#include "nodewise/graph/graph_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "runtime/graph/graph_reader.h"

namespace nodewise {
namespace {

// Joins the lists of the attributes into entries. The reader takes each list as
// it comes; here they must agree on how many entries there are, and a message
// blames the list that differs.
bool AssembleEntries(GraphLists lists, Graph* graph,
                     DiagnosticList* diagnostics) {
  if (!lists.shapes || !lists.dtypes || !lists.storage_ids) {
    return false;  // They are reported as missing keys.
  }
  // Lists that agree with the nodes or with node_row_ptr are not to blame:
  // CheckGraph holds those two against each other.
  uint64_t count = 0;
  for (const GraphNode& node : graph->nodes) count += node.num_outputs;
  if (!graph->node_row_ptr.empty() &&
      graph->node_row_ptr.back() == lists.shapes->size()) {
    count = lists.shapes->size();
  }
  bool agree = true;
  const auto check = [&](const char* path, const auto& list) {
    if (!list || list->size() == count) return;
    diagnostics->Add({Severity::kError, graph->text.name, path, 0, 0,
                      fmt::format("{} items", list->size()),
                      fmt::format("{} (one per node output)", count), ""});
    agree = false;
  };
  check("/attrs/shape/1", lists.shapes);
  check("/attrs/dltype/1", lists.dtypes);
  check("/attrs/storage_id/1", lists.storage_ids);
  check("/attrs/device_index/1", lists.device_types);
  check("/attrs/storage_scope/1", lists.scopes);
  if (!agree) return false;
  graph->entries.resize(count);
  graph->has_device_index = lists.device_types.has_value();
  if (lists.scopes) graph->storage_scopes = *std::move(lists.scopes);
  for (size_t i = 0; i < count; ++i) {
    GraphEntry& entry = graph->entries[i];
    entry.shape = std::move((*lists.shapes)[i]);
    entry.dtype = (*lists.dtypes)[i];
    // Out of range becomes -1, which CheckGraph reports with its place.
    const auto narrow = [](int64_t value) {
      return value >= 0 && value <= INT32_MAX ? static_cast<int32_t>(value)
                                              : -1;
    };
    entry.storage_id = narrow((*lists.storage_ids)[i]);
    if (lists.device_types)
      entry.device_type = narrow((*lists.device_types)[i]);
  }
  return true;
}

// Checks the graph. A count that the reader could not take has been reported
// already, so the 0 in its place is not reported again. The path of such a
// report may say "attr" where that of the check says "attrs".
void AddGraphFaults(const Graph& graph, DiagnosticList* found) {
  std::unordered_set<std::string> unread;
  for (const Diagnostic& diagnostic : found->items()) {
    std::string path = diagnostic.path;
    const size_t attr = path.find("/attr/");
    if (attr != std::string::npos) path.replace(attr, 6, "/attrs/");
    if (path.ends_with("/num_inputs") || path.ends_with("/num_outputs")) {
      unread.insert(std::move(path));
    }
  }
  DiagnosticList faults;
  CheckGraph(graph, &faults);
  for (Diagnostic& fault : faults.items()) {
    if (!unread.contains(fault.path)) found->Add(std::move(fault));
  }
}

using Json = nlohmann::json;

// TVM's reader refuses attributes of a graph that are neither a list of
// integers nor a size. An attribute says that the graph's functions are built
// in, since its library cannot be missed then.
constexpr std::string_view kBuiltInAttribute = "nodewise.built_in";
constexpr std::string_view kYes = R"(["size_t", 1])";

// Returns a string as JSON that TVM reads too: TVM knows no \u escapes, so only
// what must be escaped is, and bytes above 127, which TVM's reader takes as
// they are, stay.
std::string Quote(std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t";
  constexpr std::string_view kLetters = "\"\\nrt";
  std::string quoted = "\"";
  for (const char c : text) {
    if (const size_t at = kEscaped.find(c); at != kEscaped.npos) {
      quoted += '\\';
      quoted += kLetters[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

template <typename Item>
std::string ArrayJson(size_t count, Item item) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += item(i);
  }
  return text + "]";
}

std::string TextOf(const EntryRef& ref) {
  return fmt::format("[{}, {}, {}]", ref.node, ref.output, ref.version);
}

std::string Refs(const std::vector<EntryRef>& refs) {
  return ArrayJson(refs.size(), [&](size_t i) { return TextOf(refs[i]); });
}

template <typename T>
std::string Numbers(const std::vector<T>& numbers) {
  return ArrayJson(numbers.size(),
                   [&](size_t i) { return std::to_string(numbers[i]); });
}

// The layout, down to the blanks, is that of TVM's compiler, so that two files
// can be compared line by line.
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

// Returns the list that a node has as an attribute. One that cannot be read
// says nothing, like one that is not there: any program may have written it.
std::vector<std::string> ListIn(const GraphNode& node, std::string_view name) {
  const std::string* const text = FindAttribute(node.attrs, name);
  if (text == nullptr) return {};
  return ParseListText(*text).value_or(std::vector<std::string>());
}

// Each attribute of a graph is a list with an item for each entry, behind a tag
// with the type of its items.
class AttrWriter {
 public:
  explicit AttrWriter(size_t count) : count_(count) {}

  template <typename Item>
  void Add(const char* key, const char* tag, Item item) {
    Raw(key, fmt::format("[\"{}\", {}]", tag, ArrayJson(count_, item)));
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

// The graph keeps its text, in which later faults are located.
GraphText GraphText::FromString(std::string name, std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {std::move(name), *owner, owner};
}

absl::StatusOr<GraphText> GraphText::FromFile(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto owner = std::make_shared<const MappedFile>(std::move(file));
  return GraphText{path, owner->text(), owner};
}

NodeId Graph::NodeOf(EntryId id) const {
  // The last row that begins at or before the entry; rows of nodes without
  // outputs are empty.
  const auto row = std::ranges::upper_bound(node_row_ptr, Index(id));
  return NodeId{static_cast<uint32_t>(row - node_row_ptr.begin() - 1)};
}

DLTensor TensorOfEntry(const GraphEntry& entry, DLDevice device, void* data) {
  return TensorOver(data, entry.shape, entry.dtype, device);
}

std::string NodeTitle(const Graph& graph, NodeId node) {
  return fmt::format("node {} ({})", Index(node), graph.node(node).name);
}

// First what the text says, then whether its lists agree, then whether the
// graph makes sense: each step needs the one before, and the first that fails
// ends it.
bool ParseGraph(GraphText text, Graph* graph, DiagnosticList* diagnostics) {
  *graph = Graph();
  graph->text = std::move(text);
  const WorkingOn on(graph->text.name);
  GraphLists lists;
  DiagnosticList found;  // Earlier findings do not make this graph unsound.
  if (ReadGraphJson(graph->text, graph, &lists, &found) &&
      AssembleEntries(std::move(lists), graph, &found)) {
    AddGraphFaults(*graph, &found);
  }
  LocateDiagnostics(graph->text, &found);
  const bool sound = !found.HasErrors();
  diagnostics->Append(std::move(found));
  return sound;
}

absl::StatusOr<Graph> ParseGraph(GraphText text) {
  Graph graph;
  DiagnosticList diagnostics;
  if (ParseGraph(std::move(text), &graph, &diagnostics)) return graph;
  return diagnostics.ToStatus();
}

// One fault that is found after parsing: the text is searched for its line only
// now.
absl::Status GraphError(const Graph& graph, std::string path, std::string found,
                        std::string expected, std::string hint) {
  DiagnosticList diagnostics;
  diagnostics.Add({Severity::kError, graph.text.name, std::move(path), 0, 0,
                   std::move(found), std::move(expected), std::move(hint)});
  LocateDiagnostics(graph.text, &diagnostics);
  return diagnostics.ToStatus();
}

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

// An input of a graph that nodewise made has the name of the network's value
// itself.
std::optional<std::string> ValueNameOf(const Graph& graph,
                                       const EntryRef& ref) {
  const GraphNode& node = graph.nodes[ref.node];
  if (node.kind == GraphNode::Kind::kInput) {
    return HasBuiltInFunctions(graph) ? std::optional(node.name) : std::nullopt;
  }
  const std::vector<std::string> names = ListIn(node, kValuesAttribute);
  if (ref.output >= names.size()) return std::nullopt;
  return names[ref.output];
}

bool HasChannelsLast(const Graph& graph, const EntryRef& ref) {
  const auto numbers = ListIn(graph.nodes[ref.node], kChannelsLastAttribute);
  return std::ranges::count(numbers, std::to_string(ref.output)) > 0;
}

std::optional<NodeId> NodeCovering(const Graph& graph,
                                   std::string_view operation) {
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const auto names = ListIn(graph.nodes[n], kCoversAttribute);
    if (std::ranges::count(names, operation) > 0) return NodeId{n};
  }
  return std::nullopt;
}

std::string ListText(absl::Span<const std::string> names) {
  // A JSON array can hold any name; a list with commas could not.
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
  for (const auto& [key, value] : attrs) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string WriteGraph(const Graph& graph) {
  AttrWriter attrs(graph.entries.size());
  const auto& entries = graph.entries;
  attrs.Add("shape", "list_shape",
            [&](size_t i) { return Numbers(entries[i].shape); });
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
