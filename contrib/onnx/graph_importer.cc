#include "contrib/onnx/graph_importer.h"

#include <utility>

#include "contrib/onnx/renumber.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More names are not listed in a message.
constexpr size_t kMostListed = 8;

}  // namespace

std::string DomainOf(std::string_view domain) {
  return domain == "ai.onnx" ? std::string() : std::string(domain);
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

std::string WhereOf(const proto::Node& node, std::string_view name, int opset) {
  return fmt::format("node {} ({}{})", Shortened(name), OperatorName(node),
                     opset == 0 ? "" : fmt::format(", opset {}", opset));
}

std::optional<size_t> ImportState::Add(const FindingKind& kind,
                                       Diagnostic diagnostic) {
  errors += diagnostic.severity == Severity::kError ? 1 : 0;
  const size_t place = diagnostics.items().size();
  const std::string listed = diagnostic.path;
  diagnostics.Add(std::move(diagnostic));
  const auto& items = diagnostics.items();
  if (options.kinds != nullptr) options.kinds->resize(items.size());
  // A list that is full takes no more.
  if (items.size() <= place || items[place].path != listed) return std::nullopt;
  if (options.kinds != nullptr) (*options.kinds)[place] = &kind;
  return place;
}

void ImportState::Add(const FindingKind& kind, Severity severity,
                      const std::string& path, std::string found,
                      std::string expected, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.file = where;
  diagnostic.path = within + path;
  diagnostic.found = std::move(found);
  diagnostic.expected = std::move(expected);
  diagnostic.hint = std::move(hint);
  Add(kind, std::move(diagnostic));
}

void ImportState::Error(const std::string& path, std::string found,
                        std::string expected, std::string hint) {
  Add(network_kinds::kInvalidInformation, Severity::kError, path,
      std::move(found), std::move(expected), std::move(hint));
}

void ImportState::Error(const std::string& path, const absl::Status& status) {
  Error(path, std::string(MessageOf(status)));
}

void ImportState::Warning(const std::string& path, std::string found,
                          std::string expected) {
  Add(network_kinds::kInvalidInformation, Severity::kWarning, path,
      std::move(found), std::move(expected));
}

void ImportState::AddOfOperator(const FindingKind& kind,
                                const std::string& path,
                                const std::string& node,
                                const std::string& name, Severity severity,
                                std::string found, std::string expected) {
  const auto [entry, is_new] = of_operators.emplace(
      std::tuple(within, name, found, expected), OfOperator());
  entry->second.nodes.push_back(node);
  entry->second.is_error = severity == Severity::kError;
  if (!is_new) {
    errors += severity == Severity::kError ? 1 : 0;
    return;
  }
  entry->second.within = within;
  entry->second.name = name;
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.file = where;
  diagnostic.path = within + path;
  diagnostic.found = std::move(found);
  diagnostic.expected = std::move(expected);
  entry->second.diagnostic = Add(kind, std::move(diagnostic));
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
  for (int place = 0; place < graph.node_size(); ++place) {
    const int i = NodeAtPlace(state_.orders, graph.node(), place);
    ImportNode(graph.node(i), static_cast<size_t>(i), scope);
  }
  SetOutputs(graph, scope);
  CheckTypes(graph, *scope);
  if (state_.options.fold_shapes) network_.RemoveUnused();
  if (state_.errors == 0) network_ = Renumbered(std::move(network_));
}

// Names that the graph uses are kept, so nothing else may take them.
void GraphImporter::ReserveNames(const proto::Graph& graph) {
  for (const auto& input : graph.input()) names_.Reserve(input.name());
  for (const auto& tensor : graph.initializer()) names_.Reserve(tensor.name());
  for (int i = 0; i < graph.node_size(); ++i) {
    const proto::Node& node = graph.node(i);
    for (const std::string& output : node.output()) {
      names_.Reserve(output);
    }
  }
}

std::string GraphImporter::UniqueName(NameSet* names, std::string name) {
  std::string unique = names->Unique(std::move(name));
  state_.name_bytes_left -= std::min(state_.name_bytes_left, unique.size());
  return unique;
}

Binding GraphImporter::AddConstant(const std::string& where, std::string name,
                                   NDArray data,
                                   std::vector<std::string> folded_from) {
  const auto id = network_.AddConstant(std::move(name), std::move(data),
                                       std::move(folded_from));
  if (id.ok()) return {*id, false};
  state_.Error(where, id.status());
  return {kNoValue, true};
}

// By the specification, an output that is called as an input says anew what
// type that is of.
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
    if (constants.count(info.name()) > 0) {
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

void GraphImporter::AddInput(const proto::ValueInfo& info, size_t index,
                             const TensorType& fallback, Scope* scope) {
  if (info.name().empty()) {
    return state_.Error(fmt::format("input {}", index), "has no name", "one");
  }
  const std::string where = fmt::format("input {}", Shortened(info.name()));
  Binding& binding = scope->values[info.name()];
  if (binding.value != kNoValue || binding.is_broken) {
    return state_.Error(where, "is there twice", "every name once");
  }
  binding.is_broken = true;
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
  const auto id = network_.AddInput(info.name(), *std::move(type));
  if (!id.ok()) return state_.Error(where, id.status());
  binding = {*id, false};
}

// Returns null for a body. Exporters name sides anew there, often by the names
// of other sides around it, and a side may change from trip to trip; so a name
// means nothing there. Values that a body reads from around it keep their
// types.
DimSizes* GraphImporter::DimsOf(const Scope& scope) {
  return scope.outer == nullptr ? &state_.dims : nullptr;
}

// Freezes the input if it is one of those to be frozen; true if so.
bool GraphImporter::Freeze(const std::string& name, const TensorType& type,
                           Scope* scope) {
  for (const NamedTensor& entry : state_.options.freeze) {
    if (entry.name != name) continue;
    const std::string where = fmt::format("input {}", Shortened(name));
    const TensorType found = TensorType::Of(*entry.tensor);
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
    if (tensor.name().empty()) {
      state_.Error(fmt::format("initializer {}", i), "has no name", "one");
      continue;
    }
    const std::string where =
        fmt::format("initializer {}", Shortened(tensor.name()));
    Binding& binding = scope->values[tensor.name()];
    if (binding.value != kNoValue || binding.is_broken) {
      state_.Error(where, "is there twice", "every name once");
      continue;
    }
    binding.is_broken = true;
    auto data = state_.tensors.Read(tensor);
    if (!data.ok()) {
      state_.Error(where, data.status());
      continue;
    }
    if (scope->outer == nullptr &&
        Freeze(tensor.name(), TensorType::Of(**data), scope)) {
      continue;
    }
    binding =
        AddConstant(where,
                    scope->prefix.empty()
                        ? tensor.name()
                        : UniqueName(&names_, scope->prefix + tensor.name()),
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
  const auto id = network_.AddInput(std::move(name), value.type);
  if (!id.ok()) {
    state_.Error(where, id.status());
    return {kNoValue, true};
  }
  captures_.push_back(outer.value);
  return {*id, false};
}

const Binding* GraphImporter::Find(Scope* scope, const std::string& name) {
  const auto found = scope->values.find(name);
  if (found != scope->values.end()) return &found->second;
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
    // The specification allows it, and nothing is to be run.
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
  const auto check = [&](const proto::ValueInfo& info) {
    const auto found = scope.values.find(info.name());
    if (found == scope.values.end() || found->second.value == kNoValue) return;
    const auto stated = ReadType(info.type(), DimsOf(scope));
    const TensorType& inferred = network_.value(found->second.value).type;
    if (!stated.ok() || AreCompatible(*stated, inferred)) return;
    state_.Warning(fmt::format("value {}", Shortened(info.name())),
                   "is stated to be " + ToString(*stated),
                   ToString(inferred) + " as inferred");
  };
  for (const proto::ValueInfo& info : graph.value_info()) check(info);
  for (const proto::ValueInfo& info : graph.output()) check(info);
}

void GraphImporter::Misstated(const std::string& path, std::string found,
                              std::string expected) {
  Diagnostic diagnostic;
  diagnostic.file = state_.where;
  diagnostic.path = state_.within + path;
  diagnostic.found = std::move(found);
  diagnostic.expected = std::move(expected);
  state_.misstated->push_back(std::move(diagnostic));
}

namespace {

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

// As the specification has it: -1 is a size like others.
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
    return std::none_of(type.shape->begin(), type.shape->end(),
                        [](const Dim& side) { return side.is_known(); }) &&
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
    const auto found = scope.values.find(name);
    if (found == scope.values.end() || found->second.value == kNoValue) {
      continue;
    }
    const NetworkValue& value = network_.value(found->second.value);
    if (value.kind == NetworkValue::Kind::kInput ||
        FitsStated(value.type, info->type())) {
      continue;
    }
    Misstated(fmt::format("value {}", Shortened(name)),
              "is stated to be " + TextOfStated(info->type()),
              ToString(value.type) + " as inferred");
  }
}

}  // namespace nodewise
