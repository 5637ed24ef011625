// A comparison of tensors, as a table of the worst and as a document of all.

#include "nodewise/report/comparison_report.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Tensors that were paired by anything but their names show both.
std::string TitleOf(const TensorComparison& tensor) {
  const std::string name = tensor.key.Name();
  const std::string partner = tensor.candidate.Name();
  return name == partner ? name : name + " -> " + partner;
}

// Returns the node that made a tensor; none without a graph, or if it has none
// of that name.
std::optional<NodeId> NodeOf(const TensorKey& key,
                             const DumpDifference* where) {
  if (where == nullptr) return std::nullopt;
  const auto node = where->index->FindNode(key.node);
  return node.ok() ? std::optional<NodeId>(*node) : std::nullopt;
}

std::string_view KindAt(const TensorKey& key, const DumpDifference* where) {
  const auto node = NodeOf(key, where);
  return node.has_value() ? KindOf(where->nodes[*node]) : "";
}

// Whether the network is given the tensor: an input or a parameter.
bool IsGiven(const TensorKey& key, const DumpDifference* where) {
  const auto node = NodeOf(key, where);
  return node.has_value() && !where->index->graph().IsFunction(*node);
}

// Returns those that differ. What the network is given comes last among the
// worst: it explains what follows, and no node is to blame for it.
std::vector<const TensorComparison*> Differing(const Comparison& comparison,
                                               const DumpDifference* where,
                                               ComparisonView::Order order) {
  std::vector<const TensorComparison*> differing;
  for (const TensorComparison& tensor : comparison.tensors) {
    if (!tensor.is_equal()) differing.push_back(&tensor);
  }
  if (order == ComparisonView::Order::kReference) return differing;
  const auto weight = [where](const TensorComparison* tensor) {
    return std::tuple(!IsGiven(tensor->key, where), tensor->verdict(),
                      RelativeError(*tensor));
  };
  std::ranges::stable_sort(differing, std::greater<>(), weight);
  return differing;
}

// With a graph each row says what its node is, which is what a reader looks for
// first: an error that a node was given is not its fault.
void AddTable(const std::vector<const TensorComparison*>& differing,
              const DumpDifference* where, size_t max_lines, ReportText* text) {
  TextTable table;
  std::vector<std::string> titles = {"tensor",   "verdict", "largest error",
                                     "relative", "rmse",    "1 - cosine",
                                     "different"};
  if (where != nullptr) titles.insert(titles.begin() + 2, "node");
  table.AddRow(titles);
  for (const TensorComparison* const tensor : differing) {
    const Metrics& metrics = tensor->metrics;
    std::vector<std::string> cells = {
        TitleOf(*tensor),
        std::string(NameOf(tensor->verdict())),
        fmt::format("{:.3g}", metrics.largest_error.error),
        fmt::format("{:.3g}", metrics.relative_error()),
        fmt::format("{:.3g}", metrics.rmse),
        fmt::format("{:.3g}", metrics.cosine_distance),
        fmt::format("{:.3g} %", 100 * static_cast<double>(metrics.different) /
                                    static_cast<double>(metrics.elements))};
    if (where != nullptr) {
      cells.insert(cells.begin() + 2, std::string(KindAt(tensor->key, where)));
    }
    table.AddRow(cells);
  }
  if (differing.empty()) return;
  // The titles are a row, too.
  text->Add(table, 2, max_lines == 0 ? 0 : max_lines + 1);
  *text += '\n';
}

// Adds the reasons for the worst verdict: those of the tensor that has it first
// in the order of the reference, regardless of the order of the table.
void AddWorst(const Comparison& comparison, ReportText* text) {
  const auto worst = std::ranges::max_element(comparison.tensors, {},
                                              &TensorComparison::verdict);
  if (worst == comparison.tensors.end() || worst->verdict() == Verdict::kPass) {
    return;
  }
  const ElementDifference& element = worst->Worst();
  const auto [actual, expected] =
      FormatDistinct(element.actual, element.expected);
  *text += fmt::format(
      "first {}: {} {}\n  {}\n  at element {} found {}, expected {}\n",
      NameOf(worst->verdict()), Printable(TitleOf(*worst)), worst->type,
      worst->judgement.reason, element.element, actual, expected);
  if (!worst->judgement.would_pass.empty()) {
    *text += fmt::format("  would pass with {}\n", worst->judgement.would_pass);
  }
  if (worst->details.has_value()) {
    for (const FailurePattern& pattern : worst->details->patterns) {
      *text += fmt::format("  {}: {}\n", NameOf(pattern.shape),
                           Printable(pattern.words));
    }
  }
  *text += '\n';
}

// How the host has made an input that is not as it should be.
// Only the tensors of the comparison have been described, and each key is there
// once.
std::string GivenInputText(const Comparison& comparison,
                           const std::string& key) {
  for (const TensorComparison& tensor : comparison.tensors) {
    const bool is_told = tensor.key.Name() == key && tensor.details.has_value();
    if (is_told) return ": " + Printable(DescribeGivenInput(*tensor.details));
  }
  return "";
}

// Says where the difference begins, and how much only follows from that. The
// nodes where it begins are few as a rule. An input or a parameter has no node
// to blame, so its readers are named, and how the host may have made it.
void AddFirstDifferences(const Comparison& comparison,
                         const DumpDifference& where, ReportText* text) {
  constexpr size_t kMostShown = 8, kMostReaders = 2;
  const std::vector<NodeId> begins = where.NodesThat(DumpedNode::kBegins);
  TextTable table;
  for (const NodeId node : begins) {
    const std::string& key = where.index->KeyOf(node);
    std::string reason(ReasonFor(where, node));
    if (!where.index->graph().IsFunction(node)) {
      reason +=
          ", read by " +
          ListOf(KeysOf(*where.index, where.ReadersOf(node)), kMostReaders) +
          GivenInputText(comparison, key);
    }
    table.AddRow({"begins at", key + ": " + reason});
  }
  text->Add(table, 0, kMostShown);
  const auto add_count = [&](DumpedNode state, std::string_view one,
                             std::string_view many, std::string_view what) {
    const size_t count = where.NodesThat(state).size();
    if (count == 0) return;
    *text += fmt::format("{} {} {}\n", CountOf(count, "node"),
                         count == 1 ? one : many, what);
  };
  add_count(DumpedNode::kFollows,
            "follows:", "follow:", "what is read there differs, too");
  add_count(DumpedNode::kUnclear, "may be where it begins:",
            "may be where it begins:", "what is read there was not compared");
  if (!table.rows().empty()) *text += '\n';
}

// "40 tensors compared: 30 equal, 9 pass, 1 error; 2 skipped"
std::string TallyOf(const Comparison& comparison) {
  const auto equal = static_cast<size_t>(
      std::ranges::count_if(comparison.tensors, &TensorComparison::is_equal));
  const auto others = static_cast<size_t>(
      std::ranges::count_if(comparison.skipped, &SkippedTensor::is_difference));
  const std::pair<size_t, std::string_view> counts[] = {
      {equal, "equal"},
      {comparison.equal_hashes, "with equal hashes"},
      {comparison.CountOf(Verdict::kPass) - equal, "pass"},
      {comparison.CountOf(Verdict::kWarning), "warning"},
      {comparison.CountOf(Verdict::kInconclusive), "inconclusive"},
      {comparison.CountOf(Verdict::kError), "error"},
      {others, others == 1 ? "differs in type, shape or hash"
                           : "differ in type, shape or hash"}};
  std::vector<std::string> parts;
  for (const auto& [count, what] : counts) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  }
  const size_t skipped = comparison.skipped.size() - others;
  return fmt::format(
      "{} compared: {}{}",
      CountOf(comparison.tensors.size() + comparison.equal_hashes + others,
              "tensor"),
      fmt::join(parts, ", "),
      skipped > 0 ? fmt::format("; {} skipped", skipped) : "");
}

// These are names of the document's format and do not change with the words.
std::string_view KindName(SkippedTensor::Kind kind) {
  constexpr std::string_view kNames[] = {"missing", "other type", "other hash",
                                         "not recorded"};
  return kNames[static_cast<size_t>(kind)];
}

// The elements with the largest errors are only there if some element differs.
void AddMetrics(const Metrics& metrics, JsonWriter* json) {
  for (const MetricRow& row : AllMetrics()) {
    const MetricValue value = row.value(metrics);
    if (const auto* const element = std::get_if<ElementDifference>(&value)) {
      AddElement(json, row.name, *element);
    } else if (const auto* const count = std::get_if<uint64_t>(&value)) {
      json->Add(row.name, *count);
    } else if (const auto* const number = std::get_if<double>(&value)) {
      json->Add(row.name, *number);
    }
  }
}

// A tensor that is equal has its metrics, too: their number of elements says
// how much was compared. What describes a difference is there if that was asked
// for.
void AddTensor(const TensorComparison& tensor, const DumpDifference* where,
               JsonWriter* json) {
  AddMembers(
      json, "tensor", tensor.key.Name(), "candidate", tensor.candidate.Name(),
      "paired_by", NameOf(tensor.paired_by), "type", tensor.type, "verdict",
      NameOf(tensor.verdict()), "node_kind",
      OptionalIf(where != nullptr, KindAt(tensor.key, where)), "reason",
      tensor.judgement.reason, "would_pass", tensor.judgement.would_pass);
  if (!tensor.is_equal()) AddElement(json, "worst", tensor.Worst());
  AddMetrics(tensor.metrics, json);
  if (!tensor.details.has_value()) return;
  const DifferenceDetails& details = *tensor.details;
  AddObjects(json, "patterns", details.patterns, [&](const auto& pattern) {
    AddMembers(json, "shape", NameOf(pattern.shape), "words", pattern.words);
  });
  AddMembers(json, "ulp_histogram",
             std::vector<int64_t>(details.ulps.begin(), details.ulps.end()));
}

void AddNode(const DumpDifference& where, NodeId node, JsonWriter* json) {
  AddMembers(json, "node", where.index->KeyOf(node), "node_index", Index(node),
             "kind", KindOf(where.nodes[node]));
}

// Inputs and parameters are in the list of verdicts, since one of them may be
// where it begins.
void AddNodes(const DumpDifference& where, JsonWriter* json) {
  const auto begins = where.NodesThat(DumpedNode::kBegins);
  AddObjects(json, "culprits", begins, [&](NodeId node) {
    AddNode(where, node, json);
    AddObject(json, "evidence", "reason", ReasonFor(where, node));
  });
  uint32_t number = 0;
  AddObjects(json, "verdicts", where.index->graph().nodes,
             [&](const auto&) { AddNode(where, NodeId{number++}, json); });
}

}  // namespace

// The words are those of the option that chooses the order.
absl::StatusOr<ComparisonView::Order> ParseComparisonOrder(
    const std::string& text) {
  if (text == "error") return ComparisonView::Order::kWorstFirst;
  if (text == "order") return ComparisonView::Order::kReference;
  return InvalidArgument("found \"{}\", expected error or order",
                         Printable(text));
}

void ShowComparison(const Comparison& comparison, const DumpDifference* where,
                    const ComparisonView& view, Report* report) {
  ReportText& text = report->text;
  const auto differing = Differing(comparison, where, view.order);
  AddTable(differing, where, view.max_lines, &text);
  if (where != nullptr) AddFirstDifferences(comparison, *where, &text);
  AddWorst(comparison, &text);
  text += TallyOf(comparison) + "\n";
  TextTable others;
  for (const bool is_difference : {true, false}) {
    for (const SkippedTensor& tensor : comparison.skipped) {
      if (tensor.is_difference() != is_difference) continue;
      others.AddRow({is_difference ? "differs" : "skipped", tensor.key.Name(),
                     tensor.why});
    }
  }
  text.Add(others, 2, view.max_lines);
  AddObjects(report, "tensors", comparison.tensors, [&](const auto& tensor) {
    AddTensor(tensor, where, &report->json);
  });
  report->json.Add("equal_hashes", comparison.equal_hashes);
  AddObjects(report, "skipped", comparison.skipped, [&](const auto& skipped) {
    AddMembers(report, "tensor", skipped.key.Name(), "kind",
               KindName(skipped.kind), "why", skipped.why);
  });
  if (where != nullptr) AddNodes(*where, &report->json);
}

}  // namespace nodewise
