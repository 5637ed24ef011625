// Imports onnxruntime's own operators, and Glow's, as calls of what they mean.

#include "contrib/onnx/contrib_call.h"
#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

size_t NumInputs(const ContribFunction& function, const proto::Node& node) {
  const size_t count = function.inputs.size();
  if (count == 0 || function.inputs[count - 1].kind != Param::Kind::kVariadic) {
    return count;
  }
  return std::max(count - 1, static_cast<size_t>(node.input_size()));
}

}  // namespace

// Returns the function for the node, or null if it is no such operator.
const ContribFunction* GraphImporter::FindContrib(const proto::Node& node) {
  const auto opset = state_.opsets.find("");
  if (opset == state_.opsets.end()) return nullptr;
  return FindContribFunction(DomainOf(node.domain()), node.op_type(),
                             KnownOpset("", opset->second));
}

void GraphImporter::ImportContrib(const ContribFunction& function,
                                  const proto::Node& node,
                                  const std::string& name,
                                  const std::string& where, Scope* scope) {
  const auto attribute =
      [&](std::string_view wanted) -> const proto::Attribute* {
    for (const proto::Attribute& given : node.attribute()) {
      if (given.name() != wanted) continue;
      if (given.ref_attr_name().empty()) return &given;
      const auto outer = scope->attributes.find(given.ref_attr_name());
      return outer == scope->attributes.end() ? nullptr : outer->second;
    }
    return nullptr;
  };
  ImportContrib(function, node, name, where, scope, attribute, {});
}

// Does so for a node whose attributes are found by a function.
void GraphImporter::ImportContrib(
    const ContribFunction& function, const proto::Node& node,
    const std::string& name, const std::string& where, Scope* scope,
    absl::FunctionRef<const proto::Attribute*(std::string_view)> attribute,
    absl::Span<const FunctionAttribute> more_attributes) {
  ContribCall call{function,
                   state_.ops,
                   KnownOpset("", state_.opsets.at("")),
                   std::vector<InputInfo>(NumInputs(function, node)),
                   std::vector<bool>(function.outputs.size()),
                   attribute,
                   more_attributes};
  const int given =
      std::min(node.input_size(), static_cast<int>(call.inputs.size()));
  for (int i = 0; i < given; ++i) {
    if (node.input(i).empty()) continue;
    const Binding* const input = Find(scope, node.input(i));
    if (input == nullptr) ReportMissing(node, node.input(i), i, where);
    if (input == nullptr || input->is_broken) {
      return BreakOutputs(node, where, scope);
    }
    if (input->value == kNoValue) continue;
    InputInfo& info = call.inputs[static_cast<size_t>(i)];
    info.is_given = true;
    info.type = network_.value(input->value).type;
  }
  for (size_t i = 0; i < call.wanted.size(); ++i) {
    const auto at = static_cast<int>(i);
    call.wanted[i] = at < node.output_size() && !node.output(at).empty();
  }
  auto made = FunctionOf(call);
  if (!made.ok() && function.domain == kGlowDomain) {
    // Other programs do not run Glow's operators, so it is not kept for one.
    state_.AddOfOperator(network_kinds::kUnsupported, where, name,
                         OperatorName(node), Severity::kError,
                         std::string(MessageOf(made.status())),
                         "another form of it");
    return BreakOutputs(node, where, scope);
  }
  if (!made.ok()) {
    NodeParts parts;
    parts.name = name;
    parts.where = where;
    return Refuse(made.status(), node, OutputNames(node, *scope), &parts,
                  scope);
  }
  // The function exists for this call alone, so that a model of many such nodes
  // takes no more memory than one.
  const proto::Function& called = **made;
  state_.function_opsets[&called] = {{"", state_.opsets.at("")},
                                     {std::string(kContribDomain), 1},
                                     {std::string(kHelperDomain), 1}};
  ImportCall(called, node, name, where, scope);
  state_.function_opsets.erase(&called);
}

}  // namespace nodewise
