#include "contrib/repro/hidden_network.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The domains of a network's operations; those in bodies count, too. A domain
// that no operation needs would only say where a model is from.
void AddDomains(const NetworkData& data, std::set<std::string>* domains) {
  for (const auto& operation : data.operations) {
    if (!operation) continue;
    domains->insert(std::string(operation->def().domain));
    for (const NamedAttr& attr : NamedAttrsOf(operation->attrs)) {
      const auto* const body = std::get_if<Subgraph>(&attr.value);
      if (body == nullptr || body->body == nullptr) continue;
      AddDomains(body->body->data(), domains);
    }
  }
}

void DropDomains(NetworkData* data) {
  std::set<std::string> domains = {""};
  AddDomains(*data, &domains);
  std::erase_if(data->opsets, [&](const auto& opset) {
    return !domains.contains(opset.first);
  });
}

}  // namespace

std::string WordOfKind(std::string_view kind) {
  return absl::AsciiStrToLower(PlainName(kind));
}

std::string NetworkHider::Numbered(std::string_view what) {
  std::string name(what);
  name += std::to_string(++counts_[name]);
  return name;
}

std::string NetworkHider::NameOfSide(const std::string& name) {
  std::string& side = sides_[name];
  if (side.empty()) side = Numbered("d");
  return side;
}

Shape NetworkHider::Hidden(Shape shape) {
  for (Dim& dim : shape) {
    if (!dim.name().empty()) dim = Dim::Named(NameOfSide(dim.name()));
  }
  return shape;
}

TensorType NetworkHider::Hidden(TensorType type) {
  if (type.shape) type.shape = Hidden(*std::move(type.shape));
  return type;
}

// Inputs of a body get numbered names, since nothing outside knows them.
absl::StatusOr<Network> NetworkHider::HiddenBody(const Network& body) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    inputs.push_back(Numbered("x"));
  }
  // No node covers operations of bodies, so their new names are not kept.
  const auto operations = operations_;
  auto hidden = Hidden(body, Numbered("body"), inputs);
  operations_ = operations;
  return hidden;
}

// Two kinds of attributes have names inside: bodies, and types whose sides have
// names.
absl::StatusOr<AttrValue> NetworkHider::Hidden(const AttrField& field,
                                               AttrValue value) {
  if (auto* const graph = std::get_if<Subgraph>(&value)) {
    if (graph->body == nullptr) return value;
    NODEWISE_ASSIGN_OR_RETURN(Network body, HiddenBody(*graph->body));
    graph->body = ShareNetwork(std::move(body));
    return value;
  }
  auto* const types = std::get_if<std::vector<std::string>>(&value);
  if (types == nullptr || !field.is_types) return value;
  for (std::string& text : *types) {
    NODEWISE_ASSIGN_OR_RETURN(TensorType type, ParseTensorType(text));
    text = ToString(Hidden(std::move(type)));
  }
  return value;
}

absl::StatusOr<OpAttrs> NetworkHider::Hidden(const OpAttrs& attrs) {
  const OperatorDef& def = attrs.def();
  if (const auto* const opaque = attrs.As<ops::Opaque>()) {
    NODEWISE_ASSIGN_OR_RETURN(ops::Opaque plain, PlainOpaque(*opaque));
    for (TensorType& type : plain.types) type = Hidden(std::move(type));
    return OpAttrs::From(&def, plain);
  }
  std::vector<NamedAttr> named;
  bool has_names = false;
  for (const AttrField& field : def.fields) {
    auto value = field.get(attrs.get());
    if (!value) continue;
    has_names = has_names || field.is_graph || field.is_types;
    NODEWISE_ASSIGN_OR_RETURN(auto hidden, Hidden(field, *std::move(value)));
    named.push_back({std::string(field.name), std::move(hidden)});
  }
  if (!has_names) return attrs;
  return MakeAttrs(def, named);
}

// Values are named by what they are: "c" for constants, and "t" for all others
// but the inputs.
void NetworkHider::HideValues(absl::Span<const std::string> inputs,
                              NetworkData* data) {
  for (auto& value : data->values) {
    if (!value || value->kind == NetworkValue::Kind::kBarrier) continue;
    value->name =
        Numbered(value->kind == NetworkValue::Kind::kConstant ? "c" : "t");
    value->type = Hidden(std::move(value->type));
    if (value->found) value->found = Hidden(*std::move(value->found));
    if (value->elements) value->elements = Hidden(*std::move(value->elements));
    value->folded_from.clear();
  }
  for (size_t i = 0; i < data->inputs.size(); ++i) {
    data->values[Index(data->inputs[i])]->name = inputs[i];
  }
}

absl::Status NetworkHider::HideOperations(NetworkData* data) {
  operations_.clear();
  for (auto& operation : data->operations) {
    if (!operation) continue;
    const std::string name = Numbered(WordOfKind(operation->kind()) + "_");
    operations_[operation->name] = name;
    operation->name = name;
    // The origin has modules, files and lines of the program that made the
    // model.
    operation->origin = nullptr;
    NODEWISE_ASSIGN_OR_RETURN(operation->attrs, Hidden(operation->attrs));
  }
  return absl::OkStatus();
}

absl::StatusOr<Network> NetworkHider::Hidden(
    const Network& network, const std::string& name,
    absl::Span<const std::string> inputs) {
  NetworkData data = network.data();
  data.name = name;
  HideValues(inputs, &data);
  NODEWISE_RETURN_IF_ERROR(HideOperations(&data));
  DropDomains(&data);
  return Network::FromData(std::move(data));
}

absl::StatusOr<Region> NetworkHider::Hidden(
    const Region& region, const std::string& name,
    absl::Span<const std::string> inputs) {
  Region hidden = region;
  NODEWISE_ASSIGN_OR_RETURN(hidden.network,
                            Hidden(region.network, name, inputs));
  for (std::string& covered : hidden.covers) {
    // An operation without a new name says nothing either.
    const auto found = operations_.find(covered);
    covered = found == operations_.end() ? "" : found->second;
  }
  std::erase(hidden.covers, "");
  return hidden;
}

}  // namespace nodewise
