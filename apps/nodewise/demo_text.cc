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
    if (check.Worst().different > 0) nodes.push_back(&check);
  }
  std::stable_sort(
      nodes.begin(), nodes.end(), [](const NodeCheck* a, const NodeCheck* b) {
        if (a->Worst().verdict != b->Worst().verdict) {
          return a->Worst().verdict > b->Worst().verdict;
        }
        return ErrorOverBound(a->Worst()) > ErrorOverBound(b->Worst());
      });
  return nodes;
}

void AddCheck(const NodeCheck& check, JsonWriter* json) {
  const TensorComparison& worst = check.Worst();
  json->Add("node", check.key);
  json->Add("node_index", uint64_t{Index(check.node)});
  json->Add("verdict", NameOf(worst.verdict));
  json->Add("elements", worst.elements);
  json->Add("different", worst.different);
  json->Add("outside_bound", worst.outside);
  json->Add("element", worst.worst.element);
  json->Add("expected", worst.worst.expected);
  json->Add("actual", worst.worst.actual);
  json->Add("error", worst.worst.error);
  json->Add("bound", worst.worst.bound);
  json->Add("scale", worst.scale);
}

size_t CountWrong(const NodeChecks& checks) {
  return checks.CountOf(Verdict::kOutsideBound) +
         checks.CountOf(Verdict::kNonFinite);
}

// "1 wrong, 40 the same bits, ..."
std::string Tally(const NodeChecks& checks) {
  std::string text;
  const auto add = [&](size_t count, std::string_view what) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(checks.CountOf(Verdict::kSame), "equal");
  add(checks.CountOf(Verdict::kWithinBound), "within the bound");
  add(checks.CountOf(Verdict::kNotJudged), "not judged");
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
  outcome->json.Add("same", uint64_t{checks.CountOf(Verdict::kSame)});
  outcome->json.Add("within_bound",
                    uint64_t{checks.CountOf(Verdict::kWithinBound)});
  outcome->json.Add("skipped", uint64_t{checks.skipped.size()});
  outcome->json.BeginArray("worst");
  for (size_t i = 0; i < std::min(nodes.size(), kShownNodes); ++i) {
    const NodeCheck& check = *nodes[i];
    table.AddRow({NodeTitle(graph, check.node),
                  std::string(NameOf(check.Worst().verdict)),
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
    outcome->json.BeginObject("culprit");
    AddCheck(*found, &outcome->json);
    outcome->json.EndObject();
    outcome->text += fmt::format(
        "    {}, function {}\n"
        "    {} of {} outside the bound; at element {} found {}, expected {}: "
        "{}\n"
        "    on the whole it makes {:.4f} times what it should\n\n",
        Printable(NodeTitle(graph, found->node)),
        Printable(graph.node(found->node).function), worst.outside,
        CountOf(worst.elements, "element"), worst.worst.element,
        ShortNumber(worst.worst.actual), ShortNumber(worst.worst.expected),
        ShareOfBound(worst), worst.scale);
  }
  outcome->text +=
      fmt::format("  What had been planted: {} times {:.4f}. {}\n",
                  Printable(NodeTitle(graph, fault.node)), fault.factor,
                  is_right ? "Found." : "That was NOT found.");
  if (!is_right) outcome->status = Outcome::Status::kDiffers;
}

}  // namespace nodewise
