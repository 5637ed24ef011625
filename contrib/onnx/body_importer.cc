// Imports bodies of control flow: as networks of their own, or, for an If whose
// condition is known, by replacing the node by the branch's contents.

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

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
  return std::any_of(
      graph.node().begin(), graph.node().end(), [&](const proto::Node& node) {
        return std::find(node.output().begin(), node.output().end(), name) !=
               node.output().end();
      });
}

}  // namespace

std::optional<Subgraph> GraphImporter::ImportBody(
    const proto::Graph& graph, absl::Span<const TensorType> types,
    const std::string& where, Scope* scope, std::vector<ValueId>* captures) {
  if (state_.depth >= ImportState::kMostDepth) {
    state_.StructureError(
        where, "is too deep in bodies and functions",
        fmt::format("{} of them at most", ImportState::kMostDepth));
    return std::nullopt;
  }
  const InBody in_body(&state_, where);
  const size_t errors = state_.errors;
  GraphImporter importer(&state_, graph.name());
  Scope inner;
  inner.outer = scope;
  inner.outer_graph = this;
  inner.calls = scope->calls;
  inner.attributes = scope->attributes;
  inner.opsets = scope->opsets;
  importer.Import(graph, types, &inner);
  if (state_.errors > errors) return std::nullopt;
  // A version of a domain counts for bodies too.
  const int opaque = importer.network_.opset(kOpaqueDomain);
  if (opaque != 0) {
    const absl::Status status = network_.SetOpset(kOpaqueDomain, opaque);
    if (!status.ok()) state_.Error(where, status);
  }
  Subgraph body;
  body.captures = static_cast<uint32_t>(importer.captures().size());
  captures->insert(captures->end(), importer.captures().begin(),
                   importer.captures().end());
  body.body = ShareNetwork(std::move(importer.network_));
  return body;
}

// Returns what the user can do so that the condition of an If is known, and
// only the branch is read that it takes: which inputs of the model to freeze.
// Empty if it depends on none that hold a flag or a size.
std::string GraphImporter::HowToRuleOut(ValueId condition) const {
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

// Gives the errors from `first` on, which are in branches, that hint.
void GraphImporter::HintAtFreezing(ValueId condition, size_t first) {
  auto& items = state_.diagnostics.items();
  if (first == items.size()) return;
  const std::string hint = HowToRuleOut(condition);
  for (size_t i = first; i < items.size(); ++i) {
    if (items[i].severity == Severity::kError && items[i].hint.empty()) {
      items[i].hint = hint;
    }
  }
}

// Returns the branch that an If takes in every run, or null. Exporters write
// such an If for decisions about a shape, and the other branch need not fit the
// shape.
const proto::Graph* GraphImporter::TakenBranch(const proto::Node& node,
                                               Scope* scope) {
  if (!state_.options.fold_shapes || !DomainOf(node.domain()).empty() ||
      node.op_type() != "If" || node.input_size() != 1 ||
      state_.depth >= ImportState::kMostDepth) {
    return nullptr;
  }
  const Binding* const condition = Find(scope, node.input(0));
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

void GraphImporter::ImportBranch(const proto::Graph& branch,
                                 const proto::Node& node,
                                 const std::string& name,
                                 const std::string& where, Scope* scope) {
  Scope inner;
  inner.outer = scope;
  inner.outer_graph = this;
  inner.prefix = name + "/";
  inner.calls = scope->calls;
  inner.attributes = scope->attributes;
  inner.opsets = scope->opsets;
  inner.origin = OriginOf(node, *scope);
  const std::vector<std::string> names = OutputNames(node, *scope);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    inner.renamed.emplace(branch.output(static_cast<int>(i)).name(), names[i]);
  }
  {
    const bool is_then = &branch == BodyNamed(node, "then_branch");
    const InBody in_body(&state_,
                         where + (is_then ? ": then_branch" : ": else_branch"));
    StateTypes(branch, inner);
    AddConstants(branch, &inner);
    for (int place = 0; place < branch.node_size(); ++place) {
      const int i = NodeAtPlace(state_.orders, branch.node(), place);
      ImportNode(branch.node(i), static_cast<size_t>(i), &inner);
    }
    CheckTypes(branch, inner);
  }
  for (int i = 0; i < node.output_size(); ++i) {
    // The value exists: a node makes it, or is broken.
    Bind(node, static_cast<size_t>(i), inner.values.at(branch.output(i).name()),
         where, scope);
  }
}

}  // namespace nodewise
