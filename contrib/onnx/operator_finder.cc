// Finds the operator that a node means, or says what is wrong with the node.

#include "contrib/onnx/graph_importer.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// An operator that ONNX has ended. It is still imported, with its last meaning:
// exporters write it in newer opsets too.
struct Deprecation {
  std::string_view name;
  int since;
  const char* successor;
};
constexpr Deprecation kDeprecations[] = {
    {"GroupNormalization", 18, "that of opset 21"},
    {"Scatter", 11, "ScatterElements"},
    {"Upsample", 10, "Resize"},
};

}  // namespace

// Returns the row of the operator that holds in this scope, or null.
const OperatorDef* GraphImporter::FindOperator(const proto::Node& node,
                                               const std::string& where,
                                               const Scope& scope) {
  const std::string domain = DomainOf(node.domain());
  const auto opset = scope.opsets->find(domain);
  if (opset == scope.opsets->end()) {
    ReportUnknown(node, false, where);
    return nullptr;
  }
  const OperatorDef* const row =
      state_.ops.Find(domain, node.op_type(), opset->second);
  if (row == nullptr) {
    ReportUnknown(node, true, where);
    return nullptr;
  }
  const auto model = state_.opsets.find(domain);
  if (model == state_.opsets.end() ||
      state_.ops.Find(domain, node.op_type(), model->second) != row) {
    state_.Error(where,
                 fmt::format("is of opset {}, by its function", opset->second),
                 "what it is in the model's opset");
    return nullptr;
  }
  WarnIfDeprecated(*row, opset->second, where);
  return row;
}

void GraphImporter::WarnIfDeprecated(const OperatorDef& row, int opset,
                                     const std::string& where) {
  for (const Deprecation& one : kDeprecations) {
    if (!row.domain.empty() || row.name != one.name || opset < one.since ||
        row.since > one.since) {
      continue;
    }
    state_.Warning(where,
                   fmt::format("is deprecated from opset {} on", one.since),
                   one.successor);
  }
}

void GraphImporter::ReportUnknown(const proto::Node& node, bool is_imported,
                                  const std::string& where) {
  const std::string domain = DomainOf(node.domain());
  const OperatorDef* oldest = nullptr;
  bool has_domain = domain.empty();
  for (const OperatorDef* row : state_.ops.rows()) {
    has_domain |= row->domain == domain;
    if (row->domain != domain || row->name != node.op_type()) continue;
    if (oldest == nullptr || row->since < oldest->since) oldest = row;
  }
  if (!has_domain) {
    return state_.Error(where,
                        fmt::format("is of domain {}", Shortened(domain)),
                        "ai.onnx, or a function of the model");
  }
  if (!is_imported) return ReportNotImported(where);
  state_.Error(where, "is not known",
               oldest != nullptr
                   ? fmt::format("opset {} or more", oldest->since)
                   : "an operator that is known" +
                         DidYouMean(node.op_type(), state_.ops.Names()));
}

void GraphImporter::ReportNotImported(const std::string& where) {
  state_.Error(where, "is of a domain that the model does not import",
               "an opset_import of it");
}

}  // namespace nodewise
