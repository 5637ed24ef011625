// Nodes: operators with their attributes, inputs and bodies.

#include <algorithm>
#include <map>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/operator_signatures.h"
#include "fmt/format.h"
#include "nodewise/op/random_seed.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Trailing empty names do not count.
int CountGiven(const google::protobuf::RepeatedPtrField<std::string>& names) {
  int count = names.size();
  while (count > 0 && names.Get(count - 1).empty()) --count;
  return count;
}

bool HasValue(const proto::Attribute& attribute) {
  return attribute.has_f() || attribute.has_i() || attribute.has_s() ||
         attribute.has_t() || attribute.has_g() ||
         attribute.floats_size() + attribute.ints_size() +
                 attribute.strings_size() >
             0;
}

// Whether an attribute is 0 or 1.
bool IsFlag(const AttrField& field, const OperatorDef& def) {
  const std::shared_ptr<void> op = def.make();
  return field.set(op.get(), int64_t{0}).ok() &&
         field.set(op.get(), int64_t{1}).ok() &&
         !field.set(op.get(), int64_t{2}).ok() &&
         !field.set(op.get(), int64_t{-1}).ok();
}

// Converts a float32 number to the type that the operator calculates in.
absl::StatusOr<NDArray> NumberLike(float number, DLDataType dtype) {
  if (dtype.code != kDLFloat && dtype.code != kDLBfloat) dtype = kFloat32;
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty({}, dtype, kCpu));
  const double wide = number;
  StoreDoubles(&wide, 0, 1, tensor);
  return tensor;
}

// Returns an attribute as the tensor that it is in newer versions of its
// operator.
absl::StatusOr<NDArray> TensorOf(const AttrValue& value,
                                 const MovedAttribute& moved, DLDataType like) {
  const auto make = [](absl::Span<const int64_t> shape, DLDataType dtype,
                       const void* data) -> absl::StatusOr<NDArray> {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              NDArray::Empty(shape, dtype, kCpu));
    if (tensor.bytes() == 0) return tensor;
    NODEWISE_RETURN_IF_ERROR(CopyFromBytes(data, tensor.bytes(), *tensor));
    return tensor;
  };
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    if (moved.is_list) return make({1}, kInt64, number);
    return make({}, kInt64, number);
  }
  if (const auto* const numbers = std::get_if<std::vector<int64_t>>(&value)) {
    return make({static_cast<int64_t>(numbers->size())}, kInt64,
                numbers->data());
  }
  if (const auto* const numbers = std::get_if<std::vector<float>>(&value)) {
    return make({static_cast<int64_t>(numbers->size())}, kFloat32,
                numbers->data());
  }
  if (const auto* const number = std::get_if<float>(&value)) {
    return NumberLike(*number, like);
  }
  return absl::InvalidArgumentError("is not a number, expected one or several");
}

// The operation and those that its inputs were folded from, each once, if it
// makes floats: what works out sizes has no precision. Long lists are cut: they
// would grow with the square of a long chain.
std::vector<std::string> FoldedFrom(const Network& network, OperationId id) {
  constexpr size_t kMostNames = 64;
  std::vector<std::string> names;
  const Operation& operation = network.operation(id);
  const ValueId output = operation.outputs[0];
  if (output == kNoValue || !IsFloat(network.value(output).type.dtype)) {
    return names;
  }
  for (const ValueId input : operation.inputs) {
    if (input == kNoValue) continue;
    for (const std::string& name : network.value(input).folded_from) {
      if (names.size() == kMostNames) break;
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  names.push_back(operation.name);
  return names;
}

}  // namespace

std::string GraphImporter::NodeName(const proto::Node& node, size_t index,
                                    const Scope& scope) {
  return UniqueName(&node_names_, scope.prefix + NameOf(node, index));
}

void GraphImporter::ImportNode(const proto::Node& node, size_t index,
                               Scope* scope) {
  NodeParts parts;
  parts.name = NodeName(node, index, *scope);
  const auto opset = scope->opsets->find(DomainOf(node.domain()));
  if (opset != scope->opsets->end()) {
    parts.opset = KnownOpset(opset->first, opset->second);
  }
  parts.where = WhereOf(node, parts.name, parts.opset);
  if (!scope->calls.empty()) {
    // One fault is enough; there might be a huge number of them.
    if (state_.nodes_left == 0) return BreakOutputs(node, parts.where, scope);
    if (--state_.nodes_left == 0 || state_.name_bytes_left == 0) {
      state_.nodes_left = 0;
      state_.StructureError(
          parts.where, "functions call each other too often",
          "a model whose functions take less than 50000 nodes");
    }
  }
  const auto function = state_.functions.find(
      {DomainOf(node.domain()), node.op_type(), node.overload()});
  if (function != state_.functions.end()) {
    if (scope->opsets->count(DomainOf(node.domain())) == 0) {
      ReportNotImported(node, parts);
      return BreakOutputs(node, parts.where, scope);
    }
    return ImportCall(*function->second, node, parts.name, parts.where, scope);
  }
  if (ImportGlow(node, parts, scope)) return;
  const ContribFunction* const contrib = FindContrib(node);
  if (contrib != nullptr && opset != scope->opsets->end()) {
    return ImportContrib(*contrib, node, parts.name, parts.where, scope);
  }
  if (DomainOf(node.domain()).empty() && node.op_type() == "Constant") {
    return ImportConstant(node, parts.where, scope);
  }
  if (const proto::Graph* const branch = TakenBranch(node, scope)) {
    return ImportBranch(*branch, node, parts.name, parts.where, scope);
  }
  ImportOperation(node, &parts, scope);
}

// A Constant node becomes a constant of the network, not an operation.
void GraphImporter::ImportConstant(const proto::Node& node,
                                   const std::string& where, Scope* scope) {
  NodeParts parts;
  parts.where = where;
  if (!ReadAttributes(node, &parts, scope)) {
    return BreakOutputs(node, where, scope);
  }
  absl::StatusOr<NDArray> tensor = absl::InvalidArgumentError(
      "has no value, expected one of value, value_float, value_floats, "
      "value_int and value_ints");
  if (parts.attrs.size() == 1 && node.output_size() == 1) {
    const AttrValue& value = parts.attrs[0].value;
    const NDArray* const given = std::get_if<NDArray>(&value);
    tensor = given != nullptr ? *given : TensorOf(value, {}, kFloat32);
  }
  if (!tensor.ok()) {
    state_.Error(where, tensor.status());
    return BreakOutputs(node, where, scope);
  }
  const std::vector<std::string> names = OutputNames(node, *scope);
  if (names.empty()) return;
  if (scope->values.count(node.output(0)) > 0) {
    return Bind(node, 0, {kNoValue, true}, where, scope);
  }
  Bind(node, 0, AddConstant(where, names[0], *std::move(tensor)), where, scope);
}

void GraphImporter::ImportOperation(const proto::Node& node, NodeParts* parts,
                                    Scope* scope) {
  FindOperator(node, scope, parts);
  if (parts->is_opaque) {
    return ImportOpaque(node, OutputNames(node, *scope), parts, scope);
  }
  // All of these are checked, even if one has a fault.
  const bool has_inputs = ReadInputs(node, parts, scope);
  if (state_.misstated != nullptr) CheckInputTypes(node, *parts);
  bool has_attrs = ReadAttributes(node, parts, scope);
  if (parts->def != nullptr) DropUnchecked(node, parts);
  if (parts->def != nullptr) has_attrs = AddMoved(parts) && has_attrs;
  AddSeed(parts);
  has_attrs = AddBodies(parts, scope) && has_attrs;
  if (parts->def == nullptr || !has_attrs) {
    return BreakOutputs(node, parts->where, scope);
  }
  auto attrs = MakeAttrs(*parts->def, parts->attrs);
  if (!attrs.ok()) state_.Error(parts->where, attrs.status());
  if (!attrs.ok() || !has_inputs) {
    return BreakOutputs(node, parts->where, scope);
  }
  AddOperation(node, *std::move(attrs), OutputNames(node, *scope), parts,
               scope);
}

// Returns false if one has a fault, reported here or by its producer.
bool GraphImporter::ReadInputs(const proto::Node& node, NodeParts* parts,
                               Scope* scope) {
  bool is_whole = true;
  for (int i = 0; i < CountGiven(node.input()); ++i) {
    const std::string& name = node.input(i);
    Binding binding;
    if (!name.empty()) {
      const Binding* const found = Find(scope, name);
      if (found != nullptr) {
        binding = *found;
      } else {
        binding.is_broken = true;
        ReportMissing(node, name, i, parts->where);
      }
    }
    is_whole = is_whole && !binding.is_broken;
    parts->inputs.push_back(binding.value);
  }
  // An input that a call leaves out still has a name inside the function.
  while (is_whole && !parts->inputs.empty() &&
         parts->inputs.back() == kNoValue) {
    parts->inputs.pop_back();
  }
  return is_whole;
}

// Against the element types that ONNX's own schema of the operator allows.
void GraphImporter::CheckInputTypes(const proto::Node& node,
                                    const NodeParts& parts) {
  const OperatorSignature* const row =
      FindSignature(DomainOf(node.domain()), node.op_type(), parts.opset);
  if (row == nullptr || row->inputs.empty()) return;
  std::map<std::string_view, DLDataType> types;
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    if (parts.inputs[i] == kNoValue) continue;
    const DLDataType type = network_.value(parts.inputs[i]).type.dtype;
    const auto number = OnnxNumberOf(type);
    if (!number.has_value()) continue;
    const auto& param = row->inputs[std::min(i, row->inputs.size() - 1)];
    if ((param.elements >> static_cast<int>(*number) & 1) == 0) {
      return Misstated(parts.where,
                       fmt::format("input {} is {}", i, ToString(type)),
                       fmt::format("a type that {} may be in opset {}",
                                   param.type, row->since));
    }
    if (!param.is_homogeneous) continue;
    const auto [first, is_new] = types.emplace(param.type, type);
    if (is_new || first->second == type) continue;
    return Misstated(parts.where,
                     fmt::format("input {} is {}", i, ToString(type)),
                     fmt::format("{}, as an input before it that is {} too",
                                 ToString(first->second), param.type));
  }
}

void GraphImporter::ReportMissing(const proto::Node& node,
                                  const std::string& name, int input,
                                  const std::string& where) {
  const std::string title =
      fmt::format("input {} ({})", input, Shortened(name));
  const auto late = state_.late_makers.find(std::pair(&node, name));
  if (late == state_.late_makers.end()) {
    return state_.StructureError(
        where, title + " is made by nothing",
        "the output of a node before it, an input or an initializer");
  }
  if (late->second.is_in_cycle) return;  // Reported as a path.
  state_.StructureError(where,
                        fmt::format("{} is made further on, by node {}", title,
                                    Shortened(late->second.node)),
                        "nodes in an order in which they can run", "sort them");
}

bool GraphImporter::ReadAttributes(const proto::Node& node, NodeParts* parts,
                                   Scope* scope) {
  bool is_whole = true;
  for (const proto::Attribute& given : node.attribute()) {
    const proto::Attribute* attribute = &given;
    if (!given.ref_attr_name().empty()) {
      const auto found = scope->attributes.find(given.ref_attr_name());
      // An attribute that the call does not give is not given here either.
      if (found == scope->attributes.end() && !scope->calls.empty()) continue;
      if (found == scope->attributes.end() && HasValue(given)) {
        state_.Warning(parts->where,
                       fmt::format("attribute {} refers to one of a function",
                                   Shortened(given.name())),
                       "its value alone, which is taken");
      } else if (found == scope->attributes.end()) {
        state_.Error(parts->where,
                     fmt::format("attribute {} refers to one of a function",
                                 Shortened(given.name())),
                     "a value, since it is in none");
        is_whole = false;
        continue;
      } else {
        attribute = found->second;
      }
    }
    if (TypeOf(*attribute) == AttributeType::kGraph) {
      parts->bodies.emplace_back(given.name(), &attribute->g());
      continue;
    }
    auto value = ReadAttribute(*attribute, &state_.tensors);
    if (!value.ok()) {
      state_.Error(parts->where,
                   At(fmt::format("attribute {}", Shortened(given.name())),
                      value.status()));
      is_whole = false;
      continue;
    }
    parts->attrs.push_back({given.name(), *std::move(value)});
    if (parts->def != nullptr) TakeFlag(*parts);
  }
  return is_whole;
}

// By ONNX's schemas, LayerNormalization may have attributes of any name.
void GraphImporter::DropUnchecked(const proto::Node& node, NodeParts* parts) {
  const OperatorSignature* const row =
      FindSignature(DomainOf(node.domain()), node.op_type(), parts->opset);
  if (row == nullptr || !row->takes_more_attributes) return;
  std::erase_if(parts->attrs, [&](const NamedAttr& attr) {
    const auto& fields = parts->def->fields;
    return std::none_of(
        fields.begin(), fields.end(),
        [&](const AttrField& field) { return field.name == attr.name; });
  });
}

// Runtimes take any number for a flag: what is not 0 is set, but for keepdims,
// which only 1 sets.
void GraphImporter::TakeFlag(NodeParts& parts) {
  NamedAttr& attr = parts.attrs.back();
  int64_t* const given = std::get_if<int64_t>(&attr.value);
  if (given == nullptr || *given == 0 || *given == 1) return;
  const int64_t found = *given;
  for (const AttrField& field : parts.def->fields) {
    if (field.name != attr.name || !IsFlag(field, *parts.def)) continue;
    *given = attr.name == "keepdims" ? 0 : 1;
    state_.Warning(parts.where,
                   fmt::format("attribute {} is {}", attr.name, found),
                   fmt::format("0 or 1 (it is taken as {})", *given));
  }
}

// What draws random numbers gets a seed of its own if it has none.
void GraphImporter::AddSeed(NodeParts* parts) const {
  const auto& seed = state_.options.random_seed;
  if (parts->def == nullptr || !seed.has_value() ||
      !DrawsRandomNumbers(*parts->def, parts->inputs.size())) {
    return;
  }
  const bool has_seed =
      std::any_of(parts->attrs.begin(), parts->attrs.end(),
                  [](const NamedAttr& attr) { return attr.name == "seed"; });
  if (has_seed) return;
  parts->attrs.push_back(SeedOfNode(*parts->def, *seed, parts->name));
}

// Attributes that are inputs in newer versions become inputs.
bool GraphImporter::AddMoved(NodeParts* parts) {
  bool is_whole = true;
  for (const MovedAttribute& moved : parts->def->moved) {
    if (parts->opset >= moved.until) continue;
    is_whole = MoveAttribute(moved, parts) && is_whole;
  }
  return is_whole;
}

bool GraphImporter::MoveAttribute(const MovedAttribute& moved,
                                  NodeParts* parts) {
  std::vector<ValueId>& inputs = parts->inputs;
  if (moved.input < inputs.size() && inputs[moved.input] != kNoValue) {
    state_.Error(parts->where, fmt::format("input {} is given", moved.input),
                 fmt::format("the attribute {} before opset {}",
                             moved.attribute, moved.until));
    return false;
  }
  const auto attr = std::find_if(
      parts->attrs.begin(), parts->attrs.end(),
      [&](const NamedAttr& each) { return each.name == moved.attribute; });
  if (attr == parts->attrs.end()) return true;
  const bool has_like = !inputs.empty() && inputs[0] != kNoValue;
  auto tensor =
      TensorOf(attr->value, moved,
               has_like ? network_.value(inputs[0]).type.dtype : kFloat32);
  parts->attrs.erase(attr);
  if (!tensor.ok()) {
    state_.Error(parts->where, At(fmt::format("attribute {}", moved.attribute),
                                  tensor.status()));
    return false;
  }
  const Binding constant = AddConstant(
      parts->where,
      UniqueName(&names_, fmt::format("{}/{}", parts->name, moved.attribute)),
      *std::move(tensor));
  if (inputs.size() <= moved.input) inputs.resize(moved.input + 1, kNoValue);
  inputs[moved.input] = constant.value;
  return !constant.is_broken;
}

// Imports the bodies. Their captures become inputs after the others, body by
// body in the order of the operator's attributes.
bool GraphImporter::AddBodies(NodeParts* parts, Scope* scope) {
  if (parts->bodies.empty()) return true;
  const auto rank = [&](const std::string& name) {
    size_t i = 0;
    if (parts->def == nullptr) return i;
    while (i < parts->def->fields.size() &&
           parts->def->fields[i].name != name) {
      ++i;
    }
    return i;
  };
  std::stable_sort(parts->bodies.begin(), parts->bodies.end(),
                   [&](const auto& a, const auto& b) {
                     return rank(a.first) < rank(b.first);
                   });
  std::vector<TensorType> types;
  for (const ValueId input : parts->inputs) {
    types.push_back(input == kNoValue ? TensorType()
                                      : network_.value(input).type);
  }
  std::vector<ValueId> captures;
  bool is_whole = true;
  const size_t first = state_.diagnostics.items().size();
  for (const auto& [name, graph] : parts->bodies) {
    const std::string where =
        fmt::format("{}: {}", parts->where, Shortened(name));
    auto body = ImportBody(*graph, types, where, scope, &captures);
    is_whole = is_whole && body.has_value();
    if (body.has_value()) parts->attrs.push_back({name, *std::move(body)});
  }
  // A branch in a branch goes with it.
  if (!is_whole && parts->def != nullptr && parts->def->name == "If" &&
      state_.within.empty() && !parts->inputs.empty()) {
    HintAtFreezing(parts->inputs[0], first);
  }
  PadInputs(parts, !captures.empty());
  parts->inputs.insert(parts->inputs.end(), captures.begin(), captures.end());
  return is_whole;
}

// Captures come after all inputs that the operator defines by name.
void GraphImporter::PadInputs(NodeParts* parts, bool has_captures) {
  if (!has_captures || parts->def == nullptr) return;
  size_t named = 0;
  for (const Param& param : parts->def->inputs) {
    named += param.kind == Param::Kind::kVariadic ? 0 : 1;
  }
  if (parts->inputs.size() < named) parts->inputs.resize(named, kNoValue);
}

void GraphImporter::AddOperation(const proto::Node& node, OpAttrs attrs,
                                 std::vector<std::string> outputs,
                                 NodeParts* parts, Scope* scope) {
  NewOperation operation;
  operation.attrs = std::move(attrs);
  operation.inputs = parts->inputs;
  operation.name = parts->name;
  operation.origin = OriginOf(node, *scope);
  operation.outputs = outputs;
  // The number of outputs matters: Split makes as many parts.
  if (operation.attrs.def().max_outputs() == SIZE_MAX) {
    operation.outputs.resize(static_cast<size_t>(node.output_size()));
  }
  for (int i = 0; i < CountGiven(node.output()); ++i) {
    if (node.output(i).empty() || scope->values.count(node.output(i)) == 0) {
      continue;
    }
    return BreakOutputs(node, parts->where, scope);
  }
  const auto id = network_.AddOperation(std::move(operation));
  if (!id.ok()) {
    return Refuse(id.status(), node, std::move(outputs), parts, scope);
  }
  const std::vector<Binding> made = FoldOutputs(*id, parts->where);
  for (size_t i = 0; i < made.size(); ++i) {
    Bind(node, i, made[i], parts->where, scope);
  }
}

// What says nothing of itself in a function or branch is from where that is.
std::shared_ptr<const Origin> GraphImporter::OriginOf(const proto::Node& node,
                                                      const Scope& scope) {
  auto own = state_.origins.Read(node);
  return own != nullptr ? own : scope.origin;
}

// Returns the operation's outputs, or the constants that they always equal.
std::vector<Binding> GraphImporter::FoldOutputs(OperationId id,
                                                const std::string& where) {
  std::vector<Binding> bindings;
  const std::vector<ValueId> outputs = network_.operation(id).outputs;
  auto folded = state_.folder.Fold(network_, id);
  std::vector<std::string> names;
  for (const ValueId output : outputs) {
    bindings.push_back({output, false});
    names.push_back(output == kNoValue ? "" : network_.value(output).name);
  }
  if (!folded.has_value()) return bindings;
  const std::vector<std::string> folded_from = FoldedFrom(network_, id);
  if (!network_.Remove(id).ok()) return bindings;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    bindings[i] =
        AddConstant(where, names[i], std::move((*folded)[i]), folded_from);
  }
  return bindings;
}

std::vector<std::string> GraphImporter::OutputNames(const proto::Node& node,
                                                    const Scope& scope) {
  std::vector<std::string> names;
  for (int i = 0; i < CountGiven(node.output()); ++i) {
    const std::string& name = node.output(i);
    const auto renamed = scope.renamed.find(name);
    if (name.empty() || scope.prefix.empty()) {
      names.push_back(name);
    } else if (renamed != scope.renamed.end()) {
      names.push_back(renamed->second);
    } else {
      names.push_back(UniqueName(&names_, scope.prefix + name));
    }
  }
  return names;
}

void GraphImporter::Bind(const proto::Node& node, size_t output,
                         Binding binding, const std::string& where,
                         Scope* scope) {
  const auto i = static_cast<int>(output);
  if (i >= node.output_size() || node.output(i).empty()) return;
  const auto [entry, is_new] = scope->values.emplace(node.output(i), binding);
  if (is_new) return;
  state_.StructureError(where,
                        fmt::format("output {} ({}) is there already", i,
                                    Shortened(node.output(i))),
                        "every name once");
}

// Marks the outputs as broken, so that their readers do not repeat the fault.
void GraphImporter::BreakOutputs(const proto::Node& node,
                                 const std::string& where, Scope* scope) {
  for (int i = 0; i < node.output_size(); ++i) {
    Bind(node, static_cast<size_t>(i), {kNoValue, true}, where, scope);
  }
}

}  // namespace nodewise
