#include <algorithm>
#include <map>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/operator_signatures.h"
#include "fmt/format.h"
#include "nodewise/op/op_def.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Trailing empty names do not count: exporters pad lists of inputs with them.
int CountGiven(const google::protobuf::RepeatedPtrField<std::string>& names) {
  int count = names.size();
  while (count > 0 && names.Get(count - 1).empty()) --count;
  return count;
}

// Whether an attribute is 0 or 1. Nothing in the row of an operator says so,
// but its setter does: it takes these two and refuses their neighbours.
bool IsFlag(const AttrField& field, const OperatorDef& def) {
  const std::shared_ptr<void> op = def.make();
  const auto takes = [&](int64_t number) {
    return field.set(op.get(), number).ok();
  };
  return takes(0) && takes(1) && !takes(2) && !takes(-1);
}

absl::StatusOr<NDArray> NumberLike(float number, DLDataType dtype) {
  if (dtype.code != kDLFloat && dtype.code != kDLBfloat) dtype = kFloat32;
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty({}, dtype, kCpu));
  const double wide = number;
  StoreDoubles(&wide, 0, 1, tensor);
  return tensor;
}

template <typename Number>
absl::StatusOr<NDArray> TensorOfNumbers(absl::Span<const int64_t> shape,
                                        DLDataType dtype, const Number* data) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, NDArray::Empty(shape, dtype, kCpu));
  if (tensor.bytes() == 0) return tensor;
  NODEWISE_RETURN_IF_ERROR(CopyFromBytes(data, tensor.bytes(), *tensor));
  return tensor;
}

// Returns an attribute as the tensor that it is in newer versions of its
// operator. Only a single float follows the type of the operator's first input:
// the operators whose lists of floats have become inputs take float32 there.
absl::StatusOr<NDArray> TensorOf(const AttrValue& value,
                                 const MovedAttribute& moved, DLDataType like) {
  const auto list = [](const auto& numbers, DLDataType dtype) {
    return TensorOfNumbers({static_cast<int64_t>(numbers.size())}, dtype,
                           numbers.data());
  };
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    if (moved.is_list) return TensorOfNumbers({1}, kInt64, number);
    return TensorOfNumbers({}, kInt64, number);
  }
  if (const auto* const numbers = std::get_if<std::vector<int64_t>>(&value)) {
    return list(*numbers, kInt64);
  }
  if (const auto* const numbers = std::get_if<std::vector<float>>(&value)) {
    return list(*numbers, kFloat32);
  }
  if (const auto* const number = std::get_if<float>(&value)) {
    return NumberLike(*number, like);
  }
  return InvalidArgument("is not a number, expected one or several");
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
      if (!IsIn(names, name)) names.push_back(name);
    }
  }
  names.push_back(operation.name);
  return names;
}

}  // namespace

// A node is tried as one thing after the other: a call of a function, which may
// have the name of any operator; one of Glow's; one that a table tells in
// others; a constant; an If whose branch is known; and then any other
// operation.
void GraphImporter::ImportNode(const proto::Node& node, size_t index,
                               Scope* scope) {
  const std::string domain = DomainOf(node.domain());
  NodeParts parts{node, *scope,
                  UniqueName(&node_names_, scope->prefix + NameOf(node, index)),
                  ""};
  parts.opset = KnownOpset(*scope->opsets, domain);
  parts.where = NodeLocation(node, parts.name, parts.opset);
  if (!scope->calls.empty()) {
    // One fault is enough; there might be a huge number of them.
    if (state_.nodes_left == 0) return BreakOutputs(parts);
    if (--state_.nodes_left == 0 || state_.name_bytes_left == 0) {
      state_.nodes_left = 0;
      state_.StructureError(
          parts.where, "functions call each other too often",
          "a model whose functions take less than 50000 nodes");
    }
  }
  const auto function =
      state_.functions.find({domain, node.op_type(), node.overload()});
  if (function != state_.functions.end()) {
    if (parts.opset != 0) return ImportCall(*function->second, parts);
    ReportNotImported(parts);
    return BreakOutputs(parts);
  }
  if (ImportGlow(parts)) return;
  const ContribFunction* const contrib = FindContrib(node);
  if (contrib != nullptr && parts.opset != 0) {
    return ImportContrib(*contrib, parts);
  }
  if (domain.empty() && node.op_type() == "Constant") {
    return ImportConstant(parts);
  }
  if (const proto::Graph* const branch = TakenBranch(parts)) {
    return ImportBranch(*branch, parts);
  }
  ImportOperation(parts);
}

void GraphImporter::ImportConstant(NodeParts& parts) {
  if (!ReadAttributes(parts)) return BreakOutputs(parts);
  absl::StatusOr<NDArray> tensor = InvalidArgument(
      "has no value, expected one of value, value_float, value_floats, "
      "value_int and value_ints");
  if (parts.attrs.size() == 1 && parts.node.output_size() == 1) {
    const AttrValue& value = parts.attrs[0].value;
    const NDArray* const given = std::get_if<NDArray>(&value);
    tensor = given != nullptr ? *given : TensorOf(value, {}, kFloat32);
  }
  if (!tensor.ok()) {
    state_.Error(parts.where, tensor.status());
    return BreakOutputs(parts);
  }
  const std::vector<std::string> names = OutputNames(parts);
  if (names.empty()) return;
  // A name that is there already must not be given to a second value.
  if (parts.scope.values.contains(parts.node.output(0))) {
    return BreakOutputs(parts);
  }
  Bind(parts, 0, AddConstant(parts.where, names[0], *std::move(tensor)));
}

void GraphImporter::ImportOperation(NodeParts& parts) {
  FindOperator(parts);
  if (parts.is_opaque) return ImportOpaque(OutputNames(parts), parts);
  // All of these are checked, even if one has a fault.
  const bool has_inputs = ReadInputs(parts);
  if (state_.misstated != nullptr) CheckInputTypes(parts);
  bool has_attrs = ReadAttributes(parts);
  if (parts.def != nullptr) {
    DropUnchecked(parts);
    has_attrs = AddMoved(parts) && has_attrs;
  }
  AddSeed(parts);
  has_attrs = AddBodies(parts) && has_attrs;
  if (parts.def == nullptr || !has_attrs) return BreakOutputs(parts);
  auto attrs = MakeAttrs(*parts.def, parts.attrs);
  if (!attrs.ok()) state_.Error(parts.where, attrs.status());
  if (!attrs.ok() || !has_inputs) return BreakOutputs(parts);
  AddOperation(*std::move(attrs), OutputNames(parts), parts);
}

// Returns false if one has a fault, reported here or by its producer.
bool GraphImporter::ReadInputs(NodeParts& parts) {
  bool is_whole = true;
  for (int i = 0; i < CountGiven(parts.node.input()); ++i) {
    const std::string& name = parts.node.input(i);
    Binding binding;
    if (!name.empty()) {
      const Binding* const found = Find(&parts.scope, name);
      if (found == nullptr) ReportMissing(parts, name, static_cast<size_t>(i));
      binding = found == nullptr ? Binding{kNoValue, true} : *found;
    }
    is_whole = is_whole && !binding.is_broken;
    parts.inputs.push_back(binding.value);
  }
  // An input that a call leaves out still has a name inside the function.
  while (is_whole && !parts.inputs.empty() && parts.inputs.back() == kNoValue) {
    parts.inputs.pop_back();
  }
  return is_whole;
}

// Types are compared with those that ONNX's own schema of the operator allows.
// One fault is enough: those behind it mostly follow from it.
void GraphImporter::CheckInputTypes(const NodeParts& parts) {
  const OperatorSignature* const row = FindSignature(
      DomainOf(parts.node.domain()), parts.node.op_type(), parts.opset);
  if (row == nullptr || row->inputs.empty()) return;
  std::map<std::string_view, DLDataType> types;
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    if (parts.inputs[i] == kNoValue) continue;
    const DLDataType type = network_.value(parts.inputs[i]).type.dtype;
    const auto number = OnnxNumberOf(type);
    if (!number.has_value()) continue;
    // A variadic parameter is the last one, and stands for all further inputs.
    const auto& param = row->inputs[std::min(i, row->inputs.size() - 1)];
    const auto misstated = [&](std::string expected) {
      AddMisstatement(parts.where,
                      fmt::format("input {} is {}", i, ToString(type)),
                      std::move(expected));
    };
    if ((param.elements >> static_cast<int>(*number) & 1) == 0) {
      return misstated(fmt::format("a type that {} may be in opset {}",
                                   param.type, row->since));
    }
    if (!param.is_homogeneous) continue;
    const auto [first, is_new] = types.emplace(param.type, type);
    if (is_new || first->second == type) continue;
    return misstated(fmt::format("{}, as an input before it that is {} too",
                                 ToString(first->second), param.type));
  }
}

void GraphImporter::ReportMissing(const NodeParts& parts,
                                  const std::string& name, size_t input) {
  const std::string title =
      fmt::format("input {} ({})", input, Shortened(name));
  const LateMaker* const late =
      FindOrNull(state_.late_makers, std::pair(&parts.node, name));
  if (late == nullptr) {
    return state_.StructureError(
        parts.where, title + " is made by nothing",
        "the output of a node before it, an input or an initializer");
  }
  if (late->is_in_cycle) return;  // Reported as a path.
  state_.StructureError(parts.where,
                        fmt::format("{} is made further on, by node {}", title,
                                    Shortened(late->node)),
                        "nodes in an order in which they can run", "sort them");
}

// In a function an attribute may only name one of the call's, whose value it
// then has. An attribute that the call does not give is not given here either.
const proto::Attribute* GraphImporter::ResolveReference(
    const proto::Attribute& given, const NodeParts& parts, bool* is_whole) {
  if (given.ref_attr_name().empty()) return &given;
  const auto* const found =
      FindOrNull(parts.scope.attributes, given.ref_attr_name());
  if (found != nullptr) return *found;
  if (!parts.scope.calls.empty()) return nullptr;
  const std::string says = fmt::format(
      "attribute {} refers to one of a function", Shortened(given.name()));
  if (TypeOfValue(given) != AttributeType::kUndefined) {
    state_.Warning(parts.where, says, "its value alone, which is taken");
    return &given;
  }
  state_.Error(parts.where, says, "a value, since it is in none");
  *is_whole = false;
  return nullptr;
}

bool GraphImporter::ReadAttributes(NodeParts& parts) {
  bool is_whole = true;
  for (const proto::Attribute& given : parts.node.attribute()) {
    const proto::Attribute* const attribute =
        ResolveReference(given, parts, &is_whole);
    if (attribute == nullptr) continue;
    if (TypeOf(*attribute) == AttributeType::kGraph) {
      parts.bodies.emplace_back(given.name(), &attribute->g());
      continue;
    }
    auto value = ReadAttribute(*attribute, &state_.tensors);
    if (!value.ok()) {
      state_.Error(parts.where,
                   At(fmt::format("attribute {}", Shortened(given.name())),
                      value.status()));
      is_whole = false;
      continue;
    }
    parts.attrs.push_back({given.name(), *std::move(value)});
    if (parts.def != nullptr) ReadFlag(parts);
  }
  return is_whole;
}

// By ONNX's schemas, LayerNormalization may have attributes of any name.
void GraphImporter::DropUnchecked(NodeParts& parts) {
  const OperatorSignature* const row = FindSignature(
      DomainOf(parts.node.domain()), parts.node.op_type(), parts.opset);
  if (row == nullptr || !row->takes_more_attributes) return;
  std::erase_if(parts.attrs, [&](const NamedAttr& attr) {
    return std::ranges::find(parts.def->fields, attr.name, &AttrField::name) ==
           parts.def->fields.end();
  });
}

// Runtimes take any number for a flag: what is not 0 is set, but for keepdims,
// which only 1 sets.
void GraphImporter::ReadFlag(NodeParts& parts) {
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

void GraphImporter::AddSeed(NodeParts& parts) const {
  const auto& seed = state_.options.random_seed;
  if (parts.def == nullptr || !seed.has_value() ||
      !DrawsRandomNumbers(*parts.def, parts.inputs.size()) ||
      std::ranges::find(parts.attrs, "seed", &NamedAttr::name) !=
          parts.attrs.end()) {
    return;
  }
  parts.attrs.push_back(SeedOfNode(*parts.def, *seed, parts.name));
}

// Attributes that are inputs in newer versions become inputs, so that a network
// has one form of each operator, whichever opset it was read from.
bool GraphImporter::AddMoved(NodeParts& parts) {
  bool is_whole = true;
  for (const MovedAttribute& moved : parts.def->moved) {
    if (parts.opset >= moved.until) continue;
    is_whole = MoveAttribute(moved, parts) && is_whole;
  }
  return is_whole;
}

bool GraphImporter::MoveAttribute(const MovedAttribute& moved,
                                  NodeParts& parts) {
  std::vector<ValueId>& inputs = parts.inputs;
  if (moved.input < inputs.size() && inputs[moved.input] != kNoValue) {
    state_.Error(parts.where, fmt::format("input {} is given", moved.input),
                 fmt::format("the attribute {} before opset {}",
                             moved.attribute, moved.until));
    return false;
  }
  const auto attr =
      std::ranges::find(parts.attrs, moved.attribute, &NamedAttr::name);
  if (attr == parts.attrs.end()) return true;
  const bool has_like = !inputs.empty() && inputs[0] != kNoValue;
  auto tensor =
      TensorOf(attr->value, moved,
               has_like ? network_.value(inputs[0]).type.dtype : kFloat32);
  parts.attrs.erase(attr);
  if (!tensor.ok()) {
    state_.Error(parts.where, At(fmt::format("attribute {}", moved.attribute),
                                 tensor.status()));
    return false;
  }
  const Binding constant = AddConstant(
      parts.where,
      UniqueName(&names_, fmt::format("{}/{}", parts.name, moved.attribute)),
      *std::move(tensor));
  if (inputs.size() <= moved.input) inputs.resize(moved.input + 1, kNoValue);
  inputs[moved.input] = constant.value;
  return !constant.is_broken;
}

// Imports the bodies. Their captures become inputs after the others, body by
// body in the order of the operator's attributes.
bool GraphImporter::AddBodies(NodeParts& parts) {
  if (parts.bodies.empty()) return true;
  if (parts.def != nullptr) {
    std::ranges::stable_sort(parts.bodies, {}, [&](const auto& body) {
      return std::ranges::find(parts.def->fields, body.first,
                               &AttrField::name) -
             parts.def->fields.begin();
    });
  }
  std::vector<TensorType> types;
  for (const ValueId input : parts.inputs) {
    types.push_back(input == kNoValue ? TensorType()
                                      : network_.value(input).type);
  }
  std::vector<ValueId> captures;
  bool is_whole = true;
  const size_t first = state_.diagnostics.items().size();
  for (const auto& [name, graph] : parts.bodies) {
    const std::string where =
        fmt::format("{}: {}", parts.where, Shortened(name));
    auto body = ImportBody(*graph, types, where, &parts.scope, &captures);
    is_whole = is_whole && body.has_value();
    if (body.has_value()) parts.attrs.push_back({name, *std::move(body)});
  }
  // A branch within a branch goes away with it, so that the outermost If alone
  // gets a hint.
  if (!is_whole && parts.def != nullptr && parts.def->name == "If" &&
      state_.within.empty() && !parts.inputs.empty()) {
    HintAtFreezing(parts.inputs[0], first);
  }
  PadInputs(parts, !captures.empty());
  parts.inputs.insert(parts.inputs.end(), captures.begin(), captures.end());
  return is_whole;
}

// Captures come after all inputs that the operator defines by name.
void GraphImporter::PadInputs(NodeParts& parts, bool has_captures) {
  if (!has_captures || parts.def == nullptr) return;
  const auto named = static_cast<size_t>(std::ranges::count_if(
      parts.def->inputs,
      [](const Param& param) { return param.kind != Param::Kind::kVariadic; }));
  if (parts.inputs.size() < named) parts.inputs.resize(named, kNoValue);
}

void GraphImporter::AddOperation(OpAttrs attrs,
                                 std::vector<std::string> outputs,
                                 NodeParts& parts) {
  const proto::Node& node = parts.node;
  NewOperation operation{.attrs = std::move(attrs),
                         .inputs = parts.inputs,
                         .name = parts.name,
                         .outputs = outputs,
                         .origin = OriginOf(parts)};
  // The number of outputs matters: Split makes as many parts.
  if (operation.attrs.def().max_outputs() == SIZE_MAX) {
    operation.outputs.resize(static_cast<size_t>(node.output_size()));
  }
  for (const std::string& output : node.output()) {
    if (!output.empty() && parts.scope.values.contains(output)) {
      return BreakOutputs(parts);
    }
  }
  const auto id = network_.AddOperation(std::move(operation));
  if (!id.ok()) return Refuse(id.status(), std::move(outputs), parts);
  const std::vector<Binding> made = FoldOutputs(*id, parts.where);
  for (size_t i = 0; i < made.size(); ++i) Bind(parts, i, made[i]);
}

// A node in a function or branch that does not say where it is from has the
// origin of the call or of the If.
std::shared_ptr<const Origin> GraphImporter::OriginOf(const NodeParts& parts) {
  auto own = state_.origins.Read(parts.node);
  return own != nullptr ? own : parts.scope.origin;
}

// Returns the operation's outputs, or the constants that they always equal.
std::vector<Binding> GraphImporter::FoldOutputs(OperationId id,
                                                const std::string& where) {
  std::vector<Binding> bindings;
  const std::vector<ValueId> outputs = network_.operation(id).outputs;
  std::vector<std::string> names;
  for (const ValueId output : outputs) {
    bindings.push_back({output, false});
    names.push_back(output == kNoValue ? "" : network_.value(output).name);
  }
  if (!state_.options.fold_shapes) return bindings;
  auto folded = FoldOperation(network_, id, &state_.fold_work_left);
  if (!folded.has_value()) return bindings;
  const std::vector<std::string> folded_from = FoldedFrom(network_, id);
  // The names are free again only when the operation is gone.
  if (!network_.Remove(id).ok()) return bindings;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    bindings[i] =
        AddConstant(where, names[i], std::move((*folded)[i]), folded_from);
  }
  return bindings;
}

std::vector<std::string> GraphImporter::OutputNames(const NodeParts& parts) {
  const Scope& scope = parts.scope;
  std::vector<std::string> names;
  for (int i = 0; i < CountGiven(parts.node.output()); ++i) {
    const std::string& name = parts.node.output(i);
    const std::string* const renamed = FindOrNull(scope.renamed, name);
    if (name.empty() || scope.prefix.empty()) {
      names.push_back(name);
    } else if (renamed != nullptr) {
      names.push_back(*renamed);
    } else {
      names.push_back(UniqueName(&names_, scope.prefix + name));
    }
  }
  return names;
}

void GraphImporter::Bind(const NodeParts& parts, size_t output,
                         Binding binding) {
  const auto i = static_cast<int>(output);
  if (i >= parts.node.output_size() || parts.node.output(i).empty()) return;
  const std::string& name = parts.node.output(i);
  if (parts.scope.values.emplace(name, binding).second) return;
  state_.StructureError(
      parts.where,
      fmt::format("output {} ({}) is there already", i, Shortened(name)),
      "every name once");
}

// Marks the outputs as broken, so that their readers do not repeat the fault.
void GraphImporter::BreakOutputs(const NodeParts& parts) {
  for (int i = 0; i < parts.node.output_size(); ++i) {
    Bind(parts, static_cast<size_t>(i), {kNoValue, true});
  }
}

}  // namespace nodewise
