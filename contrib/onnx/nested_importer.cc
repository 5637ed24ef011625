// What stands inside a node. Bodies of control flow become networks of their
// own. The contents of a function that a node calls, and those of the branch of
// an If whose condition is known, take the node's place: their nodes are
// imported into the network around them, under names that begin with the node's
// and a '/', and its outputs are called as the node calls them.

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Functions and bodies are imported by recursion, so a hostile model could use
// up the stack.
constexpr size_t kMostDepth = 64;

const proto::Graph* BodyNamed(const proto::Node& node, std::string_view name) {
  for (const proto::Attribute& attribute : node.attribute()) {
    if (attribute.name() == name &&
        TypeOf(attribute) == AttributeType::kGraph) {
      return &attribute.g();
    }
  }
  return nullptr;
}

bool IsMadeIn(const proto::Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.node(), [&](const proto::Node& node) {
    return IsIn(node.output(), name);
  });
}

std::string_view NameOfFunction(const proto::Function& function) {
  return Shortened(function.name());
}

AttributesByName DefaultsOf(const proto::Function& function) {
  AttributesByName defaults;
  for (const std::string& name : function.attribute()) {
    defaults.emplace(name, nullptr);
  }
  for (const proto::Attribute& attribute : function.attribute_proto()) {
    defaults[attribute.name()] = &attribute;
  }
  return defaults;
}

// Returns the scope of a body or branch: it sees what is around it, and its
// attributes may refer to those of the call that it is in.
Scope ScopeInside(Scope* outer, GraphImporter* graph) {
  return {outer, graph, outer->opsets, outer->calls, outer->attributes};
}

}  // namespace

bool GraphImporter::IsTooDeep(const std::string& where) {
  if (state_.depth < kMostDepth) return false;
  state_.StructureError(where, "is too deep in bodies and functions",
                        fmt::format("{} of them at most", kMostDepth));
  return true;
}

std::optional<Subgraph> GraphImporter::ImportBody(
    const proto::Graph& graph, absl::Span<const TensorType> types,
    const std::string& where, Scope* scope, std::vector<ValueId>* captures) {
  if (IsTooDeep(where)) return std::nullopt;
  const InBody in_body(&state_, where);
  const size_t errors = state_.errors;
  GraphImporter importer(&state_, graph.name());
  Scope inner = ScopeInside(scope, this);
  importer.Import(graph, types, &inner);
  if (state_.errors > errors) return std::nullopt;
  // A version of a domain counts for bodies too.
  const int opaque = importer.network_.opset(kOpaqueDomain);
  if (opaque != 0) {
    const absl::Status status = network_.SetOpset(kOpaqueDomain, opaque);
    if (!status.ok()) state_.Error(where, status);
  }
  const std::vector<ValueId>& captured = importer.captures_;
  captures->insert(captures->end(), captured.begin(), captured.end());
  return Subgraph{ShareNetwork(std::move(importer.network_)),
                  static_cast<uint32_t>(captured.size())};
}

// Returns what the user can do so that the condition of an If is known, and
// only the branch is read that it takes: which inputs of the model to freeze.
// Empty if it depends on none that hold a flag or a size.
std::string GraphImporter::FreezingHint(ValueId condition) const {
  std::vector<ValueId> open = {condition};
  std::set<ValueId> seen;
  std::vector<std::string> inputs;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || !seen.insert(id).second) continue;
    const NetworkValue& value = network_.value(id);
    if (value.kind == NetworkValue::Kind::kOutput) {
      const Operation& maker = network_.operation(value.producer);
      open.insert(open.end(), maker.inputs.begin(), maker.inputs.end());
    } else if (value.kind == NetworkValue::Kind::kInput &&
               !IsFloat(value.type.dtype)) {
      inputs.push_back(value.name);
    }
  }
  if (inputs.empty()) return "";
  return fmt::format(
      "a branch that is never taken is left out where these are constants: {} "
      "({})",
      ListOf(inputs), NameOf(Way::kFreeze));
}

// The errors from `first` on are in the branches of the If, and all get one
// hint.
void GraphImporter::HintAtFreezing(ValueId condition, size_t first) {
  auto& items = state_.diagnostics.items();
  if (first == items.size()) return;
  const std::string hint = FreezingHint(condition);
  for (size_t i = first; i < items.size(); ++i) {
    if (items[i].severity == Severity::kError && items[i].hint.empty()) {
      items[i].hint = hint;
    }
  }
}

// Returns the branch that an If takes in every run, or null. Exporters write
// such an If for decisions about a shape, and the other branch need not fit the
// shape.
const proto::Graph* GraphImporter::TakenBranch(const NodeParts& parts) {
  const proto::Node& node = parts.node;
  if (!state_.options.fold_shapes || !DomainOf(node.domain()).empty() ||
      node.op_type() != "If" || node.input_size() != 1 ||
      state_.depth >= kMostDepth) {
    return nullptr;
  }
  const Binding* const condition = Find(&parts.scope, node.input(0));
  if (condition == nullptr || condition->value == kNoValue) return nullptr;
  const NDArray& data = network_.value(condition->value).data;
  if (!data.defined() || !(data.dtype() == kBool) || data.bytes() != 1) {
    return nullptr;
  }
  const bool is_true = *data.As<uint8_t>() != 0;
  const proto::Graph* const taken =
      BodyNamed(node, is_true ? "then_branch" : "else_branch");
  const proto::Graph* const other =
      BodyNamed(node, is_true ? "else_branch" : "then_branch");
  if (taken == nullptr || other == nullptr || taken->input_size() > 0 ||
      taken->output_size() < node.output_size()) {
    return nullptr;
  }
  // A value that is passed on unchanged, or twice, would lose a name that the
  // node gives it.
  std::set<std::string_view> names;
  for (const proto::ValueInfo& output : taken->output()) {
    if (!IsMadeIn(*taken, output.name())) return nullptr;
    if (!names.insert(output.name()).second) return nullptr;
  }
  return taken;
}

// Lets what is inside a node make the node's outputs under the names that they
// have outside, which it returns; other names get the node's before them.
std::vector<std::string> GraphImporter::NameInside(
    const NodeParts& parts, absl::FunctionRef<std::string(int)> output_name,
    Scope* inner) {
  inner->prefix = parts.name + "/";
  inner->origin = OriginOf(parts);
  std::vector<std::string> names = OutputNames(parts);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    inner->renamed.emplace(output_name(static_cast<int>(i)), names[i]);
  }
  return names;
}

void GraphImporter::ImportBranch(const proto::Graph& branch,
                                 const NodeParts& parts) {
  Scope inner = ScopeInside(&parts.scope, this);
  NameInside(
      parts, [&](int i) { return branch.output(i).name(); }, &inner);
  {
    const bool is_then = &branch == BodyNamed(parts.node, "then_branch");
    const InBody in_body(
        &state_, parts.where + (is_then ? ": then_branch" : ": else_branch"));
    StateTypes(branch, inner);
    AddConstants(branch, &inner);
    ImportNodes(branch.node(), &inner);
    CheckTypes(branch, inner);
  }
  for (int i = 0; i < parts.node.output_size(); ++i) {
    // The value exists: a node makes it, or is broken.
    Bind(parts, static_cast<size_t>(i),
         inner.values.at(branch.output(i).name()));
  }
}

// A function sees nothing of what is around its call: its scope has no outer
// one, and begins with the inputs that the call gives.
void GraphImporter::ImportCall(const proto::Function& function,
                               const NodeParts& parts) {
  Scope inner;
  if (!CheckCall(function, parts) || !BindInputs(function, parts, &inner) ||
      !BindAttributes(function, parts, &inner)) {
    return BreakOutputs(parts);
  }
  inner.calls = parts.scope.calls;
  inner.calls.push_back(&function);
  inner.opsets = &state_.function_opsets.at(&function);
  const std::vector<std::string> names = NameInside(
      parts, [&](int i) { return function.output(i); }, &inner);
  ++state_.depth;
  ImportNodes(function.node(), &inner);
  --state_.depth;
  BindResults(function, parts, names, inner);
}

bool GraphImporter::CheckCall(const proto::Function& function,
                              const NodeParts& parts) {
  const std::vector<const proto::Function*>& calls = parts.scope.calls;
  const auto around = std::ranges::find(calls, &function);
  if (around != calls.end()) {
    std::vector<std::string> path;
    for (auto call = around; call != calls.end(); ++call) {
      path.push_back((*call)->name());
    }
    path.push_back(function.name());
    state_.StructureError(parts.where,
                          fmt::format("function {} calls itself: {}",
                                      NameOfFunction(function), PathText(path)),
                          "functions that end");
    return false;
  }
  if (IsTooDeep(parts.where)) return false;
  const proto::Node& node = parts.node;
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size()) {
    state_.Error(
        parts.where,
        fmt::format("has {} inputs and {} outputs", node.input_size(),
                    node.output_size()),
        fmt::format("at most {} and {}, as function {}", function.input_size(),
                    function.output_size(), NameOfFunction(function)));
    return false;
  }
  return true;
}

bool GraphImporter::BindInputs(const proto::Function& function,
                               const NodeParts& parts, Scope* inner) {
  const proto::Node& node = parts.node;
  bool is_whole = true;
  for (int i = 0; i < function.input_size(); ++i) {
    Binding& formal = inner->values[function.input(i)];
    if (i >= node.input_size() || node.input(i).empty()) continue;
    const Binding* const actual = Find(&parts.scope, node.input(i));
    if (actual == nullptr) {
      ReportMissing(parts, node.input(i), static_cast<size_t>(i));
      is_whole = false;
      continue;
    }
    // A broken input is passed on too, so that other faults inside are
    // reported.
    formal = *actual;
  }
  return is_whole;
}

// Attributes that the function does not have are only ignored where the
// function is the model's: those that are made of a table have all that the
// operator may have.
bool GraphImporter::BindAttributes(const proto::Function& function,
                                   const NodeParts& parts, Scope* inner) {
  AttributesByName values = DefaultsOf(function);
  bool is_whole = true;
  const auto* const own =
      FindOrNull(state_.functions,
                 std::tuple(DomainOf(parts.node.domain()), parts.node.op_type(),
                            parts.node.overload()));
  const bool is_of_model = own != nullptr && *own == &function;
  for (const proto::Attribute& attribute : parts.node.attribute()) {
    const auto title = [&](std::string_view found) {
      return fmt::format("attribute {} {}", Shortened(attribute.name()), found);
    };
    const auto value = values.find(attribute.name());
    if (value == values.end() && !is_of_model) {
      state_.Error(parts.where, title("is unknown"),
                   fmt::format("one of function {}", NameOfFunction(function)));
      is_whole = false;
    } else if (value == values.end()) {
      // Runtimes ignore such an attribute, too: they look only at what the
      // nodes of the function refer to.
      state_.Warning(parts.where, title("is unknown"),
                     fmt::format("one of function {} (it is ignored)",
                                 NameOfFunction(function)));
    } else if (TypeOf(attribute) == AttributeType::kGraph) {
      state_.Error(parts.where,
                   title("is a graph, which a function cannot take"),
                   "a value");
      is_whole = false;
    } else if (attribute.ref_attr_name().empty()) {
      value->second = &attribute;
    } else if (const auto* const outer = FindOrNull(
                   parts.scope.attributes, attribute.ref_attr_name())) {
      value->second = *outer;
    }
  }
  std::erase_if(values, [](const auto& entry) { return !entry.second; });
  inner->attributes = std::move(values);
  return is_whole;
}

void GraphImporter::BindResults(const proto::Function& function,
                                const NodeParts& parts,
                                absl::Span<const std::string> names,
                                const Scope& inner) {
  for (int i = 0; i < parts.node.output_size(); ++i) {
    const std::string& given = parts.node.output(i);
    // An output without a name is not wanted, so it need not be made.
    if (given.empty()) continue;
    const auto at = static_cast<size_t>(i);
    const std::string& name = function.output(i);
    Binding result{kNoValue, true};
    if (const Binding* const made = FindOrNull(inner.values, name)) {
      // A name that is there already is refused below, and needs no Identity.
      const bool is_new = !parts.scope.values.contains(given);
      result = is_new && at < names.size()
                   ? Named(*made, names[at], parts.where, inner)
                   : *made;
    } else {
      state_.StructureError(
          parts.where,
          fmt::format("output {} of function {} is made by nothing",
                      Shortened(name), NameOfFunction(function)),
          "the output of one of its nodes");
    }
    Bind(parts, at, result);
  }
}

// A value that the function passes on unchanged, or twice, has another name
// than the call gives it: an Identity makes one with the new name.
Binding GraphImporter::Named(const Binding& result, const std::string& name,
                             const std::string& where, const Scope& inner) {
  if (name.empty() || result.value == kNoValue ||
      network_.value(result.value).name == name) {
    return result;
  }
  const int opset = KnownOpset(state_.opsets, "");
  if (opset == 0) return result;
  const OperatorDef* const row = state_.ops.Find("", "Identity", opset);
  if (row == nullptr) return result;
  auto attrs = MakeAttrs(*row, {});
  if (!attrs.ok()) return result;
  const auto id = network_.AddOperation(
      {.attrs = *std::move(attrs),
       .inputs = {result.value},
       .name = UniqueName(&node_names_, inner.prefix + "Identity"),
       .outputs = {name},
       .origin = inner.origin});
  if (id.ok()) return FoldOutputs(*id, where)[0];
  state_.Error(where, id.status());
  return {kNoValue, true};
}

}  // namespace nodewise
