#include <dmlc/io.h>
#include <dmlc/memory_io.h>
#include <re2/re2.h>

#include <memory>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/record.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "runtime/dump/dump_layout.h"

namespace nodewise {
namespace {

// A longer text is made again for each run, rather than held in memory beside
// the graph for as long as the plan lives.
constexpr size_t kMaxKeptJsonBytes = size_t{4} << 20;

// Describes how nodes are chosen, for a message. Names only what differs from
// the defaults, which is what the user has typed.
std::string ChoiceText(const RecordOptions& options) {
  const RecordOptions all;
  std::string nodes;
  if (options.last_node != all.last_node) {
    nodes =
        fmt::format("nodes {} to {}", options.first_node, options.last_node);
  } else if (options.first_node != all.first_node) {
    nodes = fmt::format("nodes {} and later", options.first_node);
  }
  if (options.select.empty()) return nodes;
  return fmt::format("the expression \"{}\"{}{}", options.select,
                     nodes.empty() ? "" : " in ", nodes);
}

// Choosing no node is an error, since a dump of nothing is never wanted; a
// graph without nodes has none to choose.
absl::StatusOr<ByNode<bool>> ChooseNodes(const GraphIndex& index,
                                         const RecordOptions& options) {
  // Names come from untrusted files, and may be any bytes. RE2 takes time in
  // proportion to their length, with every expression.
  RE2::Options latin(RE2::Latin1);
  latin.set_log_errors(false);
  const RE2 expression(options.select, latin);
  if (!expression.ok()) {
    return InvalidArgument(
        "the expression {} is not a regular expression of RE2: {}",
        options.select, expression.error());
  }
  const auto is_found = [&](const std::string& name) {
    return RE2::PartialMatch(name, expression);
  };
  const Graph& graph = index.graph();
  ByNode<bool> chosen(graph);
  bool any = graph.nodes.empty();
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (i < options.first_node || i > options.last_node) continue;
    const GraphNode& node = graph.nodes[i];
    chosen[NodeId{i}] = options.select.empty() || is_found(node.name) ||
                        is_found(node.function) ||
                        is_found(index.KeyOf(NodeId{i}));
    any = any || chosen[NodeId{i}];
  }
  if (any) return chosen;
  return InvalidArgument(
      "no node is chosen by {}, expected at least one of nodes 0 to {} (a dump "
      "of all nodes, or {}, has their names)",
      ChoiceText(options), graph.nodes.size() - 1, NameOf(Way::kNodeTable));
}

// Returns the items in the order of recording: inputs first, then functions.
// The file of tensors begins with all names, so the order must be known before
// the first node runs.
std::vector<DumpPlan::Item> ItemsOf(const GraphIndex& index,
                                    const ByNode<bool>& chosen) {
  const Graph& graph = index.graph();
  std::vector<DumpPlan::Item> items;
  for (const bool is_function : {false, true}) {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const NodeId node{i};
      if (!chosen[node] || graph.IsFunction(node) != is_function) continue;
      for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
        const EntryId id = graph.EntryOf(node, output);
        items.push_back({id, node, output,
                         DumpKeyOf(graph.node(node).name, node, output),
                         index.BytesOf(id)});
      }
    }
  }
  return items;
}

// Moves what does not fit to left_out. A large tensor is left out and smaller
// ones behind it may still fit. Written so that no sum can overflow.
void ApplyLimit(uint64_t max_bytes, DumpPlan* plan) {
  for (DumpPlan::Item& item : std::exchange(plan->items, {})) {
    const bool fits =
        max_bytes == 0 || (plan->tensor_bytes <= max_bytes &&
                           item.bytes <= max_bytes - plan->tensor_bytes);
    if (fits) plan->tensor_bytes += item.bytes;
    (fits ? plan->items : plan->left_out).push_back(std::move(item));
  }
}

// For each entry it notes where in `heads` the bytes are that precede its data,
// so that recording copies them without making them again.
std::shared_ptr<const DumpLayout> MakeLayout(const GraphIndex& index,
                                             const RecordOptions& options,
                                             const DumpPlan& plan,
                                             ByNode<bool> chosen) {
  const Graph& graph = index.graph();
  auto layout = std::make_shared<DumpLayout>();
  layout->entries = ByEntry<DumpLayout::Entry>(graph);
  for (uint32_t i = 0; i < graph.entries.size(); ++i) {
    const GraphEntry& entry = graph.entries[i];
    DumpLayout::Entry& measured = layout->entries[EntryId{i}];
    measured.bytes = index.BytesOf(EntryId{i});
    measured.elements =
        static_cast<uint64_t>(NumElements(entry.shape).value()) *
        entry.dtype.lanes;
  }
  layout->is_recorded = std::move(chosen);
  layout->graph_json = GraphDumpJson(graph);
  if (layout->graph_json.size() > kMaxKeptJsonBytes) {
    std::string().swap(layout->graph_json);
  }
  if (!options.tensors) return layout;
  std::vector<std::string> names;
  names.reserve(plan.items.size());
  dmlc::MemoryStringStream heads(&layout->heads);
  for (const DumpPlan::Item& item : plan.items) {
    const GraphEntry& entry = graph.entry(item.entry);
    DumpLayout::Entry& place = layout->entries[item.entry];
    place.item = static_cast<uint32_t>(names.size());
    place.head_at = layout->heads.size();
    WriteRecordHead(entry.shape, entry.dtype, &heads);
    place.head_size =
        static_cast<uint32_t>(layout->heads.size() - place.head_at);
    names.push_back(item.key);
  }
  layout->params_header = ParamsHeader(names);
  return layout;
}

}  // namespace

// A zero byte would end the path for the system, and the dump would go to
// another folder.
absl::StatusOr<DumpPlan> PlanDump(const GraphIndex& index,
                                  const RecordOptions& options) {
  const size_t zero = options.root.find('\0');
  if (zero != std::string::npos) {
    return InvalidArgument(
        "the dump root \"{}\" has a zero byte at {}, expected a path",
        options.root.substr(0, zero), zero);
  }
  NODEWISE_ASSIGN_OR_RETURN(ByNode<bool> chosen, ChooseNodes(index, options));
  DumpPlan plan;
  plan.items = ItemsOf(index, chosen);
  ApplyLimit(options.tensors ? options.max_bytes : 0, &plan);
  if (!options.tensors) plan.tensor_bytes = 0;
  plan.layout = MakeLayout(index, options, plan, std::move(chosen));
  return plan;
}

}  // namespace nodewise
