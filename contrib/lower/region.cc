#include "nodewise/lower/region.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The names are part of the format of files (docs/formats/graph_json.md).
constexpr std::string_view kNetworkAttribute = "nodewise.network";
constexpr std::string_view kConstantsAttribute = "nodewise.constants";

using Attributes = absl::Span<const std::pair<std::string, std::string>>;

absl::Status WrongList(std::string_view attribute, std::string_view expected) {
  return InvalidArgument("attribute {}: is not a list of {}", attribute,
                         expected);
}

absl::StatusOr<Network> ReadNetwork(const std::string& text, const OpSet& ops) {
  // A graph of a hundred equal layers has the same text a hundred times, and
  // parsing it takes longer than all else that binding does.
  if (const auto kept = ops.memo().Find(text)) {
    return *static_cast<const Network*>(kept.get());
  }
  const std::string where = fmt::format("attribute {}", kNetworkAttribute);
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data,
                            ParseNetworkText(text, ops, where));
  auto network = Network::FromData(std::move(data));
  if (!network.ok()) return At(where, network.status());
  ops.memo().Keep(text, std::make_shared<const Network>(*network));
  return network;
}

absl::StatusOr<std::vector<std::string>> NamesIn(Attributes attrs,
                                                 std::string_view attribute) {
  const std::string* const text = FindAttribute(attrs, attribute);
  if (text == nullptr) return std::vector<std::string>();
  auto names = ParseListText(*text);
  if (!names.has_value()) return WrongList(attribute, "names");
  return *std::move(names);
}

absl::Status ReadConstants(Attributes attrs, Region* region) {
  region->is_constant.resize(region->network.inputs().size());
  NODEWISE_ASSIGN_OR_RETURN(const auto names,
                            NamesIn(attrs, kConstantsAttribute));
  for (const std::string& name : names) {
    bool is_found = false;
    for (size_t i = 0; i < region->is_constant.size(); ++i) {
      const ValueId input = region->network.inputs()[i];
      if (region->network.value(input).name != name) continue;
      region->is_constant[i] = is_found = true;
    }
    if (!is_found) return WrongList(kConstantsAttribute, "its inputs");
  }
  return absl::OkStatus();
}

// Returns a tensor's type with the number that networks have for it: functions
// are shown older numbers of bool and the 8-bit floats.
TensorType TypeOf(const DLTensor& tensor, const NetworkValue& value) {
  TensorType type = TensorType::From(tensor);
  if (value.type.has_dtype() && IsSameType(type.dtype, value.type.dtype)) {
    type.dtype = value.type.dtype;
  }
  return type;
}

absl::Status CheckTensor(const char* role, const NetworkValue& value,
                         const DLTensor& tensor) {
  const TensorType type = TypeOf(tensor, value);
  if (AreCompatible(type, value.type)) return absl::OkStatus();
  return InvalidArgument("{} {}: is {}, expected {}", role, value.name,
                         ToString(type), ToString(value.type));
}

// Later code takes arguments by their number.
absl::Status CheckCounts(const KernelRequest& request, const Network& network) {
  const size_t inputs = request.arguments.size() - request.num_outputs;
  if (inputs == network.inputs().size() &&
      request.num_outputs == network.outputs().size()) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "attribute {}: has {} inputs and {} outputs, expected {} and {}, as the "
      "node has",
      kNetworkAttribute, network.inputs().size(), network.outputs().size(),
      inputs, request.num_outputs);
}

absl::Status CheckTensors(const KernelRequest& request, Region* region) {
  const Network& network = region->network;
  NODEWISE_RETURN_IF_ERROR(CheckCounts(request, network));
  size_t at = 0;
  for (const ValueId input : network.inputs()) {
    NODEWISE_RETURN_IF_ERROR(
        CheckTensor("input", network.value(input), *request.arguments[at++]));
  }
  for (const ValueId output : network.outputs()) {
    const DLTensor& tensor = *request.arguments[at++];
    NODEWISE_RETURN_IF_ERROR(
        CheckTensor("output", network.value(output), tensor));
    // The node knows all sizes, while the text need not.
    region->outputs.push_back(TypeOf(tensor, network.value(output)));
  }
  return absl::OkStatus();
}

}  // namespace

// A region without the list is one of an older file, or made by hand: then all
// of its operations count.
std::vector<OperationId> SourceOperations(const Region& region) {
  std::vector<OperationId> found;
  for (const OperationId id : region.network.order()) {
    const auto& covers = region.covers;
    const std::string& name = region.network.operation(id).name;
    if (covers.empty() || std::ranges::find(covers, name) != covers.end()) {
      found.push_back(id);
    }
  }
  return found;
}

std::string RegionText(Attributes attributes) {
  std::string text;
  // The names of the outputs are left out: they say nothing about what is
  // computed.
  for (const std::string_view name :
       {kNetworkAttribute, kConstantsAttribute, kCoversAttribute}) {
    const std::string* const value = FindAttribute(attributes, name);
    if (value != nullptr) text += fmt::format("{} {}\n", name, *value);
  }
  return text;
}

bool DeclaresRegion(const GraphNode& node) {
  return FindAttribute(node.attrs, kNetworkAttribute) != nullptr;
}

std::vector<std::pair<std::string, std::string>> AttributesOf(
    const Region& region) {
  const Network& network = region.network;
  std::vector<std::string> constants;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    if (!region.is_constant[i]) continue;
    constants.push_back(network.value(network.inputs()[i]).name);
  }
  // Readers of graphs find the network's values by these without parsing the
  // text.
  std::vector<std::string> values;
  for (const ValueId output : network.outputs()) {
    values.push_back(network.value(output).name);
  }
  std::vector<std::pair<std::string, std::string>> attrs;
  attrs.emplace_back(kNetworkAttribute, NetworkToText(network.data()));
  attrs.emplace_back(kCoversAttribute, ListText(region.covers));
  attrs.emplace_back(kValuesAttribute, ListText(values));
  // An empty list would say no more than its absence.
  if (!constants.empty()) {
    attrs.emplace_back(kConstantsAttribute, ListText(constants));
  }
  return attrs;
}

absl::StatusOr<Region> RegionOf(const KernelRequest& request,
                                const OpSet& ops) {
  const std::string* const text =
      FindAttribute(request.attrs, kNetworkAttribute);
  if (text == nullptr) {
    return InvalidArgument(
        "function {}: the node does not say what it computes (it has no "
        "attribute {}, which only nodewise writes)",
        request.function, kNetworkAttribute);
  }
  Region region;
  NODEWISE_ASSIGN_OR_RETURN(region.network, ReadNetwork(*text, ops));
  NODEWISE_RETURN_IF_ERROR(CheckTensors(request, &region));
  NODEWISE_RETURN_IF_ERROR(ReadConstants(request.attrs, &region));
  NODEWISE_ASSIGN_OR_RETURN(region.covers,
                            NamesIn(request.attrs, kCoversAttribute));
  if (!request.changes.empty()) {
    const auto of_inputs =
        request.changes.first(region.network.inputs().size());
    region.changes.assign(of_inputs.begin(), of_inputs.end());
  }
  return region;
}

}  // namespace nodewise
