#include "nodewise/lower/lower.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "contrib/lower/function_names.h"
#include "contrib/lower/fusion.h"
#include "contrib/lower/observed_regions.h"
#include "contrib/lower/region_maker.h"
#include "contrib/lower/storage_reuse.h"
#include "contrib/lower/tensor_layouts.h"
#include "fmt/format.h"
#include "nodewise/graph/own_attributes.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Names the options that give the unknown sides of an input their sizes.
std::string HowToSize(const NetworkValue& input) {
  const auto& shape = input.type.shape;
  std::string options;
  for (size_t i = 0; shape.has_value() && i < shape->size(); ++i) {
    const Dim& side = (*shape)[i];
    if (side.is_known()) continue;
    options += side.name().empty()
                   ? fmt::format("--dim {}:{}=N or ", input.name, i)
                   : fmt::format("--dim {}=N or ", side.name());
  }
  return fmt::format("{}--freeze {}=FILE", options, input.name);
}

absl::Status CheckName(const std::string& name, std::string_view what) {
  const auto read = ParseListText(ListText({&name, 1}));
  if (read.has_value() && (*read)[0] == name) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{} {}: has a name that is no UTF-8, which no graph JSON can hold", what,
      Printable(name)));
}

// Executors allocate everything before they run.
absl::Status CheckType(const NetworkValue& value, const std::string& place,
                       const std::string& how) {
  if (!value.type.has_dtype() || !value.type.is_static()) {
    return absl::UnimplementedError(fmt::format(
        "{}: is {}, expected all its sizes known before the run ({})", place,
        ToString(value.type), how));
  }
  const absl::Status status = CheckDType(value.type.dtype);
  if (status.ok()) return status;
  return absl::UnimplementedError(
      fmt::format("{}: {}", place, MessageOf(status)));
}

// Then nobody knows how often the body runs before it has run.
bool EndsByCondition(const Operation& operation) {
  return operation.attrs.As<ops::Loop>() != nullptr &&
         operation.inputs.size() > 1 && operation.inputs[1] != kNoValue;
}

// Returns whether inputs of the network decide what the value is.
bool DependsOnInputs(const Network& network, ValueId value) {
  std::vector<ValueId> left = {value};
  std::unordered_set<ValueId> seen;
  while (!left.empty()) {
    const ValueId id = left.back();
    left.pop_back();
    if (id == kNoValue || !seen.insert(id).second) continue;
    const NetworkValue& each = network.value(id);
    if (each.kind == NetworkValue::Kind::kInput) return true;
    if (each.producer == kNoOperation) continue;
    const auto& inputs = network.operation(each.producer).inputs;
    left.insert(left.end(), inputs.begin(), inputs.end());
  }
  return false;
}

// What to do about a result of an unknown size.
std::string HowToSizeResult(const Network& network, const Operation& operation,
                            ValueId result) {
  if (EndsByCondition(operation) || !DependsOnInputs(network, result)) {
    return "no option can tell them, since only its run does";
  }
  return "--freeze NAME=FILE for the inputs that decide them, or --dim";
}

absl::Status CheckNetwork(const Network& network) {
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(CheckName(value->name, "value"));
  }
  for (const ValueId id : network.inputs()) {
    const NetworkValue& input = network.value(id);
    NODEWISE_RETURN_IF_ERROR(
        CheckType(input, "input " + input.name, HowToSize(input)));
  }
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    NODEWISE_RETURN_IF_ERROR(CheckName(operation.name, "operation"));
    for (const ValueId output : operation.outputs) {
      if (output == kNoValue) continue;
      const NetworkValue& value = network.value(output);
      // The search for a way takes time, and is seldom needed.
      NODEWISE_RETURN_IF_ERROR(
          CheckType(value,
                    fmt::format("operation {} ({}): output {}", operation.name,
                                operation.kind(), value.name),
                    value.type.has_dtype() && value.type.is_static()
                        ? ""
                        : HowToSizeResult(network, operation, output)));
    }
  }
  return absl::OkStatus();
}

// Puts a graph together, node by node.
class GraphMaker {
 public:
  explicit GraphMaker(const Network& network) : network_(network) {
    for (const auto& value : network_.data().values) {
      if (!value.has_value()) continue;
      const bool is_node = value->kind == NetworkValue::Kind::kInput ||
                           value->kind == NetworkValue::Kind::kConstant;
      if (is_node) names_.insert(value->name);
    }
    graph_.node_row_ptr.push_back(0);
    SetBuiltInFunctions(&graph_);
  }

  absl::Status Make(const LowerOptions& options) {
    std::vector<MadeRegion> regions;
    NODEWISE_RETURN_IF_ERROR(options.is_observed == nullptr
                                 ? MakeFused(options, &regions)
                                 : MakeObserved(options, &regions));
    for (const ValueId id : network_.inputs()) AddInput(id);
    for (const MadeRegion& region : regions) AddParams(region.inputs);
    AddParams(network_.outputs());
    for (const MadeRegion& region : regions) AddFunction(region);
    for (const ValueId id : network_.outputs()) {
      graph_.heads.push_back(entries_.at(id));
    }
    return absl::OkStatus();
  }

  Graph& graph() { return graph_; }
  std::vector<NamedTensor> TakeParams() { return std::move(params_); }

 private:
  absl::Status MakeFused(const LowerOptions& options,
                         std::vector<MadeRegion>* regions) {
    const auto found = FindRegions(network_, options.fuse);
    if (options.preference_of != nullptr) {
      layouts_.channels_last =
          ChooseChannelsLast(network_, found, options.preference_of);
      layouts_.operators = &options.operators;
    }
    for (const auto& operations : found) {
      NODEWISE_ASSIGN_OR_RETURN(
          MadeRegion region, MakeRegion(network_, operations,
                                        FreeName(operations.back()), layouts_));
      regions->push_back(std::move(region));
    }
    return absl::OkStatus();
  }

  absl::Status MakeObserved(const LowerOptions& options,
                            std::vector<MadeRegion>* regions) {
    for (const ObservedRegion& found :
         FindObservedRegions(network_, options.is_observed)) {
      NODEWISE_ASSIGN_OR_RETURN(MadeRegion region,
                                MakeRegion(network_, found.operations,
                                           FreeName(found.operations.back()),
                                           layouts_, found.outputs));
      regions->push_back(std::move(region));
    }
    return absl::OkStatus();
  }

  // An operation may be called as an input is.
  std::string FreeName(OperationId id) {
    const std::string& name = network_.operation(id).name;
    std::string free = name;
    for (int n = 2; !names_.insert(free).second; ++n) {
      free = fmt::format("{}_{}", name, n);
    }
    return free;
  }

  void AddEntry(ValueId id, uint32_t output) {
    const TensorType type = layouts_.TypeOf(network_.value(id));
    GraphEntry entry;
    entry.shape = *type.sizes();
    entry.dtype = type.dtype;
    entry.storage_id = static_cast<int32_t>(graph_.entries.size());
    graph_.entries.push_back(std::move(entry));
    const auto node = static_cast<uint32_t>(graph_.nodes.size());
    entries_[id] = {node, output, 0};
  }

  void AddNode(GraphNode node) {
    graph_.nodes.push_back(std::move(node));
    graph_.node_row_ptr.push_back(static_cast<uint32_t>(graph_.entries.size()));
  }

  void AddInput(ValueId id) {
    GraphNode node;
    node.name = network_.value(id).name;
    graph_.arg_nodes.push_back(static_cast<uint32_t>(graph_.nodes.size()));
    AddEntry(id, 0);
    AddNode(std::move(node));
  }

  void AddParams(absl::Span<const ValueId> values) {
    for (const ValueId id : values) {
      const NetworkValue& value = network_.value(id);
      const bool is_new =
          value.kind == NetworkValue::Kind::kConstant && !entries_.contains(id);
      if (!is_new) continue;
      AddInput(id);
      params_.push_back({value.name, value.data});
    }
  }

  void AddFunction(const MadeRegion& made) {
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
    node.control_deps = WaitsFor(made);
    std::vector<std::string> channels_last;
    for (uint32_t i = 0; i < made.outputs.size(); ++i) {
      AddEntry(made.outputs[i], i);
      if (layouts_.IsLast(made.outputs[i])) {
        channels_last.push_back(std::to_string(i));
      }
    }
    if (!channels_last.empty()) {
      node.attrs.emplace_back(kChannelsLastAttribute, ListText(channels_last));
    }
    for (const std::string& name : made.region.covers) {
      node_of_[*network_.FindOperation(name)] =
          static_cast<uint32_t>(graph_.nodes.size());
    }
    AddNode(std::move(node));
  }

  // The nodes of the operations whose barriers the region waits for.
  std::vector<uint32_t> WaitsFor(const MadeRegion& made) const {
    std::vector<uint32_t> nodes;
    for (const std::string& name : made.region.covers) {
      const OperationId id = *network_.FindOperation(name);
      for (const ValueId barrier : network_.operation(id).after) {
        const auto node = node_of_.find(network_.value(barrier).producer);
        if (node != node_of_.end()) nodes.push_back(node->second);
      }
    }
    return nodes;
  }

  const Network& network_;
  RegionLayouts layouts_;
  Graph graph_;
  std::vector<NamedTensor> params_;
  FunctionNames functions_;
  std::unordered_set<std::string> names_;  // Of nodes.
  std::unordered_map<ValueId, EntryRef> entries_;
  std::unordered_map<OperationId, uint32_t> node_of_;
};

}  // namespace

absl::StatusOr<Lowered> Lower(const Network& network, const std::string& name,
                              const LowerOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckNetwork(network));
  GraphMaker maker(network);
  NODEWISE_RETURN_IF_ERROR(maker.Make(options));
  DiagnosticList diagnostics;
  CheckGraph(maker.graph(), &diagnostics);
  if (diagnostics.HasErrors()) return At(name, diagnostics.ToStatus());
  if (options.reuse_storage) ReuseStorage(&maker.graph());
  // What is found wrong later is shown in the text that is written to a file.
  Lowered lowered;
  NODEWISE_ASSIGN_OR_RETURN(
      lowered.graph,
      ParseGraph(GraphText::FromString(name, WriteGraph(maker.graph()))));
  lowered.params = maker.TakeParams();
  return lowered;
}

}  // namespace nodewise
