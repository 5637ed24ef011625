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
  std::string_view domain = "";
};
constexpr Deprecation kDeprecations[] = {
    {"GroupNormalization", 18, "that of opset 21"},
    {"Scatter", 11, "ScatterElements"},
    {"TreeEnsembleClassifier", 5, "TreeEnsemble", kClassicDomain},
    {"TreeEnsembleRegressor", 5, "TreeEnsemble", kClassicDomain},
    {"Upsample", 10, "Resize"},
};

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
    // From version 2 on, LabelEncoder has a row of its own; this is the one
    // before.
    {"LabelEncoder", kStrings, kClassicDomain},
    {"ZipMap", kMaps, kClassicDomain},
};

const char* UnsupportedReason(std::string_view domain, std::string_view name) {
  for (const Unsupported& one : kUnsupported) {
    if (one.domain == domain && one.name == name) return one.reason;
  }
  return nullptr;
}

}  // namespace

// Finds the row of the operator that holds in this scope. If there is none, the
// node becomes opaque, or it has a fault, which is reported.
void GraphImporter::FindOperator(NodeParts& parts) {
  const proto::Node& node = parts.node;
  const std::string domain = DomainOf(node.domain());
  const int* const opset = FindOrNull(*parts.scope.opsets, domain);
  if (opset == nullptr) return ImportUnknown(parts, false, false);
  const int version = KnownOpset(domain, *opset);
  // No model has operations that are opaque already.
  const OperatorDef* const row =
      domain == kOpaqueDomain
          ? nullptr
          : state_.ops.Find(domain, node.op_type(), version);
  // A network has one opset for each domain, the model's. Where a function has
  // been written for another, its nodes must mean the same there; where nothing
  // is known of the operator, that is only certain of the same opset.
  const int* const model = FindOrNull(state_.opsets, domain);
  const bool is_of_model =
      model != nullptr &&
      (row == nullptr ? *model == *opset
                      : state_.ops.Find(domain, node.op_type(),
                                        KnownOpset(domain, *model)) == row);
  if (row == nullptr) return ImportUnknown(parts, true, is_of_model);
  if (!is_of_model) {
    return state_.Error(parts.where,
                        fmt::format("is of opset {}, by its function", *opset),
                        "what it is in the model's opset");
  }
  parts.def = row;
  WarnIfNewer(*row, *opset);
  WarnIfDeprecated(version, parts);
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

// A row that is newer than the end of the operator is a new operator of the old
// name, such as GroupNormalization of opset 21.
void GraphImporter::WarnIfDeprecated(int opset, const NodeParts& parts) {
  const OperatorDef& row = *parts.def;
  for (const Deprecation& one : kDeprecations) {
    if (row.domain != one.domain || row.name != one.name || opset < one.since ||
        row.since > one.since) {
      continue;
    }
    AddOfOperator(parts, network_kinds::kInvalidInformation, Severity::kWarning,
                  fmt::format("is deprecated from opset {} on", one.since),
                  one.successor, std::string(row.name));
  }
}

// Decides what becomes of a node without a row, and says so. Names that are
// expected instead are those of its domain.
void GraphImporter::ImportUnknown(NodeParts& parts, bool is_imported,
                                  bool is_of_model) {
  const std::string& name = parts.node.op_type();
  const std::string domain = DomainOf(parts.node.domain());
  const OperatorDef* oldest = nullptr;
  const bool has_bodies = domain == kContribDomain || domain == kClassicDomain;
  bool has_domain = domain.empty() || has_bodies;
  const std::vector<std::string> contrib = ContribNames(domain);
  std::vector<std::string> known = contrib;
  for (const OperatorDef* row : state_.ops.rows()) {
    if (row->domain != domain || domain == kOpaqueDomain) continue;
    has_domain = true;
    known.emplace_back(row->name);
    if (row->name != name) continue;
    if (oldest == nullptr || row->since < oldest->since) oldest = row;
  }
  if (has_domain && !is_imported) return ReportNotImported(parts);
  const char* const reason = UnsupportedReason(domain, name);
  const bool is_refused =
      oldest != nullptr || (reason != nullptr && !IsAmongTensors(parts));
  parts.is_opaque = KeepsOpaque(is_imported && is_of_model) && !is_refused;
  // An operator that nothing here can run is not a fault of the model, unless
  // its opset or its name is wrong.
  const auto say = [&](std::string found, std::string expected) {
    if (parts.is_opaque) found += " and becomes opaque";
    const bool is_of_run = parts.is_opaque || !has_domain || reason != nullptr;
    AddOfOperator(parts,
                  is_of_run ? network_kinds::kUnsupported
                            : network_kinds::kInvalidInformation,
                  parts.is_opaque ? Severity::kWarning : Severity::kError,
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
  if (IsIn(contrib, name)) {
    return say("is not known in an opset of ai.onnx this old", "11 or more");
  }
  say("is not known", has_bodies
                          ? fmt::format("an operator of {} that is known{}",
                                        domain, DidYouMean(name, known))
                          : KnownOnnx(name));
}

std::string GraphImporter::KnownOnnx(const std::string& name) const {
  const int* const opset = FindOrNull(state_.opsets, "");
  if (opset == nullptr || KnownOpset("", *opset) == *opset) {
    return "an operator that is known" + DidYouMean(name, state_.ops.Names());
  }
  return fmt::format(
      "an operator of opset {} or less, the newest that is known",
      kNewestOpset);
}

void GraphImporter::ReportNotImported(const NodeParts& parts) {
  AddOfOperator(parts, network_kinds::kInvalidInformation, Severity::kError,
                "is of a domain that the model does not import",
                "an opset_import of it");
}

// A model may have thousands of nodes of one operator, so that one list of them
// says more than as many lines. The diagnostic is written at the first of them,
// where it belongs in the order of the file, and gets the names of all in the
// end (ImportState::CountOfOperators).
void GraphImporter::AddOfOperator(const NodeParts& parts,
                                  const FindingKind& kind, Severity severity,
                                  std::string found, std::string expected,
                                  std::string name) {
  if (name.empty()) name = OperatorName(parts.node);
  const auto [entry, is_new] = state_.of_operators.emplace(
      std::tuple(state_.within, name, found, expected),
      ImportState::OfOperator{state_.within, name, {}, {}});
  ImportState::OfOperator& one = entry->second;
  one.nodes.push_back(parts.name);
  one.is_error = severity == Severity::kError;
  if (is_new) {
    one.diagnostic = state_.Add(kind, severity, parts.where, std::move(found),
                                std::move(expected));
  } else if (one.is_error) {
    ++state_.errors;
  }
}

}  // namespace nodewise
