#include <climits>
#include <map>
#include <set>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/opaque_node.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

std::string PlaceOfOperation(const Operation& operation) {
  return fmt::format("operation {} ({})", operation.name, operation.kind());
}

std::vector<std::pair<std::string, Subgraph>> BodiesOf(
    const Operation& operation) {
  std::vector<std::pair<std::string, Subgraph>> bodies;
  for (const AttrField& field : operation.def().fields) {
    const auto value = field.get(operation.attrs.get());
    if (!value.has_value()) continue;
    if (const auto* const body = std::get_if<Subgraph>(&*value)) {
      bodies.emplace_back(field.name, *body);
    }
  }
  return bodies;
}

// REQUIRES: the tensor is a float of a type that operators calculate with.
float FloatIn(const NDArray& tensor) {
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
  if (is_float && is_number) return AttrValue(FloatIn(tensor));
  if (dtype == kFloat32 && tensor->ndim == 1) {
    const float* const data = tensor.As<float>();
    return AttrValue(std::vector<float>(data, data + count));
  }
  if (dtype == kInt64 && is_number) return AttrValue(*tensor.As<int64_t>());
  if (dtype == kInt64 && tensor->ndim == 1) {
    const int64_t* const data = tensor.As<int64_t>();
    return AttrValue(std::vector<int64_t>(data, data + count));
  }
  return InvalidArgument(
      "is {}, expected numbers, since it is an attribute before opset {}",
      TypeToString(tensor.shape(), dtype), moved.until);
}

// Writes one network as a graph: the model's, or a body of control flow. Values
// that a body reads from around it are inputs of its network but not of its
// graph, where they go by the names that they have around it.
class GraphExporter {
 public:
  // For a body, `outer` is the network around it, and `captured` holds the
  // names there of its last inputs; null and none for the model's own graph.
  // Both networks outlive this.
  GraphExporter(const Network& network, GraphExporter* outer,
                absl::Span<const std::string> captured)
      : network_(network), outer_(outer), num_captures_(captured.size()) {
    NameValues(captured);
  }

  // Fails with kInvalidArgument, naming the operation, for what the network's
  // opset cannot express; with kUnimplemented for types that ONNX does not
  // have.
  absl::Status Export(proto::Graph* to);

  // Returns the versions of domains that opaque operations need, those in
  // bodies included. REQUIRES: Export() has been called, on the outermost.
  const std::map<std::string, int>& opaque_opsets() const {
    return opaque_opsets_;
  }

 private:
  void NameValues(absl::Span<const std::string> captured);
  void NameValue(const NetworkValue& value);
  bool IsTaken(const std::string& name) const {
    return taken_.contains(name) ||
           (outer_ != nullptr && outer_->IsTaken(name));
  }
  bool IsOuterConstant(const NetworkValue& constant);
  std::string NameOf(ValueId id) const {
    return id == kNoValue ? std::string() : names_.at(id);
  }
  // A value that is read as an input must be written, even if another operation
  // has it as an attribute.
  std::string NameRead(ValueId id) {
    if (id != kNoValue) needed_.insert(id);
    return NameOf(id);
  }

  absl::Status AddNode(const Operation& operation, proto::Node* to);
  absl::Status AddOpaque(const Operation& operation, const ops::Opaque& opaque,
                         proto::Node* to);
  absl::Status NeedOpset(const std::string& domain, int64_t version);
  absl::Status AddAttributes(const Operation& operation, proto::Node* to);
  // Takes what the bodies read from around them off the inputs.
  absl::Status AddBodies(const Operation& operation,
                         std::vector<ValueId>* inputs, proto::Node* to);
  // Turns inputs that are attributes in this opset into attributes.
  absl::Status AddMoved(const Operation& operation,
                        std::vector<ValueId>* inputs, proto::Node* to);
  absl::Status AddConstants(proto::Graph* to);
  void AddInfo(const NetworkValue& value, proto::ValueInfo* to) const;

  const Network& network_;
  GraphExporter* outer_;
  size_t num_captures_;
  std::map<ValueId, std::string> names_;
  std::set<std::string> taken_;  // The names, for the bodies.
  std::set<ValueId> needed_;     // Constants that something reads.
  std::set<ValueId> moved_;      // Constants that became attributes.
  std::map<std::string, int> opaque_opsets_;
  std::set<ValueId> from_outside_;  // Constants that stand around this graph.
};

// Nodes come before constants: only they tell which constants are attributes in
// this opset and which a graph around a body has already.
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
      if (output == kNoValue || outputs.contains(output)) continue;
      const NetworkValue& value = network_.value(output);
      if (value.type.has_dtype()) AddInfo(value, to->add_value_info());
    }
  }
  return absl::OkStatus();
}

void GraphExporter::NameValues(absl::Span<const std::string> captured) {
  const auto inputs = network_.inputs();
  for (size_t i = 0; i < captured.size(); ++i) {
    names_[inputs[inputs.size() - captured.size() + i]] = captured[i];
  }
  for (const auto& value : network_.data().values) {
    if (value.has_value() && value->kind != NetworkValue::Kind::kBarrier &&
        !names_.contains(value->id)) {
      NameValue(*value);
    }
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

// The import copies a constant into each body that reads it. They still share
// their data, which shows that it was one, and it is written once.
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

void GraphExporter::AddInfo(const NetworkValue& value,
                            proto::ValueInfo* to) const {
  to->set_name(NameOf(value.id));
  // Runtimes infer a type that is left out, and refuse one that is empty.
  if (value.type == TensorType()) return;
  WriteType(value.type, to->mutable_type());
}

absl::Status GraphExporter::AddNode(const Operation& operation,
                                    proto::Node* to) {
  if (const auto* const opaque = operation.attrs.As<ops::Opaque>()) {
    return At(PlaceOfOperation(operation), AddOpaque(operation, *opaque, to));
  }
  const OperatorDef& def = operation.def();
  const int opset = network_.opset(def.domain);
  if (def.since > opset) {
    return InvalidArgument("{}: is of opset {}, and the network of {}",
                           PlaceOfOperation(operation), def.since, opset);
  }
  to->set_name(operation.name);
  to->set_op_type(std::string(def.name));
  if (!def.domain.empty()) to->set_domain(std::string(def.domain));
  std::vector<ValueId> inputs = operation.inputs;
  NODEWISE_RETURN_IF_ERROR(AddBodies(operation, &inputs, to));
  NODEWISE_RETURN_IF_ERROR(AddMoved(operation, &inputs, to));
  NODEWISE_RETURN_IF_ERROR(AddAttributes(operation, to));
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  for (const ValueId input : inputs) to->add_input(NameRead(input));
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
    names.inputs.push_back(NameRead(input));
  }
  for (const ValueId output : operation.outputs) {
    names.outputs.push_back(NameOf(output));
  }
  NODEWISE_ASSIGN_OR_RETURN(*to, NodeOf(opaque, names));
  // The node has its own notes still, unless it took those of a call.
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
    return InvalidArgument(
        "is of version {} of domain \"{}\", and the network of {}, expected "
        "the same, since it is not known",
        version, Shortened(domain), has);
  }
  GraphExporter* outermost = this;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  const auto [entry, is_new] =
      outermost->opaque_opsets_.emplace(domain, static_cast<int>(version));
  if (is_new || entry->second == version) return absl::OkStatus();
  return InvalidArgument(
      "is of version {} of domain \"{}\", and another operation of {}, "
      "expected the same",
      version, Shortened(domain), entry->second);
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
    NODEWISE_RETURN_IF_ERROR(
        At(fmt::format("{}: attribute {}", PlaceOfOperation(operation),
                       field.name),
           WriteAttribute(*value, attribute)));
  }
  return absl::OkStatus();
}

// Captures are the last inputs, body by body in the order of the attributes, as
// the import leaves them (GraphImporter::AddBodies).
absl::Status GraphExporter::AddBodies(const Operation& operation,
                                      std::vector<ValueId>* inputs,
                                      proto::Node* to) {
  const auto bodies = BodiesOf(operation);
  size_t own = inputs->size();
  for (const auto& [name, body] : bodies) own -= body.captures;
  auto captures = absl::MakeConstSpan(*inputs).subspan(own);
  for (const auto& [name, body] : bodies) {
    if (body.body == nullptr) continue;
    std::vector<std::string> names;
    for (const ValueId id : captures.subspan(0, body.captures)) {
      names.push_back(NameRead(id));
    }
    captures.remove_prefix(body.captures);
    proto::Attribute* const attribute = to->add_attribute();
    attribute->set_name(name);
    attribute->set_type(static_cast<int>(AttributeType::kGraph));
    GraphExporter exporter(*body.body, this, names);
    NODEWISE_RETURN_IF_ERROR(
        At(fmt::format("{}: {}", PlaceOfOperation(operation), name),
           exporter.Export(attribute->mutable_g())));
  }
  inputs->resize(own);
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
    const std::string where =
        fmt::format("{}: input {} ({})", PlaceOfOperation(operation),
                    moved.input, value.name);
    if (value.kind != NetworkValue::Kind::kConstant) {
      return InvalidArgument(
          "{} is calculated, expected a constant, since it is the attribute {} "
          "before opset {}",
          where, moved.attribute, moved.until);
    }
    const auto attr = AttributeOf(value.data, moved);
    if (!attr.ok()) return At(where, attr.status());
    moved_.insert(input);
    *to->add_attribute() = NamedAttribute(moved.attribute, *attr);
  }
  return absl::OkStatus();
}

// Constants that nothing reads are written too, so that reading the model back
// gives an equal network; one that became an attribute is made anew then.
absl::Status GraphExporter::AddConstants(proto::Graph* to) {
  for (const auto& value : network_.data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant ||
        from_outside_.contains(value->id) ||
        (moved_.contains(value->id) && !needed_.contains(value->id))) {
      continue;
    }
    proto::Tensor* const tensor = to->add_initializer();
    tensor->set_name(NameOf(value->id));
    NODEWISE_RETURN_IF_ERROR(At(fmt::format("constant {}", value->name),
                                WriteTensor(value->data, tensor)));
  }
  return absl::OkStatus();
}

// The IR version that came with an opset, but at least 4: before that every
// constant had to be an input too.
struct IrVersion {
  int since_opset;
  int version;
};
constexpr IrVersion kIrVersions[] = {
    {28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
    {15, 8},  {12, 7},  {11, 6},  {10, 5},  {0, 4},
};

int IrVersionOf(int opset) {
  for (const IrVersion& row : kIrVersions) {
    if (opset >= row.since_opset) return row.version;
  }
  return std::end(kIrVersions)[-1].version;
}

// Returns the versions of a model: those of the network, and those that opaque
// operations had in theirs.
std::vector<std::pair<std::string, int>> OpsetsOf(
    const Network& network, std::map<std::string, int> opaque) {
  std::vector<std::pair<std::string, int>> opsets;
  for (auto [domain, version] : network.data().opsets) {
    const auto kept = opaque.find(domain);
    if (kept == opaque.end() && domain == kOpaqueDomain) continue;
    if (kept != opaque.end()) {
      version = kept->second;
      opaque.erase(kept);
    }
    opsets.emplace_back(std::move(domain), version);
  }
  opsets.insert(opsets.end(), opaque.begin(), opaque.end());
  return opsets;
}

}  // namespace

absl::StatusOr<std::string> ExportOnnx(const Network& network) {
  proto::Model model;
  model.set_producer_name("nodewise");
  GraphExporter exporter(network, nullptr, {});
  NODEWISE_RETURN_IF_ERROR(exporter.Export(model.mutable_graph()));
  const std::vector<std::pair<std::string, int>> opsets =
      OpsetsOf(network, exporter.opaque_opsets());
  int opset = 0;
  for (const auto& [domain, version] : opsets) {
    proto::OperatorSetId* const import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
    if (domain.empty()) opset = version;
  }
  model.set_ir_version(IrVersionOf(opset));
  // What protobuf cannot read back must not be written.
  const size_t bytes = model.ByteSizeLong();
  if (bytes > INT_MAX) {
    return InvalidArgument(
        "network {}: takes {} bytes as a model, expected less than 2 GiB "
        "(extract a part of it)",
        network.name(), bytes);
  }
  return model.SerializeAsString();
}

}  // namespace nodewise
