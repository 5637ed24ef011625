// Nodes whose operators are not known here, for a program that knows them: kept
// byte for byte as an operation, and written again under the names that its
// values have by then. Bodies are nested no deeper than protobuf reads
// messages, so that recursion over them ends.

#include "contrib/onnx/opaque_node.h"

#include <map>
#include <set>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using NameVisitor = absl::FunctionRef<void(std::string*)>;

template <typename Names>
void AddInputNames(const proto::Graph& graph, Names* names) {
  for (const auto& input : graph.input()) names->insert(input.name());
  for (const auto& tensor : graph.initializer()) names->insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) {
    names->insert(tensor.values().name());
  }
}

// Names that are made in a body or around it, up to the node.
struct BodyScope {
  const BodyScope* outer = nullptr;
  std::set<std::string, std::less<>> names;

  bool Has(const std::string& name) const {
    return names.contains(name) || (outer != nullptr && outer->Has(name));
  }
};

// Calls `visit` with every place in the node's bodies that names a value from
// around the node.
void VisitCaptures(const BodyScope* outer, NameVisitor visit,
                   proto::Node* node) {
  for (proto::Attribute& attribute : *node->mutable_attribute()) {
    if (!attribute.has_g()) continue;
    proto::Graph& body = *attribute.mutable_g();
    BodyScope scope{outer, {}};
    AddInputNames(body, &scope.names);
    for (proto::Node& inner : *body.mutable_node()) {
      for (std::string& input : *inner.mutable_input()) {
        if (!input.empty() && !scope.Has(input)) visit(&input);
      }
      VisitCaptures(&scope, visit, &inner);
      scope.names.insert(inner.output().begin(), inner.output().end());
    }
    for (proto::ValueInfo& output : *body.mutable_output()) {
      if (!scope.Has(output.name())) visit(output.mutable_name());
    }
  }
}

absl::Status InlineExternal(TensorReader* tensors, proto::Tensor* tensor) {
  if (tensor->data_location() != kExternalData) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray data, tensors->Read(*tensor));
  const std::string name = tensor->name();
  tensor->Clear();
  tensor->set_name(name);
  return WriteTensor(data, tensor);
}

absl::Status InlineExternalData(TensorReader* tensors, proto::Node* node);

absl::Status InlineExternal(TensorReader* tensors,
                            proto::Attribute* attribute) {
  switch (TypeOf(*attribute)) {
    case AttributeType::kTensor:
      return InlineExternal(tensors, attribute->mutable_t());
    case AttributeType::kGraph:
      for (auto& tensor : *attribute->mutable_g()->mutable_initializer()) {
        NODEWISE_RETURN_IF_ERROR(InlineExternal(tensors, &tensor));
      }
      for (proto::Node& node : *attribute->mutable_g()->mutable_node()) {
        NODEWISE_RETURN_IF_ERROR(InlineExternalData(tensors, &node));
      }
      return absl::OkStatus();
    case AttributeType::kTensors:
    case AttributeType::kGraphs:
      return Unimplemented(
          "is a list of tensors or graphs, expected single ones");
    default:
      return absl::OkStatus();
  }
}

// Brings data that lie in other files into the node, in bodies too. Fails as
// TensorReader, and with kUnimplemented for a node that may have bodies or
// tensors which are not read here.
absl::Status InlineExternalData(TensorReader* tensors, proto::Node* node) {
  for (proto::Attribute& attribute : *node->mutable_attribute()) {
    NODEWISE_RETURN_IF_ERROR(
        At(fmt::format("attribute {}", Shortened(attribute.name())),
           InlineExternal(tensors, &attribute)));
  }
  return absl::OkStatus();
}

// Puts values in the place of references to a function's attributes, in bodies
// too; a reference to one that the call does not give is taken away.
void ResolveAttributes(const AttributesByName& values, proto::Node* node) {
  auto& attributes = *node->mutable_attribute();
  for (int i = attributes.size(); i-- > 0;) {
    proto::Attribute& attribute = attributes[i];
    if (attribute.has_g()) {
      for (proto::Node& inner : *attribute.mutable_g()->mutable_node()) {
        ResolveAttributes(values, &inner);
      }
    }
    if (attribute.ref_attr_name().empty()) continue;
    const auto* const value = FindOrNull(values, attribute.ref_attr_name());
    if (value == nullptr) {
      attributes.DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute.name();
    attribute = **value;
    attribute.set_name(name);
  }
}

void VisitBodyNodes(const proto::Node& node,
                    absl::FunctionRef<void(const proto::Node&)> visit) {
  for (const proto::Attribute& attribute : node.attribute()) {
    for (const proto::Node& inner : attribute.g().node()) {
      visit(inner);
      VisitBodyNodes(inner, visit);
    }
  }
}

void AddOwnNames(const proto::Node& node, std::set<std::string>* names) {
  for (const proto::Attribute& attribute : node.attribute()) {
    AddInputNames(attribute.g(), names);
    for (const proto::Node& inner : attribute.g().node()) {
      names->insert(inner.output().begin(), inner.output().end());
      AddOwnNames(inner, names);
    }
  }
}

// Gives what bodies read from around the node other names. A body that has a
// value of such a name would read that one instead, so this is refused.
absl::Status Rename(const std::vector<std::string>& from,
                    absl::Span<const std::string> to, proto::Node* node) {
  std::set<std::string> own;
  AddOwnNames(*node, &own);
  std::map<std::string, std::string> renamed;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && own.contains(to[i])) {
      return InvalidArgument(
          "{}, which its body reads, has the name of a value in it, expected "
          "another name",
          Shortened(to[i]));
    }
    renamed.emplace(from[i], to[i]);
  }
  VisitCaptures(
      nullptr,
      [&](std::string* name) {
        if (const auto* const found = FindOrNull(renamed, *name)) {
          *name = *found;
        }
      },
      node);
  return absl::OkStatus();
}

// Takes away what a node and those in its bodies are called and what people and
// tools have noted, none of which says what they compute.
void ForgetNotes(proto::Node* node) {
  node->clear_name();
  node->clear_doc_string();
  node->clear_metadata_props();
  node->mutable_unknown_fields()->clear();
  for (proto::Attribute& attribute : *node->mutable_attribute()) {
    if (!attribute.has_g()) continue;
    for (proto::Node& inner : *attribute.mutable_g()->mutable_node()) {
      ForgetNotes(&inner);
    }
  }
}

std::string NameIn(const Scope& scope, const std::string& name) {
  const std::string* const renamed = FindOrNull(scope.renamed, name);
  return renamed != nullptr ? *renamed : scope.prefix + name;
}

}  // namespace

std::vector<std::string> CapturesOf(const proto::Node& node) {
  // The visitor may rename, so it is given a copy.
  proto::Node copy = node;
  std::vector<std::string> names;
  std::set<std::string> taken;
  VisitCaptures(
      nullptr,
      [&](std::string* name) {
        if (taken.insert(*name).second) names.push_back(*name);
      },
      &copy);
  return names;
}

absl::StatusOr<proto::Node> NodeOf(const ops::Opaque& opaque,
                                   const NodeNames& names) {
  proto::Node node;
  // The bytes are an attribute, which a user of the network may have set.
  if (!node.ParseFromString(opaque.node) || node.op_type() != opaque.op_type ||
      DomainOf(node.domain()) != opaque.domain ||
      opaque.captures.size() > names.inputs.size() ||
      CapturesOf(node) != opaque.captures) {
    return DataLoss(
        "attribute node: holds no node of {}, expected what an import has put "
        "there",
        Shortened(NameOf(opaque)));
  }
  const size_t own = names.inputs.size() - opaque.captures.size();
  NODEWISE_RETURN_IF_ERROR(Rename(
      opaque.captures, absl::MakeSpan(names.inputs).subspan(own), &node));
  node.set_name(names.name);
  node.clear_input();
  node.clear_output();
  size_t given = own;
  while (given > 0 && names.inputs[given - 1].empty()) --given;
  for (size_t i = 0; i < given; ++i) node.add_input(names.inputs[i]);
  for (const std::string& output : names.outputs) node.add_output(output);
  return node;
}

absl::StatusOr<ops::Opaque> PlainOpaque(const ops::Opaque& opaque) {
  // What bodies read from around them has to be called as in the bodies.
  NODEWISE_ASSIGN_OR_RETURN(
      proto::Node node,
      NodeOf(opaque, {/*name=*/"", opaque.captures, /*outputs=*/{}}));
  ForgetNotes(&node);
  ops::Opaque plain = opaque;
  plain.node = node.SerializeAsString();
  return plain;
}

void GraphImporter::StateTypes(const proto::Graph& graph, const Scope& scope) {
  for (const auto* list : {&graph.value_info(), &graph.output()}) {
    for (const proto::ValueInfo& info : *list) {
      stated_.emplace(NameIn(scope, info.name()), &info);
    }
  }
}

// Inputs must be tensors, and the model must state that all outputs are
// tensors, too: nothing here can infer their types.
bool GraphImporter::IsAmongTensors(const NodeParts& parts) {
  for (const std::string& input : parts.node.input()) {
    if (input.empty()) continue;
    const Binding* const binding = Find(&parts.scope, input);
    if (binding == nullptr || binding->is_broken) return false;
  }
  for (const std::string& output : parts.node.output()) {
    if (output.empty()) continue;
    const auto* const stated = FindOrNull(stated_, NameIn(parts.scope, output));
    if (stated == nullptr) return false;
    const auto type = ReadType((*stated)->type(), DimsOf(parts.scope));
    if (!type.ok() || !type->has_dtype()) return false;
  }
  return true;
}

// What the caller of the import says of an output counts more than the model.
absl::StatusOr<std::vector<TensorType>> GraphImporter::StatedTypes(
    const std::vector<std::string>& outputs, const Scope& scope) {
  std::vector<TensorType> types(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (const auto* const stated = FindOrNull(stated_, outputs[i])) {
      auto type = ReadType((*stated)->type(), DimsOf(scope));
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

// Returns the operation without what depends on the network. Its node has to
// mean the same without the model: it gets its data in, the values of the call
// that it is in, and the versions by which operators in its bodies are meant.
absl::StatusOr<ops::Opaque> GraphImporter::MakeOpaque(const NodeParts& parts) {
  const Scope& scope = parts.scope;
  proto::Node kept = parts.node;
  if (!scope.calls.empty()) ResolveAttributes(scope.attributes, &kept);
  NODEWISE_RETURN_IF_ERROR(InlineExternalData(&state_.tensors, &kept));
  bool has_bodies = false;
  bool calls_function = false;
  VisitBodyNodes(kept, [&](const proto::Node& inner) {
    has_bodies = true;
    calls_function |= state_.functions.contains(
        {DomainOf(inner.domain()), inner.op_type(), inner.overload()});
  });
  if (calls_function) {
    return Unimplemented(
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
    return ResourceExhausted(
        "is in a function that is called too often, expected less than 1 GiB "
        "of such nodes");
  }
  state_.opaque_bytes_left -= opaque.node.size();
  return opaque;
}

bool GraphImporter::ReadCaptures(const std::vector<std::string>& names,
                                 NodeParts& parts) {
  bool is_whole = true;
  for (const std::string& name : names) {
    const Binding* const found = Find(&parts.scope, name);
    if (found == nullptr) {
      ReportMissing(parts, name, parts.inputs.size());
    } else if (found->value == kNoValue && !found->is_broken) {
      state_.Error(
          parts.where,
          fmt::format("a body reads {}, which is not given", Shortened(name)),
          "a value");
    }
    is_whole = is_whole && found != nullptr && found->value != kNoValue;
    parts.inputs.push_back(found == nullptr ? kNoValue : found->value);
  }
  return is_whole;
}

bool GraphImporter::KeepsOpaque(bool is_of_model) const {
  return state_.options.keep_opaque && is_of_model &&
         state_.ops.FindType(&kTypeTag<ops::Opaque>) != nullptr;
}

// Reports what is wrong with an operation whose operator is known. If that is
// only not supported as it is here, it becomes opaque.
void GraphImporter::Refuse(const absl::Status& why,
                           std::vector<std::string> outputs, NodeParts& parts) {
  const std::string domain = DomainOf(parts.node.domain());
  const int* const model = FindOrNull(state_.opsets, domain);
  const int* const own = FindOrNull(*parts.scope.opsets, domain);
  const bool is_of_model = model != nullptr && own != nullptr && *own == *model;
  // An operation that is opaque already is at fault itself.
  if (parts.is_opaque || !absl::IsUnimplemented(why) ||
      !KeepsOpaque(is_of_model)) {
    state_.Error(parts.where, why);
    return BreakOutputs(parts);
  }
  AddOfOperator(parts, network_kinds::kUnsupported, Severity::kWarning,
                fmt::format("becomes opaque: {}", MessageOf(why)), "");
  parts.is_opaque = true;
  // Inputs are read anew: attributes that became inputs are in the node.
  parts.inputs.clear();
  ImportOpaque(std::move(outputs), parts);
}

void GraphImporter::ImportOpaque(std::vector<std::string> outputs,
                                 NodeParts& parts) {
  const bool has_inputs = ReadInputs(parts);
  auto opaque = MakeOpaque(parts);
  auto types = StatedTypes(outputs, parts.scope);
  if (!opaque.ok()) state_.Error(parts.where, opaque.status());
  if (!types.ok()) state_.Error(parts.where, types.status());
  if (!opaque.ok() || !types.ok() || !has_inputs ||
      !ReadCaptures(opaque->captures, parts)) {
    return BreakOutputs(parts);
  }
  // Nothing can depend on a node without outputs.
  if (outputs.empty()) return;
  opaque->types = *std::move(types);
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const ValueId input = parts.inputs[i];
    if (input != kNoValue &&
        network_.value(input).kind == NetworkValue::Kind::kConstant) {
      opaque->constants.push_back(static_cast<int64_t>(i));
    }
  }
  if (network_.opset(kOpaqueDomain) == 0) {
    const absl::Status status =
        network_.SetOpset(std::string(kOpaqueDomain), 1);
    if (!status.ok()) {
      state_.Error(parts.where, status);
      return BreakOutputs(parts);
    }
  }
  AddOperation(
      OpAttrs::From(state_.ops.FindType(&kTypeTag<ops::Opaque>), *opaque),
      std::move(outputs), parts);
}

}  // namespace nodewise
