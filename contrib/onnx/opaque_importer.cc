// Imports nodes whose operators are not known, as opaque operations.

#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/opaque_node.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns what a value of the scope is called in the network.
std::string NameIn(const Scope& scope, const std::string& name) {
  const auto renamed = scope.renamed.find(name);
  return renamed != scope.renamed.end() ? renamed->second : scope.prefix + name;
}

}  // namespace

// Notes what a graph says about its values, by the names that they get.
void GraphImporter::StateTypes(const proto::Graph& graph, const Scope& scope) {
  const auto state = [&](const proto::ValueInfo& info) {
    stated_.emplace(NameIn(scope, info.name()), &info);
  };
  for (const proto::ValueInfo& info : graph.value_info()) state(info);
  for (const proto::ValueInfo& info : graph.output()) state(info);
}

// Returns whether all that the node reads are tensors, and the model states
// that so is all that it makes.
bool GraphImporter::IsAmongTensors(const proto::Node& node, Scope* scope) {
  for (const std::string& input : node.input()) {
    if (input.empty()) continue;
    const Binding* const binding = Find(scope, input);
    if (binding == nullptr || binding->is_broken) return false;
  }
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    const auto stated = stated_.find(NameIn(*scope, output));
    if (stated == stated_.end()) return false;
    const auto type = ReadType(stated->second->type(), DimsOf(*scope));
    if (!type.ok() || !type->has_dtype()) return false;
  }
  return true;
}

absl::StatusOr<std::vector<TensorType>> GraphImporter::StatedTypes(
    const std::vector<std::string>& outputs, const Scope& scope) {
  std::vector<TensorType> types(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto stated = stated_.find(outputs[i]);
    if (stated != stated_.end()) {
      auto type = ReadType(stated->second->type(), DimsOf(scope));
      if (!type.ok()) {
        return At(fmt::format("output {} ({})", i, Shortened(outputs[i])),
                  type.status());
      }
      types[i] = *std::move(type);
    }
    for (const auto& [name, type] : state_.options.opaque_types) {
      if (name == outputs[i]) types[i] = type;
    }
  }
  return types;
}

// Returns the operation without what depends on the network.
absl::StatusOr<ops::Opaque> GraphImporter::MakeOpaque(const proto::Node& node,
                                                      const Scope& scope) {
  proto::Node kept = node;
  if (!scope.calls.empty()) {
    ResolveAttributes(
        [&](const std::string& name) -> const proto::Attribute* {
          const auto value = scope.attributes.find(name);
          return value == scope.attributes.end() ? nullptr : value->second;
        },
        &kept);
  }
  NODEWISE_RETURN_IF_ERROR(BringDataIn(&state_.tensors, &kept));
  bool has_bodies = false;
  bool calls_function = false;
  VisitBodyNodes(kept, [&](const proto::Node& inner) {
    has_bodies = true;
    calls_function |=
        state_.functions.count(
            {DomainOf(inner.domain()), inner.op_type(), inner.overload()}) > 0;
  });
  if (calls_function) {
    return absl::UnimplementedError(
        "calls a function of the model in one of its bodies, expected "
        "operators there");
  }
  ops::Opaque opaque;
  opaque.op_type = kept.op_type();
  opaque.domain = DomainOf(kept.domain());
  opaque.version = scope.opsets->at(opaque.domain);
  opaque.captures = CapturesOf(kept);
  if (has_bodies) {
    for (const auto& [domain, version] : state_.opsets) {
      opaque.body_domains.push_back(domain);
      opaque.body_versions.push_back(version);
    }
  }
  opaque.node = kept.SerializeAsString();
  if (scope.calls.empty()) return opaque;
  if (opaque.node.size() > state_.opaque_bytes_left) {
    return absl::ResourceExhaustedError(
        "is in a function that is called too often, expected less than 1 GiB "
        "of such nodes");
  }
  state_.opaque_bytes_left -= opaque.node.size();
  return opaque;
}

// Adds what bodies read to the inputs; false if something is missing.
bool GraphImporter::ReadCaptures(const proto::Node& node,
                                 const std::vector<std::string>& names,
                                 NodeParts* parts, Scope* scope) {
  bool is_whole = true;
  for (const std::string& name : names) {
    const Binding* const found = Find(scope, name);
    if (found == nullptr) {
      ReportMissing(node, name, static_cast<int>(parts->inputs.size()),
                    parts->where);
    } else if (found->value == kNoValue && !found->is_broken) {
      state_.Error(
          parts->where,
          fmt::format("a body reads {}, which is not given", Shortened(name)),
          "a value");
    }
    is_whole = is_whole && found != nullptr && found->value != kNoValue;
    parts->inputs.push_back(found == nullptr ? kNoValue : found->value);
  }
  return is_whole;
}

bool GraphImporter::KeepsOpaque(bool is_of_model) const {
  return state_.options.keep_opaque && is_of_model &&
         state_.ops.FindType(&kTypeTag<ops::Opaque>) != nullptr;
}

// Reports what is wrong with an operation whose operator is known. If that is
// only not supported as it is here, it becomes opaque.
void GraphImporter::Refuse(const absl::Status& why, const proto::Node& node,
                           std::vector<std::string> outputs, NodeParts* parts,
                           Scope* scope) {
  const std::string domain = DomainOf(node.domain());
  const auto model = state_.opsets.find(domain);
  const auto own = scope->opsets->find(domain);
  const bool is_of_model = model != state_.opsets.end() &&
                           own != scope->opsets->end() &&
                           own->second == model->second;
  // What is opaque already is at fault itself.
  if (parts->is_opaque || !absl::IsUnimplemented(why) ||
      !KeepsOpaque(is_of_model)) {
    state_.Error(parts->where, why);
    return BreakOutputs(node, parts->where, scope);
  }
  state_.AddOfOperator(network_kinds::kUnsupported, parts->where, parts->name,
                       OperatorName(node), Severity::kWarning,
                       fmt::format("becomes opaque: {}", MessageOf(why)), "");
  parts->is_opaque = true;
  parts->inputs.clear();
  ImportOpaque(node, std::move(outputs), parts, scope);
}

void GraphImporter::ImportOpaque(const proto::Node& node,
                                 std::vector<std::string> outputs,
                                 NodeParts* parts, Scope* scope) {
  const bool has_inputs = ReadInputs(node, parts, scope);
  auto opaque = MakeOpaque(node, *scope);
  auto types = StatedTypes(outputs, *scope);
  if (!opaque.ok()) state_.Error(parts->where, opaque.status());
  if (!types.ok()) state_.Error(parts->where, types.status());
  if (!opaque.ok() || !types.ok() || !has_inputs ||
      !ReadCaptures(node, opaque->captures, parts, scope)) {
    return BreakOutputs(node, parts->where, scope);
  }
  // Nothing can depend on a node without outputs.
  if (outputs.empty()) return;
  opaque->types = *std::move(types);
  for (size_t i = 0; i < parts->inputs.size(); ++i) {
    const ValueId input = parts->inputs[i];
    if (input != kNoValue &&
        network_.value(input).kind == NetworkValue::Kind::kConstant) {
      opaque->constants.push_back(static_cast<int64_t>(i));
    }
  }
  absl::Status status = network_.opset(kOpaqueDomain) == 0
                            ? network_.SetOpset(std::string(kOpaqueDomain), 1)
                            : absl::OkStatus();
  if (!status.ok()) {
    state_.Error(parts->where, status);
    return BreakOutputs(node, parts->where, scope);
  }
  AddOperation(
      node, OpAttrs::Of(state_.ops.FindType(&kTypeTag<ops::Opaque>), *opaque),
      std::move(outputs), parts, scope);
}

}  // namespace nodewise
