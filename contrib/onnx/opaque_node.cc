#include "contrib/onnx/opaque_node.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/onnx/attributes.h"
#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/onnx/plain_opaque.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Bodies are nested no deeper than protobuf reads messages.

// Names that are made in a body or around it, up to the node.
struct BodyScope {
  const BodyScope* outer = nullptr;
  std::set<std::string, std::less<>> names;

  bool Has(const std::string& name) const {
    for (const BodyScope* at = this; at != nullptr; at = at->outer) {
      if (at->names.count(name) > 0) return true;
    }
    return false;
  }
};

using NameVisitor = absl::FunctionRef<void(std::string*)>;

void VisitCapturesIn(const BodyScope* outer, NameVisitor visit,
                     proto::Graph* body);

void VisitCaptures(const BodyScope* outer, NameVisitor visit,
                   proto::Node* node) {
  for (proto::Attribute& attribute : *node->mutable_attribute()) {
    if (attribute.has_g()) {
      VisitCapturesIn(outer, visit, attribute.mutable_g());
    }
  }
}

// Calls `visit` with every place that names a value from around the node.
void VisitCapturesIn(const BodyScope* outer, NameVisitor visit,
                     proto::Graph* body) {
  BodyScope scope{outer, {}};
  for (const auto& input : body->input()) scope.names.insert(input.name());
  for (const auto& tensor : body->initializer()) {
    scope.names.insert(tensor.name());
  }
  for (const auto& tensor : body->sparse_initializer()) {
    scope.names.insert(tensor.values().name());
  }
  for (proto::Node& node : *body->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (!input.empty() && !scope.Has(input)) visit(&input);
    }
    VisitCaptures(&scope, visit, &node);
    for (const std::string& output : node.output()) scope.names.insert(output);
  }
  for (proto::ValueInfo& output : *body->mutable_output()) {
    if (!scope.Has(output.name())) visit(output.mutable_name());
  }
}

absl::Status BringIn(TensorReader* tensors, proto::Tensor* tensor) {
  constexpr int kInAnotherFile = 1;
  if (tensor->data_location() != kInAnotherFile) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray data, tensors->Read(*tensor));
  const std::string name = tensor->name();
  tensor->Clear();
  tensor->set_name(name);
  return WriteTensor(data, tensor);
}

absl::Status BringIn(TensorReader* tensors, proto::Graph* body) {
  for (proto::Tensor& tensor : *body->mutable_initializer()) {
    NODEWISE_RETURN_IF_ERROR(BringIn(tensors, &tensor));
  }
  for (proto::Node& node : *body->mutable_node()) {
    NODEWISE_RETURN_IF_ERROR(BringDataIn(tensors, &node));
  }
  return absl::OkStatus();
}

absl::Status BringIn(TensorReader* tensors, proto::Attribute* attribute) {
  switch (TypeOf(*attribute)) {
    case AttributeType::kTensor:
      return BringIn(tensors, attribute->mutable_t());
    case AttributeType::kGraph:
      return BringIn(tensors, attribute->mutable_g());
    case AttributeType::kTensors:
    case AttributeType::kGraphs:
      return absl::UnimplementedError(
          "is a list of tensors or graphs, expected single ones");
    default:
      return absl::OkStatus();
  }
}

// Adds the names that bodies, however deep, give to values of their own.
void AddOwnNames(const proto::Node& node, std::set<std::string>* names) {
  for (const proto::Attribute& attribute : node.attribute()) {
    const proto::Graph& body = attribute.g();
    for (const auto& input : body.input()) names->insert(input.name());
    for (const auto& tensor : body.initializer()) names->insert(tensor.name());
    for (const auto& tensor : body.sparse_initializer()) {
      names->insert(tensor.values().name());
    }
    for (const proto::Node& inner : body.node()) {
      names->insert(inner.output().begin(), inner.output().end());
      AddOwnNames(inner, names);
    }
  }
}

absl::Status Rename(const std::vector<std::string>& from,
                    absl::Span<const std::string> to, proto::Node* node) {
  std::set<std::string> own;
  AddOwnNames(*node, &own);
  std::map<std::string, std::string> renamed;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && own.count(to[i]) > 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}, which its body reads, has the name of a value in "
                      "it, expected another name",
                      Shortened(to[i])));
    }
    renamed.emplace(from[i], to[i]);
  }
  VisitCaptures(
      nullptr,
      [&](std::string* name) {
        const auto found = renamed.find(*name);
        if (found != renamed.end()) *name = found->second;
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

}  // namespace

void ResolveAttributes(
    absl::FunctionRef<const proto::Attribute*(const std::string&)> value_of,
    proto::Node* node) {
  auto& attributes = *node->mutable_attribute();
  for (int i = attributes.size(); i-- > 0;) {
    proto::Attribute& attribute = attributes[i];
    if (attribute.has_g()) {
      for (proto::Node& inner : *attribute.mutable_g()->mutable_node()) {
        ResolveAttributes(value_of, &inner);
      }
    }
    if (attribute.ref_attr_name().empty()) continue;
    const proto::Attribute* const value = value_of(attribute.ref_attr_name());
    if (value == nullptr) {
      attributes.DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute.name();
    attribute = *value;
    attribute.set_name(name);
  }
}

absl::Status BringDataIn(TensorReader* tensors, proto::Node* node) {
  for (proto::Attribute& attribute : *node->mutable_attribute()) {
    const absl::Status status = BringIn(tensors, &attribute);
    if (status.ok()) continue;
    return At(fmt::format("attribute {}", Shortened(attribute.name())), status);
  }
  return absl::OkStatus();
}

std::vector<std::string> CapturesOf(const proto::Node& node) {
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

void VisitBodyNodes(const proto::Node& node,
                    absl::FunctionRef<void(const proto::Node&)> visit) {
  for (const proto::Attribute& attribute : node.attribute()) {
    for (const proto::Node& inner : attribute.g().node()) {
      visit(inner);
      VisitBodyNodes(inner, visit);
    }
  }
}

absl::StatusOr<proto::Node> NodeOf(const ops::Opaque& opaque,
                                   const NodeNames& names) {
  proto::Node node;
  if (!node.ParseFromString(opaque.node) || node.op_type() != opaque.op_type ||
      DomainOf(node.domain()) != opaque.domain ||
      opaque.captures.size() > names.inputs.size() ||
      CapturesOf(node) != opaque.captures) {
    return absl::DataLossError(fmt::format(
        "attribute node: holds no node of {}, expected what an import has put "
        "there",
        Shortened(NameOf(opaque))));
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

}  // namespace nodewise
