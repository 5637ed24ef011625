// Which tensors of a model each node of a target holds.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ir/operation_source.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/source_report.h"
#include "nodewise/report/target_report.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedOperations = 3;
// Between more operations than these one knows little of where a node is.
constexpr size_t kMostBetween = 6;
constexpr std::string_view kUnknownOrder = "order not explained";

std::vector<std::string> NamesOf(const AlignedEntry& entry,
                                 const Network& network) {
  std::vector<std::string> names;
  for (const EntryMatch& match : entry.matches) {
    const NetworkValue& value = network.value(match.value);
    names.push_back(value.name);
    if (!match.without_input.has_value()) continue;
    const OperatorDef& def = network.operation(value.producer).attrs.def();
    names.back() +=
        fmt::format(" without {}", def.inputs[*match.without_input].name);
  }
  return names;
}

std::vector<std::string> OperationsIn(const AlignedEntry& entry,
                                      const Network& network) {
  std::vector<std::string> names;
  for (const OperationId id : entry.between) {
    names.push_back(network.operation(id).name);
  }
  return names;
}

// Where the operations are from that make what an entry holds, or that it is
// between.
std::vector<OperationSource> SourcesOf(const AlignedEntry& entry,
                                       const Network& network) {
  std::vector<OperationId> ids;
  for (const EntryMatch& match : entry.matches) {
    ids.push_back(network.value(match.value).producer);
  }
  if (ids.empty()) ids = entry.between;
  std::vector<OperationSource> sources;
  for (const OperationId id : ids) {
    if (id == kNoOperation) continue;
    auto source = SourceOf(network.operation(id));
    if (source.has_value()) sources.push_back(*std::move(source));
  }
  return sources;
}

// The first of several is enough to find the place.
std::string FirstOf(const std::vector<OperationSource>& sources) {
  return sources.empty() ? "" : sources[0].ToString();
}

bool HasSources(const Network& network) {
  const auto order = network.order();
  return std::any_of(order.begin(), order.end(), [&](OperationId id) {
    return SourceOf(network.operation(id)).has_value();
  });
}

std::string InsideOf(const AlignedEntry& entry, const Network& network) {
  if (entry.between.empty()) return "-";
  return fmt::format("- (inside of {})",
                     ListOf(OperationsIn(entry, network), kNamedOperations));
}

std::string LayoutOf(const EntryMatch& match) {
  return match.has_unknown_order ? std::string(kUnknownOrder)
                                 : match.layout.text;
}

void AddEntry(const AlignedEntry& entry, const std::string& key,
              const std::vector<std::string>& names, const Network& network,
              JsonWriter* json) {
  json->BeginObject();
  json->Add("entry", key);
  json->Add("tensors", names);
  if (entry.matches.empty()) {
    json->Add("inside_of", OperationsIn(entry, network));
  }
  AddSources(SourcesOf(entry, network), json);
  if (!entry.matches.empty()) {
    json->Add("distance", entry.matches[0].distance);
    json->Add("layout", LayoutOf(entry.matches[0]));
    json->Add("order_is_known", !entry.matches[0].has_unknown_order);
  }
  json->EndObject();
}

void ShowAlignment(const Alignment& alignment, const GraphIndex& index,
                   const Network& network, bool with_all_lines,
                   Report* report) {
  const Graph& graph = index.graph();
  TextTable table;
  std::vector<std::string> titles = {"Entry", "Shape", "Tensor of the model",
                                     "Distance", "Layout"};
  const bool has_sources = HasSources(network);
  if (has_sources) titles.emplace_back("From");
  table.AddRow(titles);
  report->json.BeginArray("entries");
  for (const AlignedEntry& entry : alignment.entries) {
    if (!entry.varies || !graph.IsFunction(index.NodeOf(entry.entry))) {
      continue;
    }
    const std::string key = index.KeyOf(entry.entry);
    const std::vector<std::string> names = NamesOf(entry, network);
    AddEntry(entry, key, names, network, &report->json);
    const bool is_matched = !entry.matches.empty();
    std::vector<std::string> row = {
        key,
        fmt::format("({})", fmt::join(graph.entry(entry.entry).shape, ", ")),
        is_matched ? fmt::format("{}", fmt::join(names, ", "))
                   : InsideOf(entry, network),
        is_matched ? fmt::format("{:.2g}", entry.matches[0].distance) : "",
        is_matched ? LayoutOf(entry.matches[0]) : ""};
    if (has_sources) row.push_back(FirstOf(SourcesOf(entry, network)));
    table.AddRow(row);
  }
  report->json.EndArray();
  const size_t nodes = alignment.CountVarying(graph);
  const size_t matched = alignment.CountMatched(index);
  report->json.Add("nodes", static_cast<uint64_t>(nodes));
  report->json.Add("matched", static_cast<uint64_t>(matched));
  const size_t between = alignment.CountBetween(index, kMostBetween);
  report->json.Add("between", static_cast<uint64_t>(between));
  report->text += "\n";
  report->text.Add(table, 0, with_all_lines ? 0 : kShownLines + 1);
  report->text += fmt::format(
      "\n{} of {} that depend on inputs hold a tensor of the model\n", matched,
      CountOf(nodes, "node"));
  if (between > 0) {
    report->text += fmt::format(
        "{} more {} between those, with {} operations of the model at most\n",
        between, between == 1 ? "is" : "are", kMostBetween);
  }
}

}  // namespace

Report ReportOf(const AlignAnswer& answer, bool with_all_lines) {
  Report report;
  report.notes = answer.target.notes;
  ShowTarget(answer.target, &report);
  for (const auto* notes : {&answer.notes, &answer.beside.notes}) {
    report.notes.insert(report.notes.end(), notes->begin(), notes->end());
  }
  ShowOpaque(answer.beside.opaque, &report);
  ShowAlignment(answer.alignment, answer.target.target->index(),
                *answer.beside.network, with_all_lines, &report);
  return report;
}

}  // namespace nodewise
