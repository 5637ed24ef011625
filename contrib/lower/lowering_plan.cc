#include "nodewise/lower/lowering_plan.h"

#include <unordered_set>
#include <utility>

#include "contrib/lower/fusion.h"
#include "contrib/lower/observed_regions.h"
#include "contrib/lower/region_maker.h"
#include "contrib/lower/storage_table.h"
#include "contrib/lower/tensor_layouts.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr char kPass[] = "lowering";

// Names what gives the unknown sides of an input their sizes.
std::string HowToSize(const NetworkValue& input) {
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

absl::Status CheckName(const std::string& name, std::string_view what) {
  const auto read = ParseListText(ListText({&name, 1}));
  if (read.has_value() && (*read)[0] == name) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{} {}: has a name that is not UTF-8, which no graph JSON can hold", what,
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

// In that case it is unknown how often the body runs before it has run.
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
    return fmt::format("{}: nothing but its run can tell them",
                       NameOf(Way::kInputs));
  }
  return fmt::format(
      "{}, whose run tells them, {} for the inputs that decide "
      "them, or {}",
      NameOf(Way::kInputs), NameOf(Way::kFreeze), NameOf(Way::kDims));
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

// The names of nodes. An operation may be called as an input is.
class NodeNames {
 public:
  explicit NodeNames(const Network& network) : network_(network) {
    for (const auto& value : network_.data().values) {
      if (!value.has_value()) continue;
      const bool is_node = value->kind == NetworkValue::Kind::kInput ||
                           value->kind == NetworkValue::Kind::kConstant;
      if (is_node) names_.insert(value->name);
    }
  }

  std::string FreeName(OperationId id) {
    const std::string& name = network_.operation(id).name;
    std::string free = name;
    for (int n = 2; !names_.insert(free).second; ++n) {
      free = fmt::format("{}_{}", name, n);
    }
    return free;
  }

 private:
  const Network& network_;
  std::unordered_set<std::string> names_;
};

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
  NodeNames names(network);
  NodeTable nodes;
  for (const ObservedRegion& region : regions) {
    NODEWISE_ASSIGN_OR_RETURN(
        PlannedNode node, MakeRegion(network, region.operations,
                                     names.FreeName(region.operations.back()),
                                     layouts, region.outputs));
    nodes.push_back(std::move(node));
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
  RegionLayouts layouts{LayoutsOf(network, options, regions),
                        &options.operators};
  NODEWISE_ASSIGN_OR_RETURN(NodeTable nodes,
                            NodesOf(network, regions, layouts));
  StorageTable storage(network.data().values.size(), kOwnStorage);
  if (options.reuse_storage) storage = ShareStorage(network, nodes);
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
