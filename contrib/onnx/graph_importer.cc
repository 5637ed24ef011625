#include "contrib/onnx/graph_importer.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// New numbers by old number; kNoValue and kNoOperation for what is gone.
struct Numbers {
  std::vector<ValueId> values;
  std::vector<OperationId> operations;
  size_t num_values = 0;
  bool is_same = true;  // No number changes.

  ValueId NewId(ValueId id) const {
    return id == kNoValue ? id : values[Index(id)];
  }
  OperationId NewId(OperationId id) const {
    return id == kNoOperation ? id : operations[Index(id)];
  }
  void Add(ValueId id) {
    if (id == kNoValue) return;
    is_same = is_same && Index(id) == num_values;
    values[Index(id)] = ValueId(num_values++);
  }
};

// Returns constants in the order in which they are first read, unread ones
// last. Their order in a file would not be stable: a body's initializers come
// before what it reads from around it, whichever is read first.
std::vector<ValueId> ConstantsOf(const NetworkData& data) {
  std::vector<ValueId> constants;
  std::vector<bool> is_listed(data.values.size(), false);
  const auto add = [&](ValueId id) {
    if (id == kNoValue || is_listed[Index(id)] ||
        data.values[Index(id)]->kind != NetworkValue::Kind::kConstant) {
      return;
    }
    is_listed[Index(id)] = true;
    constants.push_back(id);
  };
  for (const OperationId id : data.order) {
    for (const ValueId input : data.operations[Index(id)]->inputs) add(input);
  }
  for (const ValueId output : data.outputs) add(output);
  for (const auto& value : data.values) {
    if (value.has_value()) add(value->id);
  }
  return constants;
}

Numbers NumbersOf(const NetworkData& data) {
  Numbers numbers;
  numbers.values.assign(data.values.size(), kNoValue);
  numbers.operations.assign(data.operations.size(), kNoOperation);
  for (const ValueId id : data.inputs) numbers.Add(id);
  for (const ValueId id : ConstantsOf(data)) numbers.Add(id);
  for (size_t i = 0; i < data.order.size(); ++i) {
    const OperationId id = data.order[i];
    numbers.is_same = numbers.is_same && Index(id) == i;
    numbers.operations[Index(id)] = OperationId(i);
    const Operation& operation = *data.operations[Index(id)];
    for (const ValueId output : operation.outputs) numbers.Add(output);
    numbers.Add(operation.barrier);
  }
  numbers.is_same = numbers.is_same && numbers.num_values == data.values.size();
  return numbers;
}

void Renumber(const Numbers& numbers, std::vector<ValueId>* ids) {
  for (ValueId& id : *ids) id = numbers.NewId(id);
}

// Returns the network with the numbers that it would have if made in one go:
// inputs, constants as they are read, then the outputs of each operation.
// Importing adds and removes items, but reading an exported model again gives
// exactly these numbers; without this, a network and its copy that went through
// a file would differ in everything that is shown by number.
Network Renumbered(Network network) {
  const NetworkData& data = network.data();
  const Numbers numbers = NumbersOf(data);
  if (numbers.is_same) return network;
  NetworkData made;
  made.name = data.name;
  made.opsets = data.opsets;
  made.inputs = data.inputs;
  made.outputs = data.outputs;
  Renumber(numbers, &made.inputs);
  Renumber(numbers, &made.outputs);
  made.values.resize(numbers.num_values);
  for (const auto& value : data.values) {
    if (!value.has_value()) continue;
    NetworkValue copy = *value;
    copy.id = numbers.NewId(value->id);
    copy.producer = numbers.NewId(value->producer);
    for (Use& use : copy.uses) use.user = numbers.NewId(use.user);
    made.values[Index(copy.id)] = std::move(copy);
  }
  for (const OperationId id : data.order) {
    Operation copy = *data.operations[Index(id)];
    copy.id = numbers.NewId(id);
    Renumber(numbers, &copy.inputs);
    Renumber(numbers, &copy.outputs);
    Renumber(numbers, &copy.after);
    copy.barrier = numbers.NewId(copy.barrier);
    made.order.push_back(copy.id);
    made.operations.emplace_back(std::move(copy));
  }
  auto renumbered = Network::FromData(std::move(made));
  // Numbers are a convenience: a network with others is still right.
  return renumbered.ok() ? *std::move(renumbered) : std::move(network);
}

// More names are not listed in a message: a model may have thousands of nodes
// of one operator, and the first few tell the user where to look.
constexpr size_t kMostListed = 8;

std::string TextOfStated(const proto::Type& type) {
  if (!type.has_tensor_type()) return "no tensor";
  const auto& tensor = type.tensor_type();
  const auto dtype = DTypeFromOnnx(tensor.elem_type());
  std::string text = dtype.ok() ? ToString(*dtype)
                                : fmt::format("type {}", tensor.elem_type());
  if (!tensor.has_shape()) return text;
  std::vector<std::string> sides;
  for (const auto& dim : tensor.shape().dim()) {
    sides.push_back(dim.has_dim_value() ? fmt::format("{}", dim.dim_value())
                    : dim.dim_param().empty()
                        ? "?"
                        : std::string(Shortened(dim.dim_param())));
  }
  return fmt::format("{}[{}]", text, fmt::join(sides, ", "));
}

// The specification takes -1 for a size like any other, so that it does not
// stand for an unknown one.
bool FitsStated(const TensorType& type, const proto::Type& stated) {
  if (!stated.has_tensor_type()) {
    return stated.value_case() == proto::Type::VALUE_NOT_SET;
  }
  const auto& tensor = stated.tensor_type();
  if (tensor.elem_type() != 0 && type.has_dtype() &&
      tensor.elem_type() != OnnxNumberOf(type.dtype)) {
    return false;
  }
  if (!tensor.has_shape() || !type.has_rank()) return true;
  const auto& sides = tensor.shape().dim();
  if (static_cast<size_t>(sides.size()) != type.shape->size()) {
    // Where no side is known, no more than the rank follows from the length of
    // a shape that is computed, which the specification does not look at.
    return std::ranges::none_of(
               *type.shape, [](const Dim& side) { return side.is_known(); }) &&
           !type.shape->empty();
  }
  for (int i = 0; i < sides.size(); ++i) {
    const Dim& side = (*type.shape)[static_cast<size_t>(i)];
    if (side.is_known() && sides.Get(i).has_dim_value() &&
        sides.Get(i).dim_value() != side.size()) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string DomainOf(std::string_view domain) {
  return domain == "ai.onnx" ? std::string() : std::string(domain);
}

int KnownOpset(const Opsets& opsets, std::string_view domain) {
  const int* const version = FindOrNull(opsets, domain);
  return version == nullptr ? 0 : KnownOpset(DomainOf(domain), *version);
}

std::string OperatorName(const proto::Node& node) {
  const std::string domain = DomainOf(node.domain());
  return std::string(Shortened(domain.empty() ? node.op_type()
                                              : domain + "." + node.op_type()));
}

std::string NameOf(const proto::Node& node, size_t index) {
  if (!node.name().empty()) return node.name();
  return fmt::format("{}_{}", Shortened(node.op_type()), index);
}

std::string NodeLocation(const proto::Node& node, std::string_view name,
                         int opset) {
  return fmt::format("node {} ({}{})", Shortened(name), OperatorName(node),
                     opset == 0 ? "" : fmt::format(", opset {}", opset));
}

std::optional<size_t> ImportState::Add(const FindingKind& kind,
                                       Severity severity,
                                       const std::string& path,
                                       std::string found, std::string expected,
                                       std::string hint) {
  Diagnostic diagnostic = MakeDiagnostic(severity, path, std::move(found),
                                         std::move(expected), std::move(hint));
  errors += severity == Severity::kError ? 1 : 0;
  const size_t place = diagnostics.items().size();
  const std::string listed = diagnostic.path;
  diagnostics.Add(std::move(diagnostic));
  const auto& items = diagnostics.items();
  if (options.kinds != nullptr) options.kinds->resize(items.size());
  // A full list takes no more diagnostics; the note that there were more, which
  // it gets instead, has another path.
  if (items.size() <= place || items[place].path != listed) return std::nullopt;
  if (options.kinds != nullptr) (*options.kinds)[place] = &kind;
  return place;
}

void ImportState::CountOfOperators() {
  for (const auto& [key, one] : of_operators) {
    if (one.nodes.size() == 1 || !one.diagnostic.has_value()) continue;
    diagnostics.items()[*one.diagnostic].path = fmt::format(
        "{}{}, {} ({})", one.within, one.name,
        CountOf(one.nodes.size(), "operation"), ListOf(one.nodes, kMostListed));
  }
}

std::string NameSet::Unique(std::string name) {
  const auto [entry, is_new] = taken_.emplace(name, 1);
  if (is_new) return name;
  while (true) {
    std::string unique = fmt::format("{}_{}", name, ++entry->second);
    if (taken_.emplace(unique, 1).second) return unique;
  }
}

GraphImporter::GraphImporter(ImportState* state, std::string name)
    : state_(*state), network_(std::move(name)) {
  if (state_.misstated != nullptr) network_.ForgetElements();
  for (const auto& [domain, version] : state_.opsets) {
    const absl::Status status =
        network_.SetOpset(domain, KnownOpset(domain, version));
    if (!status.ok()) state_.Error("opset_import", status);
  }
}

void GraphImporter::Import(const proto::Graph& graph,
                           absl::Span<const TensorType> input_types,
                           Scope* scope) {
  ReserveNames(graph);
  ReadGlow(graph);
  StateTypes(graph, *scope);
  AddInputs(graph, input_types, scope);
  AddConstants(graph, scope);
  ImportNodes(graph.node(), scope);
  SetOutputs(graph, scope);
  CheckTypes(graph, *scope);
  if (state_.options.fold_shapes) network_.RemoveUnused();
  // A network with a fault is thrown away, and may not be whole enough.
  if (state_.errors == 0) network_ = Renumbered(std::move(network_));
}

// Nodes are imported in an order in which they can run, but one without a name
// is named after its place in the file, where people find it.
void GraphImporter::ImportNodes(const Nodes& nodes, Scope* scope) {
  const auto* const order = FindOrNull(state_.orders, &nodes);
  for (int place = 0; place < nodes.size(); ++place) {
    const int i =
        order == nullptr ? place : (*order)[static_cast<size_t>(place)];
    ImportNode(nodes.Get(i), static_cast<size_t>(i), scope);
  }
}

// Names that the graph uses are kept, so nothing else may take them: what the
// import adds (constants out of attributes, operations of functions) gets a
// number behind its name instead.
void GraphImporter::ReserveNames(const proto::Graph& graph) {
  for (const auto& input : graph.input()) names_.Reserve(input.name());
  for (const auto& tensor : graph.initializer()) names_.Reserve(tensor.name());
  for (const proto::Node& node : graph.node()) {
    for (const std::string& output : node.output()) names_.Reserve(output);
  }
}

std::string GraphImporter::UniqueName(NameSet* names, std::string name) {
  std::string unique = names->Unique(std::move(name));
  state_.name_bytes_left -= std::min(state_.name_bytes_left, unique.size());
  return unique;
}

Binding GraphImporter::BindingOf(const absl::StatusOr<ValueId>& id,
                                 const std::string& where) {
  if (id.ok()) return {*id, false};
  state_.Error(where, id.status());
  return {kNoValue, true};
}

// By the specification, an output with the name of an input states the type of
// that input once more, and this statement counts.
const proto::ValueInfo& GraphImporter::StatedLast(
    const proto::Graph& graph, const proto::ValueInfo& input) const {
  if (state_.misstated == nullptr) return input;
  for (const proto::ValueInfo& output : graph.output()) {
    if (output.name() == input.name() && output.has_type()) return output;
  }
  return input;
}

void GraphImporter::AddInputs(const proto::Graph& graph,
                              absl::Span<const TensorType> input_types,
                              Scope* scope) {
  std::set<std::string_view> constants;
  for (const auto& tensor : graph.initializer()) {
    constants.insert(tensor.name());
  }
  const size_t count = static_cast<size_t>(graph.input_size());
  // Inputs of an operation that its body does not see come first.
  const size_t skipped =
      input_types.size() > count ? input_types.size() - count : 0;
  for (size_t i = 0; i < count; ++i) {
    const proto::ValueInfo& info =
        StatedLast(graph, graph.input(static_cast<int>(i)));
    // Early models list every initializer as an input too; in later ones that
    // makes it a default value.
    if (constants.contains(info.name())) {
      if (scope->outer == nullptr) continue;
      state_.Error("input " + info.name(),
                   "of a body has an initializer, expected none");
    }
    AddInput(info, i,
             skipped + i < input_types.size() ? input_types[skipped + i]
                                              : TensorType(),
             scope);
  }
}

// Returns what a name of the graph stands for, broken until it gets a value, so
// that a fault in between is not repeated by its readers. Null, with an error,
// if there is one of that name.
Binding* GraphImporter::NewBinding(const std::string& where,
                                   const std::string& name, Scope* scope) {
  const auto [entry, is_new] =
      scope->values.emplace(name, Binding{kNoValue, true});
  if (is_new) return &entry->second;
  state_.Error(where, "is there twice", "every name once");
  return nullptr;
}

void GraphImporter::AddInput(const proto::ValueInfo& info, size_t index,
                             const TensorType& fallback, Scope* scope) {
  if (info.name().empty()) {
    return state_.Error(fmt::format("input {}", index), "has no name", "one");
  }
  const std::string where = fmt::format("input {}", Shortened(info.name()));
  Binding* const binding = NewBinding(where, info.name(), scope);
  if (binding == nullptr) return;
  auto type = ReadType(info.type(), DimsOf(*scope));
  if (!type.ok()) return state_.Error(where, type.status());
  if (!type->has_dtype()) type->dtype = fallback.dtype;
  if (scope->outer == nullptr) {
    if (!type->has_dtype()) {
      return state_.Error(where, "has no element type", "one");
    }
    BindUnnamedSides(info.name(), &*type, &state_.dims);
    if (Freeze(info.name(), *type, scope)) return;
  }
  *binding = BindingOf(network_.AddInput(info.name(), *std::move(type)), where);
}

// Returns null for a body. Exporters name sides anew there, often by the names
// of other sides around it, and a side may change from trip to trip; so a name
// means nothing there. Values that a body reads from around it keep their
// types.
DimSizes* GraphImporter::DimsOf(const Scope& scope) {
  return scope.outer == nullptr ? &state_.dims : nullptr;
}

bool GraphImporter::Freeze(const std::string& name, const TensorType& type,
                           Scope* scope) {
  for (const NamedTensor& entry : state_.options.freeze) {
    if (entry.name != name) continue;
    const std::string where = fmt::format("input {}", Shortened(name));
    const TensorType found = TensorType::From(*entry.tensor);
    if (!AreCompatible(found, type)) {
      state_.Error(where, "is frozen to " + ToString(found), ToString(type));
    } else {
      scope->values[name] = AddConstant(where, name, entry.tensor);
    }
    return true;
  }
  return false;
}

void GraphImporter::AddConstants(const proto::Graph& graph, Scope* scope) {
  for (const proto::SparseTensor& tensor : graph.sparse_initializer()) {
    const std::string& name = tensor.values().name();
    state_.Error(fmt::format("initializer {}", Shortened(name)), "is sparse",
                 "a dense one");
    scope->values[name].is_broken = true;
  }
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const proto::Tensor& tensor = graph.initializer(i);
    const std::string& name = tensor.name();
    if (name.empty()) {
      state_.Error(fmt::format("initializer {}", i), "has no name", "one");
      continue;
    }
    const std::string where = fmt::format("initializer {}", Shortened(name));
    Binding* const binding = NewBinding(where, name, scope);
    if (binding == nullptr) continue;
    auto data = state_.tensors.Read(tensor);
    if (!data.ok()) {
      state_.Error(where, data.status());
      continue;
    }
    // An initializer that is an input too is only the input's default.
    if (scope->outer == nullptr &&
        Freeze(name, TensorType::From(**data), scope)) {
      continue;
    }
    *binding = AddConstant(where,
                           scope->prefix.empty()
                               ? name
                               : UniqueName(&names_, scope->prefix + name),
                           *std::move(data));
  }
}

// A value that a body reads from around it becomes an input of its network; a
// constant is copied, so that shapes can be calculated from it.
Binding GraphImporter::Capture(const Binding& outer,
                               const GraphImporter& from) {
  if (outer.is_broken || outer.value == kNoValue) return outer;
  const NetworkValue& value = from.network_.value(outer.value);
  const std::string where = fmt::format("value {}", Shortened(value.name));
  std::string name = UniqueName(&names_, value.name);
  if (value.kind == NetworkValue::Kind::kConstant) {
    return AddConstant(where, std::move(name), value.data);
  }
  const Binding made =
      BindingOf(network_.AddInput(std::move(name), value.type), where);
  if (!made.is_broken) captures_.push_back(outer.value);
  return made;
}

// What a body has captured once is its own from then on. The branch of an If
// that is taken has no network of its own, so it reads what is around it as it
// is.
const Binding* GraphImporter::Find(Scope* scope, const std::string& name) {
  if (const Binding* const own = FindOrNull(scope->values, name)) return own;
  if (scope->outer == nullptr) return nullptr;
  const Binding* const outer = scope->outer_graph->Find(scope->outer, name);
  if (outer == nullptr || scope->outer_graph == this) return outer;
  const Binding captured = Capture(*outer, *scope->outer_graph);
  return &scope->values.emplace(name, captured).first->second;
}

void GraphImporter::SetOutputs(const proto::Graph& graph, Scope* scope) {
  std::vector<ValueId> outputs;
  bool is_whole = true;
  for (const proto::ValueInfo& info : graph.output()) {
    const std::string where = fmt::format("output {}", Shortened(info.name()));
    const auto type = ReadType(info.type(), DimsOf(*scope));
    if (!type.ok()) state_.Error(where, type.status());
    const Binding* const binding = Find(scope, info.name());
    if (binding == nullptr) {
      std::vector<std::string> known;
      for (const auto& [name, value] : scope->values) known.push_back(name);
      state_.StructureError(where, "is made by nothing",
                            "the output of a node, an input or an initializer" +
                                DidYouMean(info.name(), known));
    }
    if (binding == nullptr || binding->value == kNoValue) {
      is_whole = false;
      continue;
    }
    outputs.push_back(binding->value);
  }
  if (graph.output_size() == 0 && scope->outer == nullptr) {
    // The specification allows a graph without outputs, and a check against it
    // runs nothing.
    const bool is_allowed =
        state_.options.check_specification || state_.misstated != nullptr;
    state_.Add(network_kinds::kInvalidStructure,
               is_allowed ? Severity::kWarning : Severity::kError, "graph",
               "has no outputs", "one at least");
    is_whole = is_whole && !is_allowed;
  }
  if (!is_whole) return;
  const absl::Status status = network_.SetOutputs(std::move(outputs));
  if (!status.ok()) state_.Error("graph", status);
}

// The types that a model states are only a second opinion: the shape inference
// that wrote them may have been wrong.
void GraphImporter::CheckTypes(const proto::Graph& graph, const Scope& scope) {
  if (state_.misstated != nullptr) return CheckStated(graph, scope);
  for (const auto* list : {&graph.value_info(), &graph.output()}) {
    for (const proto::ValueInfo& info : *list) {
      const Binding* const found = FindOrNull(scope.values, info.name());
      if (found == nullptr || found->value == kNoValue) continue;
      const auto stated = ReadType(info.type(), DimsOf(scope));
      const TensorType& inferred = network_.value(found->value).type;
      if (!stated.ok() || AreCompatible(*stated, inferred)) continue;
      state_.Warning(fmt::format("value {}", Shortened(info.name())),
                     "is stated to be " + ToString(*stated),
                     ToString(inferred) + " as inferred");
    }
  }
}

// By the specification, stated types must fit. The last one that is stated for
// a name counts.
void GraphImporter::CheckStated(const proto::Graph& graph, const Scope& scope) {
  std::map<std::string_view, const proto::ValueInfo*> stated;
  for (const auto* list :
       {&graph.value_info(), &graph.input(), &graph.output()}) {
    for (const proto::ValueInfo& info : *list) {
      if (info.has_type()) stated[info.name()] = &info;
    }
  }
  for (const auto& [name, info] : stated) {
    const Binding* const found = FindOrNull(scope.values, name);
    if (found == nullptr || found->value == kNoValue) continue;
    const NetworkValue& value = network_.value(found->value);
    if (value.kind == NetworkValue::Kind::kInput ||
        FitsStated(value.type, info->type())) {
      continue;
    }
    AddMisstatement(fmt::format("value {}", Shortened(name)),
                    "is stated to be " + TextOfStated(info->type()),
                    ToString(value.type) + " as inferred");
  }
}

}  // namespace nodewise
