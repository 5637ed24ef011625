#include "apps/nodewise/demo_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kShownNodes = 3;

// Returns how much of what a correct kernel may be off the error is, in words.
std::string ShareOfBound(const TensorComparison& worst) {
  const double ratio = ErrorOverBound(worst);
  if (std::isnan(ratio)) return "no bound is known";
  if (std::isinf(ratio)) return "beyond any bound";
  if (ratio > 1) return fmt::format("{:.0f} times its bound", ratio);
  return fmt::format("{:.1f} % of its bound", 100 * ratio);
}

std::vector<const NodeCheck*> WorstFirst(const NodeChecks& checks) {
  std::vector<const NodeCheck*> nodes;
  for (const NodeCheck& check : checks.nodes) {
    if (!check.IsEqual()) nodes.push_back(&check);
  }
  std::stable_sort(
      nodes.begin(), nodes.end(), [](const NodeCheck* a, const NodeCheck* b) {
        if (a->Worst().verdict() != b->Worst().verdict()) {
          return a->Worst().verdict() > b->Worst().verdict();
        }
        return ErrorOverBound(a->Worst()) > ErrorOverBound(b->Worst());
      });
  return nodes;
}

uint64_t CountOutside(const TensorComparison& comparison) {
  return comparison.bounds.has_value() ? comparison.bounds->outside
                                       : comparison.metrics.outside;
}

void AddCheck(const NodeCheck& check, JsonWriter* json) {
  const TensorComparison& worst = check.Worst();
  json->Add("node", check.key);
  json->Add("node_index", uint64_t{Index(check.node)});
  const ElementDifference& element = worst.Worst();
  json->Add("verdict", NameOf(worst.verdict()));
  json->Add("reason", worst.judgement.reason);
  json->Add("elements", worst.metrics.elements);
  json->Add("different", worst.metrics.different);
  json->Add("outside_bound", CountOutside(worst));
  json->Add("element", element.element);
  json->Add("expected", element.expected);
  json->Add("actual", element.actual);
  json->Add("error", element.error);
  if (worst.bounds.has_value()) json->Add("bound", worst.bounds->bound);
  json->Add("scale", worst.metrics.scale);
}

size_t CountWrong(const NodeChecks& checks) {
  return checks.CountOf(Verdict::kError);
}

// Returns how many nodes differ from the reference and may.
size_t CountWithinBound(const NodeChecks& checks) {
  return checks.CountOf(Verdict::kPass) + checks.CountOf(Verdict::kWarning) -
         checks.CountEqual();
}

// "1 wrong, 40 the same bits, ..."
std::string Tally(const NodeChecks& checks) {
  std::string text;
  const auto add = [&](size_t count, std::string_view what) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(checks.CountEqual(), "equal");
  add(CountWithinBound(checks), "within the bound");
  add(checks.CountOf(Verdict::kInconclusive), "inconclusive");
  add(CountWrong(checks), "WRONG");
  add(checks.skipped.size(), "skipped");
  return text;
}

}  // namespace

void ShowChecks(const std::string& name, const Graph& graph,
                const NodeChecks& checks, Outcome* outcome) {
  const std::vector<const NodeCheck*> nodes = WorstFirst(checks);
  outcome->text +=
      fmt::format("  {}: {}\n",
                  CountOf(checks.nodes.size() + checks.skipped.size(), "node"),
                  Tally(checks));
  TextTable table;
  outcome->json.BeginObject(name);
  outcome->json.Add("nodes", uint64_t{checks.nodes.size()});
  outcome->json.Add("same", uint64_t{checks.CountEqual()});
  outcome->json.Add("within_bound", uint64_t{CountWithinBound(checks)});
  outcome->json.Add("skipped", uint64_t{checks.skipped.size()});
  outcome->json.BeginArray("worst");
  for (size_t i = 0; i < std::min(nodes.size(), kShownNodes); ++i) {
    const NodeCheck& check = *nodes[i];
    table.AddRow({NodeTitle(graph, check.node),
                  std::string(NameOf(check.Worst().verdict())),
                  "largest error " + ShareOfBound(check.Worst())});
    outcome->json.BeginObject();
    AddCheck(check, &outcome->json);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->json.EndObject();
  outcome->text += table.ToString(4, 0, LineWidth());
  for (const SkippedNode& skipped : checks.skipped) {
    outcome->text += fmt::format("    {} was skipped: {}\n",
                                 Printable(NodeTitle(graph, skipped.node)),
                                 Printable(skipped.why));
  }
}

void ShowAnswer(const Graph& graph, const PlantedFault& fault,
                const NodeChecks& checks, size_t changed, size_t tensors,
                Outcome* outcome) {
  const NodeCheck* const found = checks.FirstWrong();
  const bool is_right =
      CountWrong(checks) == 1 && found != nullptr && found->node == fault.node;
  outcome->json.BeginObject("planted");
  outcome->json.Add("node", fault.name);
  outcome->json.Add("factor", fault.factor);
  outcome->json.EndObject();
  outcome->json.Add("changed_tensors", uint64_t{changed});
  outcome->json.Add("found", is_right);
  outcome->text += fmt::format(
      "  The fault reached {} of {}, but only the node that made it is "
      "wrong:\n\n",
      changed, CountOf(tensors, "tensor"));
  if (found != nullptr) {
    const TensorComparison& worst = found->Worst();
    const ElementDifference& element = worst.Worst();
    outcome->json.BeginObject("culprit");
    AddCheck(*found, &outcome->json);
    outcome->json.EndObject();
    outcome->text += fmt::format(
        "    {}, function {}\n"
        "    {} of {} outside the bound; at element {} found {}, expected {}: "
        "{}\n"
        "    on the whole it makes {:.4f} times what it should\n\n",
        Printable(NodeTitle(graph, found->node)),
        Printable(graph.node(found->node).function), CountOutside(worst),
        CountOf(worst.metrics.elements, "element"), element.element,
        ShortNumber(element.actual), ShortNumber(element.expected),
        ShareOfBound(worst), worst.metrics.scale);
  }
  outcome->text +=
      fmt::format("  What had been planted: {} times {:.4f}. {}\n",
                  Printable(NodeTitle(graph, fault.node)), fault.factor,
                  is_right ? "Found." : "That was NOT found.");
  if (!is_right) outcome->status = Outcome::Status::kDiffers;
}

}  // namespace nodewise
