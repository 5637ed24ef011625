// Finds the operator that a node means, or says what is wrong with the node.

#include <algorithm>

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
  std::string_view domain = "";
};
constexpr Deprecation kDeprecations[] = {
    {"GroupNormalization", 18, "that of opset 21"},
    {"Scatter", 11, "ScatterElements"},
    {"TreeEnsembleClassifier", 5, "TreeEnsemble", kClassicDomain},
    {"TreeEnsembleRegressor", 5, "TreeEnsemble", kClassicDomain},
    {"Upsample", 10, "Resize"},
};

// An operator of ONNX that is not supported, and what it works on.
struct Unsupported {
  std::string_view name;
  const char* reason;
  std::string_view domain = "";
};
constexpr char kSequences[] = "works on sequences of tensors";
constexpr char kOptionals[] = "works on optional values";
constexpr char kStrings[] = "works on strings";
constexpr char kMaps[] = "works on maps";
constexpr Unsupported kUnsupported[] = {
    {"ConcatFromSequence", kSequences},
    {"Optional", kOptionals},
    {"OptionalGetElement", kOptionals},
    {"OptionalHasElement", kOptionals},
    {"RegexFullMatch", kStrings},
    {"SequenceAt", kSequences},
    {"SequenceConstruct", kSequences},
    {"SequenceEmpty", kSequences},
    {"SequenceErase", kSequences},
    {"SequenceInsert", kSequences},
    {"SequenceLength", kSequences},
    {"SequenceMap", kSequences},
    {"SplitToSequence", kSequences},
    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},
    {"StringSplit", kStrings},
    {"CastMap", kMaps, kClassicDomain},
    {"CategoryMapper", kStrings, kClassicDomain},
    {"DictVectorizer", kMaps, kClassicDomain},
    // Before version 2.
    {"LabelEncoder", kStrings, kClassicDomain},
    {"ZipMap", kMaps, kClassicDomain},
};

// Returns why an operator is not supported, or null.
const char* WhyUnsupported(std::string_view domain, std::string_view name) {
  for (const Unsupported& one : kUnsupported) {
    if (one.domain == domain && one.name == name) return one.reason;
  }
  return nullptr;
}

}  // namespace

// Finds the row of the operator that holds in this scope. If there is none, the
// node becomes opaque, or it has a fault, which is reported.
void GraphImporter::FindOperator(const proto::Node& node, Scope* scope,
                                 NodeParts* parts) {
  const std::string domain = DomainOf(node.domain());
  const auto opset = scope->opsets->find(domain);
  if (opset == scope->opsets->end()) {
    return TakeUnknown(node, {false, false}, scope, parts);
  }
  const int version = KnownOpset(domain, opset->second);
  // No model has operations that are opaque already.
  const OperatorDef* const row =
      domain == kOpaqueDomain
          ? nullptr
          : state_.ops.Find(domain, node.op_type(), version);
  const auto model = state_.opsets.find(domain);
  const bool is_of_model =
      model != state_.opsets.end() &&
      (row == nullptr
           ? model->second == opset->second
           : state_.ops.Find(domain, node.op_type(),
                             KnownOpset(domain, model->second)) == row);
  if (row == nullptr) {
    return TakeUnknown(node, {true, is_of_model}, scope, parts);
  }
  if (!is_of_model) {
    return state_.Error(
        parts->where,
        fmt::format("is of opset {}, by its function", opset->second),
        "what it is in the model's opset");
  }
  WarnIfNewer(*row, opset->second);
  WarnIfDeprecated(*row, version, *parts);
  parts->def = row;
}

// Newer versions of an operator mostly add element types or attributes, so the
// newest that is known is the best guess. It is said once for each operator.
void GraphImporter::WarnIfNewer(const OperatorDef& row, int opset) {
  if (KnownOpset(row.domain, opset) == opset ||
      !state_.taken_as_older.emplace(row.name).second) {
    return;
  }
  state_.Warning(
      fmt::format("operator {}", row.name),
      fmt::format("is of opset {}, taken as that of opset {}", opset,
                  row.since),
      fmt::format("opset {} or less, the newest that is known", kNewestOpset));
}

void GraphImporter::WarnIfDeprecated(const OperatorDef& row, int opset,
                                     const NodeParts& parts) {
  for (const Deprecation& one : kDeprecations) {
    if (row.domain != one.domain || row.name != one.name || opset < one.since ||
        row.since > one.since) {
      continue;
    }
    state_.AddOfOperator(
        network_kinds::kInvalidInformation, parts.where, parts.name,
        std::string(row.name), Severity::kWarning,
        fmt::format("is deprecated from opset {} on", one.since),
        one.successor);
  }
}

void GraphImporter::TakeUnknown(const proto::Node& node, DomainUse use,
                                Scope* scope, NodeParts* parts) {
  const std::string domain = DomainOf(node.domain());
  const OperatorDef* oldest = nullptr;
  const bool has_bodies = domain == kContribDomain || domain == kClassicDomain;
  bool has_domain = domain.empty() || has_bodies;
  const std::vector<std::string> contrib = ContribNames(domain);
  std::vector<std::string> known = contrib;
  for (const OperatorDef* row : state_.ops.rows()) {
    if (row->domain != domain || domain == kOpaqueDomain) continue;
    has_domain = true;
    known.emplace_back(row->name);
    if (row->name != node.op_type()) continue;
    if (oldest == nullptr || row->since < oldest->since) oldest = row;
  }
  if (has_domain && !use.is_imported) return ReportNotImported(node, *parts);
  const char* const reason = WhyUnsupported(domain, node.op_type());
  const bool is_contrib = std::find(contrib.begin(), contrib.end(),
                                    node.op_type()) != contrib.end();
  const bool is_refused =
      oldest != nullptr || (reason != nullptr && !IsAmongTensors(node, scope));
  parts->is_opaque =
      KeepsOpaque(use.is_imported && use.is_of_model) && !is_refused;
  // What nothing here can run is a fault of no more than the run, unless an
  // opset or a name is wrong.
  const auto say = [&](std::string found, std::string expected) {
    if (parts->is_opaque) found += " and becomes opaque";
    const bool is_of_run = parts->is_opaque || !has_domain || reason != nullptr;
    state_.AddOfOperator(
        is_of_run ? network_kinds::kUnsupported
                  : network_kinds::kInvalidInformation,
        parts->where, parts->name, OperatorName(node),
        parts->is_opaque ? Severity::kWarning : Severity::kError,
        std::move(found), std::move(expected));
  };
  if (!has_domain) {
    return say(fmt::format("is of domain {}", Shortened(domain)),
               "ai.onnx, or a function of the model");
  }
  if (reason != nullptr) {
    return say(fmt::format("is not supported: it {}", reason),
               "operators that calculate with tensors of numbers");
  }
  if (oldest != nullptr) {
    return say("is not known", fmt::format("opset {} or more", oldest->since));
  }
  if (is_contrib) {
    return say("is not known in an opset of ai.onnx this old", "11 or more");
  }
  say("is not known",
      has_bodies ? fmt::format("an operator of {} that is known{}", domain,
                               DidYouMean(node.op_type(), known))
                 : KnownOnnx(node.op_type()));
}

// Returns what is expected in place of an operator of ONNX's own.
std::string GraphImporter::KnownOnnx(const std::string& name) const {
  const auto opset = state_.opsets.find("");
  const bool is_newer = opset != state_.opsets.end() &&
                        KnownOpset("", opset->second) != opset->second;
  return is_newer ? fmt::format(
                        "an operator of opset {} or less, the newest that is "
                        "known",
                        kNewestOpset)
                  : "an operator that is known" +
                        DidYouMean(name, state_.ops.Names());
}

void GraphImporter::ReportNotImported(const proto::Node& node,
                                      const NodeParts& parts) {
  state_.AddOfOperator(network_kinds::kInvalidInformation, parts.where,
                       parts.name, OperatorName(node), Severity::kError,
                       "is of a domain that the model does not import",
                       "an opset_import of it");
}

}  // namespace nodewise
