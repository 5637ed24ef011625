#include "contrib/onnx/graph_exporter.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "contrib/onnx/attributes.h"
#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/node_origin.h"
#include "contrib/onnx/opaque_node.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::string PlaceOfOperation(const Operation& operation) {
  return fmt::format("operation {} ({})", operation.name, operation.kind());
}

size_t CountCaptures(const Operation& operation) {
  size_t count = 0;
  for (const AttrField& field : operation.def().fields) {
    const auto value = field.get(operation.attrs.get());
    if (!value.has_value()) continue;
    if (const auto* const body = std::get_if<Subgraph>(&*value)) {
      count += body->captures;
    }
  }
  return count;
}

// REQUIRES: the tensor is a float of a type that operators calculate with.
float NumberOf(const NDArray& tensor) {
  float number = 0;
  VisitOneOf(FloatElements(), tensor.dtype(), [&](auto element) {
    const auto x = *tensor.As<typename decltype(element)::Stored>();
    number = static_cast<float>(DecodeElement(x));
  });
  return number;
}

// Returns a constant as the attribute that it was in older versions.
absl::StatusOr<AttrValue> AttributeOf(const NDArray& tensor,
                                      const MovedAttribute& moved) {
  const DLDataType dtype = tensor.dtype();
  const size_t count = tensor.bytes() / ElementBytes(dtype);
  const bool is_number = tensor->ndim == 0 || (moved.is_list && count == 1);
  const bool is_float = dtype.code == kDLFloat || dtype.code == kDLBfloat;
  if (is_float && is_number) return AttrValue(NumberOf(tensor));
  if (dtype == kFloat32 && tensor->ndim == 1) {
    const float* const data = tensor.As<float>();
    return AttrValue(std::vector<float>(data, data + count));
  }
  if (dtype == kInt64 && is_number) return AttrValue(*tensor.As<int64_t>());
  if (dtype == kInt64 && tensor->ndim == 1) {
    const int64_t* const data = tensor.As<int64_t>();
    return AttrValue(std::vector<int64_t>(data, data + count));
  }
  return absl::InvalidArgumentError(
      fmt::format("is {}, expected numbers, since it is an attribute "
                  "before opset {}",
                  TypeToString(tensor.shape(), dtype), moved.until));
}

}  // namespace

GraphExporter::GraphExporter(const Network& network, GraphExporter* outer,
                             absl::Span<const std::string> captured)
    : network_(network), outer_(outer), num_captures_(captured.size()) {
  NameValues(captured);
}

absl::Status GraphExporter::Export(proto::Graph* to) {
  to->set_name(network_.name().empty() ? "network" : network_.name());
  const auto inputs = network_.inputs();
  for (size_t i = 0; i + num_captures_ < inputs.size(); ++i) {
    AddInfo(network_.value(inputs[i]), to->add_input());
  }
  for (const OperationId id : network_.order()) {
    NODEWISE_RETURN_IF_ERROR(AddNode(network_.operation(id), to->add_node()));
  }
  std::set<ValueId> outputs;
  for (const ValueId id : network_.outputs()) {
    AddInfo(network_.value(id), to->add_output());
    outputs.insert(id);
    needed_.insert(id);
  }
  NODEWISE_RETURN_IF_ERROR(AddConstants(to));
  for (const OperationId id : network_.order()) {
    for (const ValueId output : network_.operation(id).outputs) {
      if (output == kNoValue || outputs.count(output) > 0) continue;
      const NetworkValue& value = network_.value(output);
      if (value.type.has_dtype()) AddInfo(value, to->add_value_info());
    }
  }
  return absl::OkStatus();
}

// --- Names ------------------------------------------------------------------

void GraphExporter::NameValues(absl::Span<const std::string> captured) {
  const auto inputs = network_.inputs();
  for (size_t i = 0; i < captured.size(); ++i) {
    names_[inputs[inputs.size() - captured.size() + i]] = captured[i];
  }
  for (const auto& value : network_.data().values) {
    if (!value.has_value() || value->kind == NetworkValue::Kind::kBarrier ||
        names_.count(value->id) > 0) {
      continue;
    }
    NameValue(*value);
  }
}

// ONNX wants names in a body that nothing around it has.
void GraphExporter::NameValue(const NetworkValue& value) {
  if (IsOuterConstant(value)) {
    from_outside_.insert(value.id);
    names_[value.id] = value.name;
    return;
  }
  std::string name = value.name;
  for (size_t n = 2; IsTaken(name); ++n) {
    name = fmt::format("{}_{}", value.name, n);
  }
  taken_.insert(name);
  names_[value.id] = std::move(name);
}

bool GraphExporter::IsTaken(const std::string& name) const {
  for (const GraphExporter* at = this; at != nullptr; at = at->outer_) {
    if (at->taken_.count(name) > 0) return true;
  }
  return false;
}

bool GraphExporter::IsOuterConstant(const NetworkValue& constant) {
  if (constant.kind != NetworkValue::Kind::kConstant) return false;
  for (GraphExporter* at = outer_; at != nullptr; at = at->outer_) {
    const auto found = at->network_.FindValue(constant.name);
    if (!found.ok()) continue;
    const NetworkValue& value = at->network_.value(*found);
    const bool is_same = value.kind == NetworkValue::Kind::kConstant &&
                         value.data.tensor() == constant.data.tensor() &&
                         at->names_.at(*found) == constant.name;
    if (is_same) at->needed_.insert(*found);
    return is_same;
  }
  return false;
}

std::string GraphExporter::NameOf(ValueId id) const {
  return id == kNoValue ? std::string() : names_.at(id);
}

void GraphExporter::AddInfo(const NetworkValue& value,
                            proto::ValueInfo* to) const {
  to->set_name(NameOf(value.id));
  // Runtimes infer a type that is left out, and refuse one that is empty.
  if (value.type == TensorType()) return;
  WriteType(value.type, to->mutable_type());
}

// --- Nodes ------------------------------------------------------------------

absl::Status GraphExporter::AddNode(const Operation& operation,
                                    proto::Node* to) {
  if (const auto* const opaque = operation.attrs.As<ops::Opaque>()) {
    return At(PlaceOfOperation(operation), AddOpaque(operation, *opaque, to));
  }
  const OperatorDef& def = operation.def();
  const int opset = network_.opset(def.domain);
  if (def.since > opset) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is of opset {}, and the network of {}",
                    PlaceOfOperation(operation), def.since, opset));
  }
  to->set_name(operation.name);
  to->set_op_type(std::string(def.name));
  if (!def.domain.empty()) to->set_domain(std::string(def.domain));
  std::vector<ValueId> inputs = operation.inputs;
  const size_t own = inputs.size() - CountCaptures(operation);
  NODEWISE_RETURN_IF_ERROR(
      AddBodies(operation, absl::MakeSpan(inputs).subspan(own), to));
  inputs.resize(own);
  NODEWISE_RETURN_IF_ERROR(AddMoved(operation, &inputs, to));
  NODEWISE_RETURN_IF_ERROR(AddAttributes(operation, to));
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  for (const ValueId input : inputs) {
    to->add_input(NameOf(input));
    if (input != kNoValue) needed_.insert(input);
  }
  for (const ValueId output : operation.outputs) {
    to->add_output(NameOf(output));
  }
  WriteOrigin(operation, to);
  return absl::OkStatus();
}

// The node is written as it was read, with the names that its values have now.
absl::Status GraphExporter::AddOpaque(const Operation& operation,
                                      const ops::Opaque& opaque,
                                      proto::Node* to) {
  NODEWISE_RETURN_IF_ERROR(NeedOpset(opaque.domain, opaque.version));
  for (size_t i = 0; i < opaque.body_domains.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        NeedOpset(opaque.body_domains[i], opaque.body_versions[i]));
  }
  NodeNames names{operation.name, {}, {}};
  for (const ValueId input : operation.inputs) {
    names.inputs.push_back(NameOf(input));
    if (input != kNoValue) needed_.insert(input);
  }
  for (const ValueId output : operation.outputs) {
    names.outputs.push_back(NameOf(output));
  }
  NODEWISE_ASSIGN_OR_RETURN(*to, NodeOf(opaque, names));
  // It has its own notes still, unless it took those of a call.
  if (to->metadata_props().empty()) WriteOrigin(operation, to);
  return absl::OkStatus();
}

// What an unknown operator means in another version cannot be known. A version
// that is newer than all known ones was only taken for an older one.
absl::Status GraphExporter::NeedOpset(const std::string& domain,
                                      int64_t version) {
  const int has = network_.opset(domain);
  if (version < 1 || version > INT_MAX ||
      (has != 0 && has != KnownOpset(domain, static_cast<int>(version)))) {
    return absl::InvalidArgumentError(
        fmt::format("is of version {} of domain \"{}\", and the network of {}, "
                    "expected the "
                    "same, since it is not known",
                    version, Shortened(domain), has));
  }
  GraphExporter* outermost = this;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  const auto [entry, is_new] =
      outermost->opaque_opsets_.emplace(domain, static_cast<int>(version));
  if (is_new || entry->second == version) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("is of version {} of domain \"{}\", and another operation of "
                  "{}, expected the same",
                  version, Shortened(domain), entry->second));
}

// Attributes that equal their defaults are left out: an older opset may not
// know them.
absl::Status GraphExporter::AddAttributes(const Operation& operation,
                                          proto::Node* to) {
  const OpAttrs usual = OpAttrs::Defaults(operation.def());
  for (const AttrField& field : operation.def().fields) {
    const auto value = field.get(operation.attrs.get());
    if (!value.has_value() || std::holds_alternative<Subgraph>(*value)) {
      continue;
    }
    if (!field.is_required && op_row::SameAttr(value, field.get(usual.get()))) {
      continue;
    }
    proto::Attribute* const attribute = to->add_attribute();
    attribute->set_name(std::string(field.name));
    const absl::Status status = WriteAttribute(*value, attribute);
    if (!status.ok()) {
      return At(fmt::format("{}: attribute {}", PlaceOfOperation(operation),
                            field.name),
                status);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphExporter::AddBodies(const Operation& operation,
                                      absl::Span<const ValueId> captures,
                                      proto::Node* to) {
  for (const AttrField& field : operation.def().fields) {
    const auto value = field.get(operation.attrs.get());
    if (!value.has_value()) continue;
    const auto* const body = std::get_if<Subgraph>(&*value);
    if (body == nullptr || body->body == nullptr) continue;
    std::vector<std::string> names;
    for (const ValueId id : captures.subspan(0, body->captures)) {
      names.push_back(NameOf(id));
      needed_.insert(id);
    }
    captures.remove_prefix(body->captures);
    proto::Attribute* const attribute = to->add_attribute();
    attribute->set_name(std::string(field.name));
    attribute->set_type(static_cast<int>(AttributeType::kGraph));
    GraphExporter exporter(*body->body, this, names);
    const absl::Status status = exporter.Export(attribute->mutable_g());
    if (!status.ok()) {
      return At(fmt::format("{}: {}", PlaceOfOperation(operation), field.name),
                status);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphExporter::AddMoved(const Operation& operation,
                                     std::vector<ValueId>* inputs,
                                     proto::Node* to) {
  const OperatorDef& def = operation.def();
  for (const MovedAttribute& moved : def.moved) {
    if (network_.opset(def.domain) >= moved.until ||
        moved.input >= inputs->size()) {
      continue;
    }
    const ValueId input = std::exchange((*inputs)[moved.input], kNoValue);
    if (input == kNoValue) continue;
    const NetworkValue& value = network_.value(input);
    if (value.kind != NetworkValue::Kind::kConstant) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: input {} ({}) is calculated, expected a constant, since it is "
          "the attribute {} before opset {}",
          PlaceOfOperation(operation), moved.input, value.name, moved.attribute,
          moved.until));
    }
    const auto attr = AttributeOf(value.data, moved);
    if (!attr.ok()) {
      return At(fmt::format("{}: input {} ({})", PlaceOfOperation(operation),
                            moved.input, value.name),
                attr.status());
    }
    moved_.insert(input);
    proto::Attribute* const attribute = to->add_attribute();
    attribute->set_name(std::string(moved.attribute));
    NODEWISE_RETURN_IF_ERROR(WriteAttribute(*attr, attribute));
  }
  return absl::OkStatus();
}

absl::Status GraphExporter::AddConstants(proto::Graph* to) {
  for (const auto& value : network_.data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant ||
        from_outside_.count(value->id) > 0 ||
        (moved_.count(value->id) > 0 && needed_.count(value->id) == 0)) {
      continue;
    }
    proto::Tensor* const tensor = to->add_initializer();
    tensor->set_name(NameOf(value->id));
    const absl::Status status = WriteTensor(value->data, tensor);
    if (!status.ok()) {
      return At(fmt::format("constant {}", value->name), status);
    }
  }
  return absl::OkStatus();
}

}  // namespace nodewise
