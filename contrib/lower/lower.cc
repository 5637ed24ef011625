#include "nodewise/lower/lower.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/lower/lowering_plan.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// More kinds make a name that no table has room for.
constexpr size_t kMostKinds = 6;

// Kinds are words of ONNX or of a model, in which there may be anything.
std::string WordOf(std::string_view kind) {
  std::string word;
  for (const char c : kind) {
    const auto byte = static_cast<unsigned char>(c);
    word += std::isalnum(byte) != 0 && byte < 128
                ? static_cast<char>(std::tolower(byte))
                : '_';
  }
  return word;
}

std::string KindsOf(const Region& region) {
  std::string kinds = "nodewise";
  size_t count = 0;
  const std::vector<OperationId> operations = SourceOperations(region);
  for (const OperationId id : operations) {
    if (count++ == kMostKinds) break;
    kinds += '_' + WordOf(region.network.operation(id).kind());
  }
  const size_t more = operations.size() - std::min(count, kMostKinds);
  return more == 0 ? kinds : fmt::format("{}_and_{}", kinds, more);
}

std::string ContentOf(const Region& region) {
  NetworkData data = region.network.data();
  // Names decide nothing about what is computed: a network repeats its layers
  // under other names.
  data.name.clear();
  for (auto& value : data.values) {
    if (value.has_value()) value->name.clear();
  }
  for (auto& operation : data.operations) {
    if (operation.has_value()) operation->name.clear();
  }
  std::string content = NetworkToText(data);
  for (const TensorType& type : region.outputs) content += ToString(type);
  // Kernels treat weights in another way than inputs, so such regions are not
  // the same function.
  for (const bool is_constant : region.is_constant) {
    content += is_constant ? 'c' : 'x';
  }
  return content;
}

// Gives regions the names of functions: `nodewise_conv_add_relu`, made of the
// kinds of their operations. Regions that compute the same thing with tensors
// of the same types share a name; others get a number behind it.
class FunctionNames {
 public:
  std::string NameOf(const Region& region) {
    std::string& name = names_[ContentOf(region)];
    if (name.empty()) {
      const std::string kinds = KindsOf(region);
      const int use = uses_[kinds]++;
      name = use == 0 ? kinds : fmt::format("{}_{}", kinds, use);
    }
    return name;
  }

 private:
  std::unordered_map<std::string, std::string> names_;  // By content.
  std::unordered_map<std::string, int> uses_;           // By kinds.
};

class GraphMaker {
 public:
  explicit GraphMaker(const Network& network) : network_(network) {
    graph.node_row_ptr.push_back(0);
    SetBuiltInFunctions(&graph);
  }

  absl::Status Make(const LoweringPlan& plan) {
    NODEWISE_ASSIGN_OR_RETURN(const NodeTable* const nodes, plan.nodes());
    NODEWISE_ASSIGN_OR_RETURN(layouts_, plan.layouts());
    NODEWISE_ASSIGN_OR_RETURN(storage_, plan.storage());
    // Executors expect all inputs before the first function, parameters behind
    // those of the network.
    for (const ValueId id : network_.inputs()) AddInput(id);
    for (const PlannedNode& node : *nodes) AddParams(node.inputs);
    // A constant may be an output without any node that reads it.
    AddParams(network_.outputs());
    for (const PlannedNode& node : *nodes) AddFunction(node);
    for (const ValueId id : network_.outputs()) {
      graph.heads.push_back(entries_.at(id));
    }
    return absl::OkStatus();
  }

  Graph graph;
  std::vector<NamedTensor> params;

 private:
  bool IsLast(ValueId id) const {
    return !layouts_->empty() && (*layouts_)[Index(id)];
  }

  // TVM's executor refuses a graph that leaves out a number: it allocates all
  // of them up to the largest. So they are given out in the order of entries.
  int32_t StorageOf(ValueId id) {
    const int32_t shared = (*storage_)[Index(id)];
    if (shared == kOwnStorage) return num_storages_++;
    const auto [known, is_new] = storage_ids_.emplace(shared, num_storages_);
    if (is_new) ++num_storages_;
    return known->second;
  }

  void AddEntry(ValueId id, const TensorType& type, uint32_t output) {
    graph.entries.push_back({.shape = *type.sizes(),
                             .dtype = type.dtype,
                             .storage_id = StorageOf(id)});
    const auto node = static_cast<uint32_t>(graph.nodes.size());
    entries_[id] = {node, output, 0};
  }

  void AddNode(GraphNode node) {
    graph.nodes.push_back(std::move(node));
    graph.node_row_ptr.push_back(static_cast<uint32_t>(graph.entries.size()));
  }

  void AddInput(ValueId id) {
    GraphNode node;
    node.name = network_.value(id).name;
    graph.arg_nodes.push_back(static_cast<uint32_t>(graph.nodes.size()));
    AddEntry(id, network_.value(id).type, 0);
    AddNode(std::move(node));
  }

  void AddParams(absl::Span<const ValueId> values) {
    for (const ValueId id : values) {
      const NetworkValue& value = network_.value(id);
      const bool is_new =
          value.kind == NetworkValue::Kind::kConstant && !entries_.contains(id);
      if (!is_new) continue;
      AddInput(id);
      params.push_back({value.name, value.data});
    }
  }

  void AddFunction(const PlannedNode& made) {
    GraphNode node;
    node.kind = GraphNode::Kind::kFunction;
    node.name = made.region.network.name();
    node.function = functions_.NameOf(made.region);
    node.num_inputs = static_cast<uint32_t>(made.inputs.size());
    node.num_outputs = static_cast<uint32_t>(made.outputs.size());
    node.attrs = AttributesOf(made.region);
    for (const ValueId id : made.inputs) {
      node.inputs.push_back(entries_.at(id));
    }
    // Barriers of the network become edges without a tensor.
    node.control_deps = WaitsFor(made);
    std::vector<std::string> channels_last;
    for (uint32_t i = 0; i < made.outputs.size(); ++i) {
      AddEntry(made.outputs[i], made.region.outputs[i], i);
      if (IsLast(made.outputs[i])) channels_last.push_back(std::to_string(i));
    }
    if (!channels_last.empty()) {
      node.attrs.emplace_back(kChannelsLastAttribute, ListText(channels_last));
    }
    for (const OperationId id : made.operations) {
      node_of_[id] = static_cast<uint32_t>(graph.nodes.size());
    }
    AddNode(std::move(node));
  }

  std::vector<uint32_t> WaitsFor(const PlannedNode& made) const {
    std::vector<uint32_t> nodes;
    for (const OperationId id : made.operations) {
      for (const ValueId barrier : network_.operation(id).after) {
        const auto node = node_of_.find(network_.value(barrier).producer);
        if (node != node_of_.end()) nodes.push_back(node->second);
      }
    }
    return nodes;
  }

  const Network& network_;
  const LayoutTable* layouts_ = nullptr;
  const StorageTable* storage_ = nullptr;
  FunctionNames functions_;
  int32_t num_storages_ = 0;
  // The plan's numbers of shared memory, and those that the graph has for it.
  std::unordered_map<int32_t, int32_t> storage_ids_;
  std::unordered_map<ValueId, EntryRef> entries_;
  std::unordered_map<OperationId, uint32_t> node_of_;
};

}  // namespace

absl::StatusOr<Lowered> Lower(const Network& network, const std::string& name,
                              const LoweringPlan& plan) {
  // Numbers of values and operations in the plan would mean others, or nothing.
  if (plan.version() != network.version()) {
    return StaleTable(network, "lowering", plan.version());
  }
  GraphMaker maker(network);
  NODEWISE_RETURN_IF_ERROR(maker.Make(plan));
  DiagnosticList diagnostics;
  CheckGraph(maker.graph, &diagnostics);
  if (diagnostics.HasErrors()) return At(name, diagnostics.ToStatus());
  // The text that is written to a file shows what is found wrong later.
  Lowered lowered;
  NODEWISE_ASSIGN_OR_RETURN(lowered.graph, ParseGraph(GraphText::FromString(
                                               name, WriteGraph(maker.graph))));
  lowered.params = std::move(maker.params);
  NODEWISE_ASSIGN_OR_RETURN(lowered.kernels, plan.kernels());
  return lowered;
}

absl::StatusOr<Lowered> Lower(const Network& network, const std::string& name,
                              const LowerOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(const LoweringPlan plan,
                            LoweringPlan::Make(network, options));
  return Lower(network, name, plan);
}

}  // namespace nodewise
