// A compiled network beside its model: which tensor of the model each entry
// holds, and what is left over.

#include <algorithm>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedOperations = 3;
// Between more operations than these one knows little of where a node is.
constexpr size_t kMostBetween = 6;

// An entry that lacks a bias, say, which a later node adds, still says which
// value it becomes.
std::vector<std::string> TensorsIn(const AlignedEntry& entry,
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

// Returns where the operations are from that make what an entry holds, or that
// it is between.
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

// The first source is enough to find the place. Without `has_sources` the table
// has no column for it.
void AddEntry(const AlignedEntry& entry, const GraphIndex& index,
              const Network& network, bool has_sources, TextTable* table,
              JsonWriter* json) {
  const std::string key = index.KeyOf(entry.entry);
  const std::vector<std::string> names = TensorsIn(entry, network);
  const auto between = OperationNames(network, entry.between);
  const std::vector<OperationSource> sources = SourcesOf(entry, network);
  const std::string shape = fmt::format(
      "({})", fmt::join(index.graph().entry(entry.entry).shape, ", "));
  std::vector<std::string> row;
  json->BeginObject();
  AddMembers(json, "entry", key, "tensors", names);
  if (entry.matches.empty()) {
    json->Add("inside_of", between);
    AddSources(sources, json);
    row = {key, shape,
           between.empty() ? "-"
                           : fmt::format("- (inside of {})",
                                         ListOf(between, kNamedOperations)),
           "", ""};
  } else {
    const EntryMatch& nearest = entry.matches[0];
    const std::string layout =
        nearest.has_unknown_order ? "order not explained" : nearest.layout.text;
    AddSources(sources, json);
    AddMembers(json, "distance", nearest.distance, "layout", layout,
               "order_is_known", !nearest.has_unknown_order);
    row = {key, shape, fmt::format("{}", fmt::join(names, ", ")),
           ShortError(nearest.distance), layout};
  }
  json->EndObject();
  if (has_sources) row.push_back(sources.empty() ? "" : sources[0].ToString());
  table->AddRow(row);
}

// Parameters, and what is made of them alone, hold no tensor of a run and have
// no row.
void ShowAlignment(const Alignment& alignment, const GraphIndex& index,
                   const Network& network, bool with_all_lines,
                   Report* report) {
  const Graph& graph = index.graph();
  TextTable table;
  std::vector<std::string> titles = {"Entry", "Shape", "Tensor of the model",
                                     "Distance", "Layout"};
  // Most exporters note nothing, and then the column would be empty.
  const bool has_sources =
      std::ranges::any_of(network.order(), [&](OperationId id) {
        return SourceOf(network.operation(id)).has_value();
      });
  if (has_sources) titles.emplace_back("From");
  table.AddRow(titles);
  report->json.BeginArray("entries");
  for (const AlignedEntry& entry : alignment.entries) {
    if (entry.varies && graph.IsFunction(index.NodeOf(entry.entry))) {
      AddEntry(entry, index, network, has_sources, &table, &report->json);
    }
  }
  report->json.EndArray();
  const size_t nodes = alignment.CountVarying(graph);
  const size_t matched = alignment.CountMatched(index);
  const size_t between = alignment.CountBetween(index, kMostBetween);
  AddMembers(report, "nodes", nodes, "matched", matched, "between", between);
  report->text += "\n";
  report->text.Add(table, 0, with_all_lines ? 0 : kShownLines + 1);
  AddText(report,
          "\n{} of {} that depend on inputs hold a tensor of the model\n",
          matched, CountOf(nodes, "node"));
  if (between > 0) {
    AddText(
        report,
        "{} more {} between those, with {} operations of the model at most\n",
        between, between == 1 ? "is" : "are", kMostBetween);
  }
}

}  // namespace

Report ReportOf(const AlignAnswer& answer, bool with_all_lines) {
  Report report;
  report.notes = answer.target.notes;
  ShowTarget(answer.target, &report);
  AddNotes(answer.notes, &report);
  AddNotes(answer.beside.notes, &report);
  ShowOpaque(answer.beside.opaque, &report);
  ShowAlignment(answer.alignment, answer.target.target->index(),
                *answer.beside.network, with_all_lines, &report);
  return report;
}

}  // namespace nodewise
