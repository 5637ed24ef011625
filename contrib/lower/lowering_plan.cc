#include "nodewise/lower/lowering_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/types/span.h"
#include "contrib/lower/fusion.h"
#include "contrib/lower/tensor_layouts.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

// Which values of the source lie outside of regions with their channels last.
struct RegionLayouts {
  LayoutTable channels_last;
  const OpSet* operators = nullptr;

  bool IsLast(ValueId id) const {
    return !channels_last.empty() && channels_last[Index(id)];
  }
  TensorType TypeOf(const NetworkValue& value) const {
    return IsLast(value.id) ? WithChannelsLast(value.type) : value.type;
  }
};

absl::StatusOr<OutputInfos> Infer(const Operation& operation,
                                  const std::vector<InputInfo>& infos) {
  const OperatorDef& def = operation.def();
  const Inputs inputs(infos);
  NODEWISE_RETURN_IF_ERROR(def.check(operation.attrs.get(), inputs));
  return def.infer(operation.attrs.get(), inputs, operation.outputs.size());
}

// The operator itself is asked: without what the constant holds, does it tell
// less of its outputs? No table of operators has to say so, and a new operator
// is right from the start.
bool DecidesTypes(const Network& network, const Operation& operation,
                  size_t slot) {
  std::vector<InputInfo> infos = network.InputsOf(operation.id);
  const auto with = Infer(operation, infos);
  infos[slot].constant = nullptr;
  infos[slot].elements = nullptr;
  const auto without = Infer(operation, infos);
  return !with.ok() || !without.ok() ||
         !std::ranges::equal(*with, *without, {}, &OutputInfo::type,
                             &OutputInfo::type);
}

// Makes a network of some operations of another: every value that is made
// elsewhere becomes an input. Constants become inputs too, so that regions that
// differ in their weights alone share a function, unless the types of something
// depend on what they hold, as on the shape of a Reshape.
class RegionMaker {
 public:
  RegionMaker(const Network& source, const std::string& name,
              const RegionLayouts& layouts)
      : source_(source),
        layouts_(layouts),
        made_{{Network(name), {}, {}, {}}, {}, {}, {}} {}

  // `outputs` are values of these operations; empty: those of the last one.
  // REQUIRES: nothing else of them is read by others.
  absl::StatusOr<PlannedNode> Make(const ObservedRegion& region) {
    for (const auto& [domain, version] : source_.data().opsets) {
      NODEWISE_RETURN_IF_ERROR(network().SetOpset(domain, version));
    }
    made_.operations = region.operations;
    for (const OperationId id : region.operations) {
      NODEWISE_RETURN_IF_ERROR(Add(source_.operation(id)));
    }
    NODEWISE_RETURN_IF_ERROR(
        SetOutputs(region.outputs.empty()
                       ? source_.operation(region.operations.back()).outputs
                       : region.outputs));
    return std::move(made_);
  }

 private:
  Network& network() { return made_.region.network; }

  absl::Status Add(const Operation& operation) {
    NewOperation added{.attrs = operation.attrs,
                       .name = operation.name,
                       .origin = operation.origin};
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(added.inputs.emplace_back(),
                                Input(operation, i));
    }
    for (const ValueId output : operation.outputs) {
      added.outputs.push_back(output == kNoValue ? ""
                                                 : source_.value(output).name);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                              network().AddOperation(std::move(added)));
    const std::vector<ValueId>& outputs = network().operation(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != kNoValue) values_[operation.outputs[i]] = outputs[i];
    }
    made_.region.covers.push_back(operation.name);
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Input(const Operation& operation, size_t slot) {
    const ValueId id = operation.inputs[slot];
    if (id == kNoValue) return kNoValue;
    const NetworkValue& value = source_.value(id);
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    if (is_constant && DecidesTypes(source_, operation, slot)) {
      return InnerConstant(value);
    }
    const auto known = values_.find(id);
    if (known != values_.end()) return known->second;
    // Inside, the operation reads the tensor as the network has it, so a
    // Transpose says how it is turned.
    const bool is_last = layouts_.IsLast(id);
    NODEWISE_ASSIGN_OR_RETURN(
        ValueId input,
        network().AddInput(is_last ? NameOfLast(value) : FreeName(value.name),
                           layouts_.TypeOf(value)));
    // One entry for each input, in the order in which they are added.
    made_.region.is_constant.push_back(is_constant);
    made_.inputs.push_back(id);
    if (is_last) {
      NODEWISE_ASSIGN_OR_RETURN(
          input, Transposed(input, value, FreeName(value.name), false));
    }
    values_[id] = input;
    return input;
  }

  // Another value may have such a name by chance.
  std::string NameOfLast(const NetworkValue& value) {
    std::string name = value.name + ".channels_last";
    while (source_.HasValue(name)) name += '_';
    return FreeName(name);
  }

  // Adds the operation by which the region says how `value` lies outside.
  absl::StatusOr<ValueId> Transposed(ValueId from, const NetworkValue& value,
                                     std::string name, bool to_last) {
    const int rank = value.type.rank();
    const ops::Transpose op{to_last ? SidesToChannelsLast(rank)
                                    : SidesToChannelsFirst(rank)};
    std::string operation = NameOfLast(value);
    while (source_.HasOperation(operation)) operation += '_';
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        network().Add(*layouts_.operators, op, {from}, operation));
    NODEWISE_RETURN_IF_ERROR(network().Rename(made, std::move(name)));
    return made;
  }

  // A constant may be an input of the region as well, for another operation
  // that reads it.
  absl::StatusOr<ValueId> InnerConstant(const NetworkValue& value) {
    const auto [known, is_new] = constants_.emplace(value.id, kNoValue);
    if (is_new) {
      NODEWISE_ASSIGN_OR_RETURN(
          known->second,
          network().AddConstant(FreeName(value.name), value.data));
    }
    return known->second;
  }

  // Names of values that come later must not be taken either.
  std::string FreeName(std::string name) {
    if (!network().HasValue(name)) return name;
    do {
      name += '_';
    } while (network().HasValue(name) || source_.HasValue(name));
    return name;
  }

  absl::Status SetOutputs(absl::Span<const ValueId> wanted) {
    std::vector<ValueId> outputs;
    for (const ValueId output : wanted) {
      if (output == kNoValue) continue;
      const NetworkValue& value = source_.value(output);
      made_.outputs.push_back(output);
      made_.region.outputs.push_back(layouts_.TypeOf(value));
      outputs.push_back(values_.at(output));
      if (!layouts_.IsLast(output)) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          outputs.back(),
          Transposed(outputs.back(), value, NameOfLast(value), true));
    }
    return network().SetOutputs(std::move(outputs));
  }

  const Network& source_;
  const RegionLayouts& layouts_;
  PlannedNode made_;
  std::unordered_map<ValueId, ValueId> values_;     // From the source's.
  std::unordered_map<ValueId, ValueId> constants_;  // Those inside.
};

// Lets what nodes make share memory where it is not needed at the same time:
// no node writes where it reads, and what is an output of the network shares
// with nothing that is made later. Walks over the nodes in their order, handing
// memory out and taking it back.
class StorageSharer {
 public:
  StorageSharer(const Network& network, const NodeTable& nodes)
      : nodes_(nodes),
        table_(network.data().values.size(), kOwnStorage),
        last_read_(table_.size(), -1) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const ValueId input : nodes[n].inputs) {
        last_read_[Index(input)] = static_cast<int64_t>(n);
      }
    }
    for (const ValueId output : network.outputs()) {
      last_read_[Index(output)] = INT64_MAX;
    }
  }

  StorageTable Share() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const auto node = static_cast<int64_t>(n);
      ReclaimStorage(node);
      for (size_t i = 0; i < nodes_[n].outputs.size(); ++i) {
        Place(nodes_[n].outputs[i], nodes_[n].region.outputs[i], node);
      }
    }
    return std::move(table_);
  }

 private:
  struct Block {
    int32_t number = 0;
    size_t bytes = 0;
  };

  // A storage that is last read by an earlier node is free: a node that still
  // reads it must not write there.
  void ReclaimStorage(int64_t node) {
    const auto end = used_.lower_bound(node);
    for (auto at = used_.begin(); at != end; ++at) {
      free_.emplace(at->second.bytes, at->second);
    }
    used_.erase(used_.begin(), end);
  }

  void Place(ValueId value, const TensorType& type, int64_t node) {
    const auto sizes = type.sizes();
    const size_t bytes =
        sizes.has_value() ? TensorBytes(*sizes, type.dtype).value_or(0) : 0;
    if (bytes == 0) return;
    Block block{num_blocks_, bytes};
    // The smallest block that is large enough, or else the largest one, which
    // grows.
    auto found = free_.lower_bound(bytes);
    if (found == free_.end() && !free_.empty()) found = std::prev(found);
    if (found != free_.end()) {
      block = {found->second.number, std::max(found->first, bytes)};
      free_.erase(found);
    } else {
      ++num_blocks_;
    }
    table_[Index(value)] = block.number;
    // A value that nothing reads is written all the same.
    used_.emplace(std::max(last_read_[Index(value)], node), block);
  }

  const NodeTable& nodes_;
  StorageTable table_;
  std::vector<int64_t> last_read_;  // By value: the node; -1: none.
  int32_t num_blocks_ = 0;
  std::multimap<int64_t, Block> used_;  // By the last node that needs it.
  std::multimap<size_t, Block> free_;   // By size.
};

constexpr char kPass[] = "lowering";

// Names what gives the unknown sides of an input their sizes. Each unknown side
// has a way of its own, by its name or by its place; freezing the input or
// giving a file settles all of them.
std::string InputSizeHint(const NetworkValue& input) {
  const auto& shape = input.type.shape;
  const std::string_view dims = NameOf(Way::kDims);
  std::string options;
  for (size_t i = 0; shape.has_value() && i < shape->size(); ++i) {
    const Dim& side = (*shape)[i];
    if (side.is_known()) continue;
    options += side.name().empty()
                   ? fmt::format("{} {}:{}=N or ", dims, input.name, i)
                   : fmt::format("{} {}=N or ", dims, side.name());
  }
  return fmt::format("{}{} {}=FILE or {}", options, NameOf(Way::kFreeze),
                     input.name, NameOf(Way::kInputs));
}

// Names become JSON texts, in which other bytes cannot be written.
absl::Status CheckName(const std::string& name, std::string_view what) {
  const auto read = ParseListText(ListText({&name, 1}));
  if (read.has_value() && (*read)[0] == name) return absl::OkStatus();
  return Unimplemented(
      "{} {}: has a name that is not UTF-8, which no graph JSON can hold", what,
      Printable(name));
}

// Executors allocate everything before they run.
absl::Status CheckType(const NetworkValue& value, const std::string& place,
                       const std::string& how) {
  if (!value.type.has_dtype() || !value.type.is_static()) {
    return Unimplemented(
        "{}: is {}, expected all its sizes known before the run ({})", place,
        ToString(value.type), how);
  }
  const absl::Status status = CheckDType(value.type.dtype);
  if (status.ok()) return status;
  return Unimplemented("{}: {}", place, MessageOf(status));
}

// In that case it is unknown how often the body runs before it has run.
bool IsConditionalLoop(const Operation& operation) {
  return operation.attrs.As<ops::Loop>() != nullptr &&
         operation.inputs.size() > 1 && operation.inputs[1] != kNoValue;
}

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

std::string ResultSizeHint(const Network& network, const Operation& operation,
                           ValueId result) {
  if (IsConditionalLoop(operation) || !DependsOnInputs(network, result)) {
    return fmt::format("{}: nothing but its run can tell them",
                       NameOf(Way::kInputs));
  }
  return fmt::format(
      "{}, whose run tells them, {} for the inputs that decide them, or {}",
      NameOf(Way::kInputs), NameOf(Way::kFreeze), NameOf(Way::kDims));
}

// Everything is checked before anything is planned, so that an error names a
// value of the network and not a node that the user has never seen.
absl::Status CheckNetwork(const Network& network) {
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(CheckName(value->name, "value"));
  }
  for (const ValueId id : network.inputs()) {
    const NetworkValue& input = network.value(id);
    NODEWISE_RETURN_IF_ERROR(
        CheckType(input, "input " + input.name, InputSizeHint(input)));
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
                        : ResultSizeHint(network, operation, output)));
    }
  }
  return absl::OkStatus();
}

// Returns the names that graphs have before there is a node. An operation may
// be called as an input is, and graphs have one set of names for all.
std::unordered_set<std::string> NamesBeforeNodes(const Network& network) {
  std::unordered_set<std::string> names;
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    const bool is_node = value->kind == NetworkValue::Kind::kInput ||
                         value->kind == NetworkValue::Kind::kConstant;
    if (is_node) names.insert(value->name);
  }
  return names;
}

std::string FreeName(const std::string& name,
                     std::unordered_set<std::string>* taken) {
  std::string free = name;
  for (int n = 2; !taken->insert(free).second; ++n) {
    free = fmt::format("{}_{}", name, n);
  }
  return free;
}

// Which operations become one node, and what of them others read.
std::vector<ObservedRegion> RegionsOf(const Network& network,
                                      const LowerOptions& options) {
  if (options.is_observed != nullptr) {
    return FindObservedRegions(network, options.is_observed);
  }
  std::vector<ObservedRegion> regions;
  for (auto& operations : FindRegions(network, options.fuse)) {
    regions.push_back({std::move(operations), {}});
  }
  return regions;
}

LayoutTable LayoutsOf(const Network& network, const LowerOptions& options,
                      const std::vector<ObservedRegion>& regions) {
  // Observed values are shown as the network has them.
  if (options.preference_of == nullptr || options.is_observed != nullptr) {
    return {};
  }
  std::vector<std::vector<OperationId>> operations;
  for (const ObservedRegion& region : regions) {
    operations.push_back(region.operations);
  }
  return ChooseChannelsLast(network, operations, options.preference_of);
}

absl::StatusOr<NodeTable> NodesOf(const Network& network,
                                  const std::vector<ObservedRegion>& regions,
                                  const RegionLayouts& layouts) {
  std::unordered_set<std::string> names = NamesBeforeNodes(network);
  NodeTable nodes;
  for (const ObservedRegion& region : regions) {
    const std::string& name = network.operation(region.operations.back()).name;
    RegionMaker maker(network, FreeName(name, &names), layouts);
    NODEWISE_ASSIGN_OR_RETURN(nodes.emplace_back(), maker.Make(region));
  }
  return nodes;
}

std::shared_ptr<const KernelTable> KernelsOf(const NodeTable& nodes,
                                             const LowerOptions& options) {
  if (options.makers.empty()) return nullptr;
  auto table = std::make_shared<KernelTable>();
  for (const PlannedNode& node : nodes) {
    table->Add(node.region, ChooseKernel(options.makers, node.region));
  }
  return table;
}

}  // namespace
absl::StatusOr<LoweringPlan> LoweringPlan::Make(const Network& network,
                                                const LowerOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckNetwork(network));
  const std::vector<ObservedRegion> regions = RegionsOf(network, options);
  // The tables follow from each other: layouts need the regions, nodes both,
  // storage and kernels the nodes.
  RegionLayouts layouts{LayoutsOf(network, options, regions),
                        &options.operators};
  NODEWISE_ASSIGN_OR_RETURN(NodeTable nodes,
                            NodesOf(network, regions, layouts));
  StorageTable storage(network.data().values.size(), kOwnStorage);
  if (options.reuse_storage) storage = StorageSharer(network, nodes).Share();
  Kernels kernels = KernelsOf(nodes, options);
  return LoweringPlan(
      network.version(),
      SideTable(network, kPass, std::move(layouts.channels_last)),
      SideTable(network, kPass, std::move(nodes)),
      SideTable(network, kPass, std::move(storage)),
      SideTable(network, kPass, std::move(kernels)));
}

absl::StatusOr<std::shared_ptr<const KernelTable>> LoweringPlan::kernels()
    const {
  NODEWISE_ASSIGN_OR_RETURN(const Kernels* const kernels, kernels_.Get());
  return *kernels;
}

}  // namespace nodewise
