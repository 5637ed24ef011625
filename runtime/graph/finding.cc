#include "nodewise/graph/finding.h"

#include <utility>

namespace nodewise {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// A script finds the node by its key, which is unique, or by its number without
// having the graph.
void AddNode(const NodePlace& place, JsonWriter* json) {
  json->Add("node", place.key);
  json->Add("node_index", uint64_t{Index(place.node)});
}

// Members that say nothing are left out of a place; those of a finding itself
// are always there (docs/findings.md).
void AddIfNotEmpty(std::string_view key, const std::string& text,
                   JsonWriter* json) {
  if (!text.empty()) json->Add(key, text);
}

void AddPlace(const FindingPlace& place, JsonWriter* json) {
  json->BeginObject("place");
  std::visit(
      Overloaded{[&](const NamedPlace& at) { json->Add("name", at.name); },
                 [&](const FilePlace& at) {
                   json->Add("file", at.file);
                   AddIfNotEmpty("path", at.path, json);
                   if (at.line == 0) return;
                   json->Add("line", uint64_t{at.line});
                   json->Add("column", uint64_t{at.column});
                 },
                 [&](const NodePlace& at) { AddNode(at, json); },
                 [&](const EntryPlace& at) {
                   AddNode(at.node, json);
                   json->Add("entry", at.key);
                   json->Add("entry_index", uint64_t{Index(at.entry)});
                 },
                 [&](const OperationPlace& at) {
                   AddIfNotEmpty("operation", at.operation, json);
                   AddIfNotEmpty("value", at.value, json);
                 }},
      place);
  json->EndObject();
}

// The parts are for programs, and "text" is the line that a user sees.
void AddFinding(const Finding& finding, JsonWriter* json) {
  json->BeginObject();
  json->Add("where", finding.Where());
  json->Add("found", finding.found);
  json->Add("expected", finding.expected);
  json->Add("hint", finding.hint);
  if (finding.node() != nullptr) json->Add("node", finding.node()->key);
  json->Add("text", finding.ToString());
  json->Add("kind", finding.kind.name);
  json->Add("severity",
            finding.severity == Severity::kError ? "error" : "warning");
  json->Add("part", finding.part());
  AddPlace(finding.place, json);
  json->BeginObject("numbers");
  for (const FindingNumber& number : finding.numbers) {
    std::visit([&](auto value) { json->Add(number.name, value); },
               number.value);
  }
  json->EndObject();
  json->EndObject();
}

}  // namespace

NodePlace PlaceOf(const GraphIndex& index, NodeId node) {
  return {node, index.KeyOf(node), index.TitleOf(node)};
}

EntryPlace PlaceOf(const GraphIndex& index, NodeId node, EntryId entry) {
  return {PlaceOf(index, node), entry, index.KeyOf(entry)};
}

// An entry is met by a node, which is the one at fault.
const NodePlace* Finding::node() const {
  if (const auto* entry = std::get_if<EntryPlace>(&place)) return &entry->node;
  return std::get_if<NodePlace>(&place);
}

std::optional<double> Finding::Number(std::string_view name) const {
  for (const FindingNumber& number : numbers) {
    if (number.name != name) continue;
    return std::visit([](auto value) { return static_cast<double>(value); },
                      number.value);
  }
  return std::nullopt;
}

std::string Finding::Where() const {
  return std::visit(
      Overloaded{[](const NamedPlace& at) { return at.name; },
                 [](const FilePlace& at) {
                   return Diagnostic{
                       Severity::kError, at.file, at.path, at.line,
                       at.column,        "",      "",      ""}
                       .Where();
                 },
                 [](const NodePlace& at) { return at.title; },
                 [](const EntryPlace& at) { return at.node.title; },
                 [](const OperationPlace& at) { return at.text; }},
      place);
}

// Diagnostic::ToString() makes the same of its parts; a finding's place may
// also begin the sentence.
std::string Finding::ToString() const {
  std::string text = Where();
  if (!text.empty()) text += kind.continues_place ? " " : ": ";
  text += found;
  if (!expected.empty()) text += ", expected " + expected;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

// Callers add an expectation and a hint themselves, since most findings have
// neither.
Finding MakeFinding(const FindingKind& kind, FindingPlace place,
                    std::string found, std::vector<FindingNumber> numbers) {
  Finding finding{kind, kind.severity, std::move(place), std::move(found)};
  finding.numbers = std::move(numbers);
  return finding;
}

Finding FindingOf(const Diagnostic& diagnostic, const FindingKind& kind) {
  // Without a path or line nothing is known but the file's name, or what stands
  // in its place.
  FindingPlace place = NamedPlace{diagnostic.file};
  if (!diagnostic.path.empty() || diagnostic.line > 0) {
    place = FilePlace{diagnostic.file, diagnostic.path, diagnostic.line,
                      diagnostic.column};
  }
  return {kind,
          diagnostic.severity,
          std::move(place),
          diagnostic.found,
          diagnostic.expected,
          diagnostic.hint};
}

std::vector<Finding> FindingsOf(const std::vector<Diagnostic>& diagnostics,
                                const FindingKind& kind) {
  std::vector<Finding> findings;
  for (const Diagnostic& diagnostic : diagnostics) {
    findings.push_back(FindingOf(diagnostic, kind));
  }
  return findings;
}

Finding FindingOf(const absl::Status& status) {
  return FindingOf(DiagnosticOf(status), finding_kinds::kCannotJudge);
}

void AddFindings(std::string_view key, const std::vector<Finding>& findings,
                 JsonWriter* json) {
  json->BeginArray(key);
  for (const Finding& finding : findings) AddFinding(finding, json);
  json->EndArray();
}

}  // namespace nodewise
