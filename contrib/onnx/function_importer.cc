// Calls of a model's own functions: the function's nodes replace the call.

#include <algorithm>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"
#include "nodewise/ir/cycles.h"

namespace nodewise {
namespace {

std::string_view NameOf(const proto::Function& function) {
  return Shortened(function.name());
}

// Returns the defaults of attributes by name, for those that a call does not
// give.
std::map<std::string, const proto::Attribute*, std::less<>> DefaultsOf(
    const proto::Function& function) {
  std::map<std::string, const proto::Attribute*, std::less<>> defaults;
  for (const std::string& name : function.attribute()) {
    defaults.emplace(name, nullptr);
  }
  for (const proto::Attribute& attribute : function.attribute_proto()) {
    defaults[attribute.name()] = &attribute;
  }
  return defaults;
}

}  // namespace

void GraphImporter::ImportCall(const proto::Function& function,
                               const proto::Node& node, const std::string& name,
                               const std::string& where, Scope* scope) {
  Scope inner;
  bool is_fine = CheckCall(function, node, where, *scope);
  is_fine = is_fine && BindInputs(function, node, where, &inner, scope);
  is_fine = is_fine && BindAttributes(function, node, where, &inner, *scope);
  if (!is_fine) return BreakOutputs(node, where, scope);
  inner.prefix = name + "/";
  inner.calls = scope->calls;
  inner.calls.push_back(&function);
  inner.opsets = &state_.function_opsets.at(&function);
  inner.origin = OriginOf(node, *scope);
  const std::vector<std::string> names = OutputNames(node, *scope);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    inner.renamed.emplace(function.output(static_cast<int>(i)), names[i]);
  }
  ++state_.depth;
  for (int place = 0; place < function.node_size(); ++place) {
    const int i = NodeAtPlace(state_.orders, function.node(), place);
    ImportNode(function.node(i), static_cast<size_t>(i), &inner);
  }
  --state_.depth;
  BindResults(function, node, names, where, inner, scope);
}

bool GraphImporter::CheckCall(const proto::Function& function,
                              const proto::Node& node, const std::string& where,
                              const Scope& scope) {
  const auto around =
      std::find(scope.calls.begin(), scope.calls.end(), &function);
  if (around != scope.calls.end()) {
    std::vector<std::string> path;
    for (auto call = around; call != scope.calls.end(); ++call) {
      path.push_back((*call)->name());
    }
    path.push_back(function.name());
    state_.StructureError(where,
                          fmt::format("function {} calls itself: {}",
                                      NameOf(function), PathText(path)),
                          "functions that end");
    return false;
  }
  if (state_.depth >= ImportState::kMostDepth) {
    state_.StructureError(
        where, "is too deep in bodies and functions",
        fmt::format("{} of them at most", ImportState::kMostDepth));
    return false;
  }
  if (node.input_size() > function.input_size() ||
      node.output_size() > function.output_size()) {
    state_.Error(
        where,
        fmt::format("has {} inputs and {} outputs", node.input_size(),
                    node.output_size()),
        fmt::format("at most {} and {}, as function {}", function.input_size(),
                    function.output_size(), NameOf(function)));
    return false;
  }
  return true;
}

bool GraphImporter::BindInputs(const proto::Function& function,
                               const proto::Node& node,
                               const std::string& where, Scope* inner,
                               Scope* scope) {
  bool is_whole = true;
  for (int i = 0; i < function.input_size(); ++i) {
    Binding& formal = inner->values[function.input(i)];
    if (i >= node.input_size() || node.input(i).empty()) continue;
    const Binding* const actual = Find(scope, node.input(i));
    if (actual == nullptr) {
      ReportMissing(node, node.input(i), i, where);
      is_whole = false;
      continue;
    }
    // A broken one is passed on too, so that other faults inside are reported.
    formal = *actual;
  }
  return is_whole;
}

bool GraphImporter::BindAttributes(const proto::Function& function,
                                   const proto::Node& node,
                                   const std::string& where, Scope* inner,
                                   const Scope& scope) {
  auto values = DefaultsOf(function);
  bool is_whole = true;
  const auto own = state_.functions.find(
      {DomainOf(node.domain()), node.op_type(), node.overload()});
  const bool is_of_model =
      own != state_.functions.end() && own->second == &function;
  const auto refuse = [&](const proto::Attribute& attribute,
                          std::string_view found, std::string expected) {
    state_.Error(
        where,
        fmt::format("attribute {} {}", Shortened(attribute.name()), found),
        std::move(expected));
    is_whole = false;
  };
  for (const proto::Attribute& attribute : node.attribute()) {
    const auto value = values.find(attribute.name());
    if (value == values.end() && !is_of_model) {
      refuse(attribute, "is unknown",
             fmt::format("one of function {}", NameOf(function)));
    } else if (value == values.end()) {
      // As runtimes do, which look only at what the function's nodes refer to.
      state_.Warning(
          where,
          fmt::format("attribute {} is unknown", Shortened(attribute.name())),
          fmt::format("one of function {} (it is ignored)", NameOf(function)));
    } else if (TypeOf(attribute) == AttributeType::kGraph) {
      refuse(attribute, "is a graph, which a function cannot take", "a value");
    } else if (attribute.ref_attr_name().empty()) {
      value->second = &attribute;
    } else {
      const auto outer = scope.attributes.find(attribute.ref_attr_name());
      if (outer != scope.attributes.end()) value->second = outer->second;
    }
  }
  for (const auto& [name, attribute] : values) {
    if (attribute != nullptr) inner->attributes.emplace(name, attribute);
  }
  return is_whole;
}

void GraphImporter::BindResults(const proto::Function& function,
                                const proto::Node& node,
                                absl::Span<const std::string> names,
                                const std::string& where, const Scope& inner,
                                Scope* scope) {
  for (int i = 0; i < node.output_size(); ++i) {
    // An output without a name is not wanted, so it need not be made.
    if (node.output(i).empty()) continue;
    const std::string& name = function.output(i);
    const auto made = inner.values.find(name);
    Binding result{kNoValue, true};
    if (made != inner.values.end()) {
      const bool is_new = scope->values.count(node.output(i)) == 0;
      const auto at = static_cast<size_t>(i);
      result = is_new && at < names.size()
                   ? Named(made->second, names[at], where, inner)
                   : made->second;
    } else {
      state_.StructureError(where,
                            fmt::format("output {} of function {} is made by "
                                        "nothing",
                                        Shortened(name), NameOf(function)),
                            "the output of one of its nodes");
    }
    Bind(node, static_cast<size_t>(i), result, where, scope);
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
  const auto opset = state_.opsets.find("");
  if (opset == state_.opsets.end()) return result;
  const OperatorDef* const row =
      state_.ops.Find("", "Identity", KnownOpset("", opset->second));
  if (row == nullptr) return result;
  auto attrs = MakeAttrs(*row, {});
  if (!attrs.ok()) return result;
  NewOperation operation;
  operation.attrs = *std::move(attrs);
  operation.inputs = {result.value};
  operation.name = UniqueName(&node_names_, inner.prefix + "Identity");
  operation.origin = inner.origin;
  operation.outputs = {name};
  const auto id = network_.AddOperation(std::move(operation));
  if (id.ok()) return FoldOutputs(*id, where)[0];
  state_.Error(where, id.status());
  return {kNoValue, true};
}

}  // namespace nodewise
