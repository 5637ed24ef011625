// Operators that a table tells in ONNX's own ones: where their rows are, and
// how a node of one is imported, as a call of a function that is made for it.

#include <algorithm>

#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/function_body.h"
#include "contrib/onnx/graph_importer.h"

namespace nodewise {
namespace {

constexpr absl::Span<const ContribFunction> (*kTables[])() = {
    LayerFunctions,     ClassicFunctions,       QuantizedFunctions,
    AttentionFunctions, GlowQuantizedFunctions, GlowElementFunctions,
    GlowLayerFunctions, GlowLookupFunctions,    GlowShapeFunctions};

size_t NumInputs(const ContribFunction& function, const proto::Node& node) {
  const size_t count = function.inputs.size();
  if (count == 0 || function.inputs[count - 1].kind != Param::Kind::kVariadic) {
    return count;
  }
  return std::max(count - 1, static_cast<size_t>(node.input_size()));
}

}  // namespace

std::vector<const ContribFunction*> ContribFunctions() {
  std::vector<const ContribFunction*> all;
  for (const auto table : kTables) {
    for (const ContribFunction& function : table()) all.push_back(&function);
  }
  return all;
}

// The rows are few and a model has at most some thousand nodes, so they are
// looked through in their order, which also puts the newest opset first.
const ContribFunction* FindContribFunction(std::string_view domain,
                                           std::string_view name, int opset) {
  if (domain.empty()) return nullptr;
  for (const auto table : kTables) {
    for (const ContribFunction& function : table()) {
      if (function.name == name && function.domain == domain &&
          opset >= function.opset) {
        return &function;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> ContribNames(std::string_view domain) {
  std::vector<std::string> names;
  for (const ContribFunction* const function : ContribFunctions()) {
    if (function->domain == domain && !IsIn(names, function->name)) {
      names.emplace_back(function->name);
    }
  }
  return names;
}

// Returns the function for the node, or null if no table has its operator. The
// bodies are of ONNX's own operators, so that domain's version decides.
const ContribFunction* GraphImporter::FindContrib(const proto::Node& node) {
  return FindContribFunction(DomainOf(node.domain()), node.op_type(),
                             KnownOpset(state_.opsets, ""));
}

void GraphImporter::ImportContrib(const ContribFunction& function,
                                  NodeParts& parts) {
  const auto attribute =
      [&](std::string_view wanted) -> const proto::Attribute* {
    const auto* const given = FindAttribute(parts.node, wanted);
    if (given == nullptr || given->ref_attr_name().empty()) return given;
    const auto* const outer =
        FindOrNull(parts.scope.attributes, given->ref_attr_name());
    return outer == nullptr ? nullptr : *outer;
  };
  ImportContrib(function, parts, attribute, {});
}

// Attributes are found by a function, since a node of Glow's gets more of them
// than it states.
void GraphImporter::ImportContrib(
    const ContribFunction& function, NodeParts& parts,
    absl::FunctionRef<const proto::Attribute*(std::string_view)> attribute,
    absl::Span<const FunctionAttribute> more_attributes) {
  const proto::Node& node = parts.node;
  ContribCall call{function,
                   state_.ops,
                   KnownOpset(state_.opsets, ""),
                   std::vector<InputInfo>(NumInputs(function, node)),
                   std::vector<bool>(function.outputs.size()),
                   attribute,
                   more_attributes};
  const auto given =
      std::min(static_cast<size_t>(node.input_size()), call.inputs.size());
  for (size_t i = 0; i < given; ++i) {
    const std::string& name = node.input(static_cast<int>(i));
    if (name.empty()) continue;
    const Binding* const input = Find(&parts.scope, name);
    if (input == nullptr) ReportMissing(parts, name, i);
    if (input == nullptr || input->is_broken) return BreakOutputs(parts);
    if (input->value == kNoValue) continue;
    call.inputs[i].is_given = true;
    call.inputs[i].type = network_.value(input->value).type;
  }
  for (size_t i = 0; i < call.wanted.size(); ++i) {
    const auto at = static_cast<int>(i);
    call.wanted[i] = at < node.output_size() && !node.output(at).empty();
  }
  auto made = FunctionOf(call);
  if (!made.ok() && function.domain == kGlowDomain) {
    // An opaque node is kept for another program, and no other program runs
    // Glow's operators.
    AddOfOperator(parts, network_kinds::kUnsupported, Severity::kError,
                  std::string(MessageOf(made.status())), "another form of it");
    return BreakOutputs(parts);
  }
  if (!made.ok()) return Refuse(made.status(), OutputNames(parts), parts);
  // The function exists for this call alone, so that a model of many such nodes
  // takes no more memory than one.
  const proto::Function& called = **made;
  state_.function_opsets[&called] = {{"", state_.opsets.at("")},
                                     {std::string(kContribDomain), 1},
                                     {std::string(kHelperDomain), 1}};
  ImportCall(called, parts);
  state_.function_opsets.erase(&called);
}

}  // namespace nodewise
