#include "nodewise/diagnose/sentence.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostGroups = 3;
constexpr size_t kMostNames = 3;
// Less than this is left where all of an error is gone.
constexpr double kNearlyAll = 0.99;
constexpr double kLeastShare = 0.005;

// What several nodes are, or one that is broken; of others the reason says it.
std::string_view WordsOf(NodeVerdict verdict, bool is_many) {
  switch (verdict) {
    case NodeVerdict::kBadInput:
      return "are given NaN from outside";
    case NodeVerdict::kNotDeterministic:
      return "are not deterministic";
    case NodeVerdict::kPlanFault:
      return "write over tensors that others still read";
    case NodeVerdict::kChangesFloats:
      return "change how floats are calculated after them";
    case NodeVerdict::kSideEffect:
      return "have side effects";
    case NodeVerdict::kOverrun:
      return "write to memory that is not their own";
    case NodeVerdict::kHangs:
      return "hang";
    case NodeVerdict::kCrashes:
      return "crash";
    default:
      return is_many ? "are wrong" : "is wrong";
  }
}

// Culprits that are wrong in one way.
struct Group {
  std::string operators;
  NodeVerdict verdict{};
  std::optional<Cause> cause;
  std::vector<const NodeReport*> nodes;

  bool Takes(const NodeReport& node) const {
    const bool is_same_cause =
        cause.has_value() == node.cause.has_value() &&
        (!cause.has_value() || (cause->kind == node.cause->kind &&
                                (cause->kind != Cause::Kind::kPrecision ||
                                 cause->words == node.cause->words)));
    return operators == node.operators && verdict == node.verdict &&
           is_same_cause;
  }
};

std::vector<Group> GroupsOf(const LocateResult& located) {
  std::vector<Group> groups;
  for (const Culprit& culprit : located.culprits) {
    const NodeReport& node = located.nodes[culprit.report];
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const Group& one) { return one.Takes(node); });
    if (group == groups.end()) {
      groups.push_back({node.operators, node.verdict, node.cause, {}});
      group = groups.end() - 1;
    }
    group->nodes.push_back(&node);
  }
  return groups;
}

// What a node is called where people know its model.
std::string NameOfNode(const NodeReport& node) {
  const std::string name = node.covers.size() == 1 ? node.covers[0] : node.key;
  return node.operators.empty()
             ? Printable(name)
             : fmt::format("{} ({})", Printable(name), node.operators);
}

class Teller {
 public:
  explicit Teller(const Answer& answer)
      : answer_(answer), located_(*answer.evidence.located) {}

  std::string Culprits() const {
    const std::vector<Group> groups = GroupsOf(located_);
    std::string text;
    for (size_t i = 0; i < groups.size() && i < kMostGroups; ++i) {
      if (i > 0) text += "; ";
      text += TextOf(groups[i], /*is_first=*/i == 0);
    }
    if (groups.size() > kMostGroups) {
      text += fmt::format("; and {} more",
                          CountOf(groups.size() - kMostGroups, "kind"));
    }
    return text + Consequence() + ".";
  }

  std::string NoCulprit() const {
    std::string text = "No operation is to blame: ";
    text += located_.CountOf(NodeVerdict::kInconclusive) > 0
                ? "all that could be judged are right on what they read"
                : "all are right on what they read";
    double error = 0;
    for (const TensorComparison& output : located_.outputs) {
      error = std::max(error, RelativeError(output));
    }
    if (located_.AreOutputsWrong()) {
      text += fmt::format(
          ", and yet the outputs are off by {:.2g} of their size", error);
    } else if (!located_.outputs.empty()) {
      text += error == 0 ? ", and the outputs are equal to the reference's"
                         : ", and the outputs are within their tolerance";
    }
    const size_t deviating = located_.CountOf(NodeVerdict::kDeviates);
    if (deviating > 0) {
      text += fmt::format(
          "; {} {} from the definition by more than rounding, too little to "
          "matter",
          CountOf(deviating, "node"), deviating == 1 ? "deviates" : "deviate");
    }
    return text + ".";
  }

 private:
  std::string TextOf(const Group& group, bool is_first) const {
    const bool is_many = group.nodes.size() > 1;
    const std::string names = NamesOf(group, is_first);
    if (group.verdict != NodeVerdict::kBroken && !is_many) {
      return names + ": " + Printable(group.nodes[0]->reason);
    }
    std::string text =
        fmt::format("{} {}", names, WordsOf(group.verdict, is_many));
    if (group.verdict != NodeVerdict::kBroken) return text;
    if (group.cause.has_value()) {
      text += fmt::format(": {} {}", is_many ? "their" : "its",
                          Printable(group.cause->words));
    }
    if (is_many) return text + WhatItIs(group);
    const NodeReport& node = *group.nodes[0];
    if (node.worst.has_value() && !node.worst->is_equal()) {
      const ElementDifference& worst = node.worst->Worst();
      const auto [found, expected] = TellApart(worst.actual, worst.expected);
      text += fmt::format(" (found {}, expected {})", found, expected);
    }
    return text + WhatItIs(group);
  }

  std::string NamesOf(const Group& group, bool is_first) const {
    if (group.nodes.size() == 1) return NameOfNode(*group.nodes[0]);
    const auto all = static_cast<size_t>(
        std::count_if(located_.nodes.begin(), located_.nodes.end(),
                      [&](const NodeReport& node) {
                        return node.operators == group.operators;
                      }));
    if (all == 2 && group.nodes.size() == 2) {
      return fmt::format("{} {}", is_first ? "Both" : "both", group.operators);
    }
    if (all == group.nodes.size()) {
      return fmt::format("{} {} {}", is_first ? "All" : "all", all,
                         group.operators);
    }
    std::vector<std::string> names;
    for (const NodeReport* const node : group.nodes) {
      names.push_back(node->covers.size() == 1 ? node->covers[0] : node->key);
    }
    return fmt::format("{} of {} {} ({})", group.nodes.size(), all,
                       group.operators, ListOf(names, kMostNames));
  }

  // What rounds everywhere does so on purpose.
  std::string WhatItIs(const Group& group) const {
    const bool is_precision =
        group.cause.has_value() && group.cause->kind == Cause::Kind::kPrecision;
    if (!is_precision) return "";
    for (const NodeReport& node : located_.nodes) {
      if (node.operators == group.operators && !group.Takes(node)) {
        return "";
      }
    }
    return answer_.search == Search::kProgramNodes
               ? ": this is the runtime's precision, not a fault"
               : ": this is the precision that it was compiled for";
  }

  std::string Consequence() const {
    const bool is_one = located_.culprits.size() == 1;
    const std::optional<double> share =
        is_one ? located_.culprits[0].share : located_.share_of_all;
    const std::string_view it = is_one ? "it" : "them";
    // The reference computed it, so that the outputs say nothing of it.
    for (const Culprit& culprit : located_.culprits) {
      if (located_.nodes[culprit.report].was_replaced()) return "";
    }
    if (!located_.outputs.empty() && !located_.AreOutputsWrong()) {
      return "; the outputs are within their tolerance all the same";
    }
    if (!share.has_value()) return "";
    if (*share >= kNearlyAll) {
      return fmt::format("; repairing {} repairs the outputs", it);
    }
    if (*share < kLeastShare) {
      return fmt::format("; repairing {} alone repairs no output", it);
    }
    return fmt::format(
        "; repairing {} takes away {:.0f} % of the error of the "
        "outputs",
        it, 100 * *share);
  }

  const Answer& answer_;
  const LocateResult& located_;
};

// A culprit that was found by its values. What an operation was taken for says
// more than how far off the numbers are.
std::string Told(const NamedCulprit& culprit, const Evidence& evidence) {
  const std::string name = culprit.operations.empty()
                               ? culprit.finding.Where()
                               : ListOf(culprit.operations, kMostNames);
  const auto has_change = [](const ValueCulprit& one) {
    return !one.explanations.empty();
  };
  if (evidence.by_value.has_value() &&
      !evidence.by_value->result.culprits.empty() &&
      has_change(evidence.by_value->result.culprits[0])) {
    const ValueEvidence& values = *evidence.by_value;
    const Explanation& change = values.result.culprits[0].explanations[0];
    const Operation& operation = values.network->operation(change.operation);
    return fmt::format("{} ({}) is wrong: its numbers fit one change: {}",
                       Printable(operation.name), operation.def().name,
                       Printable(change.what));
  }
  return fmt::format("{} {}", Printable(name),
                     Printable(culprit.finding.found));
}

}  // namespace

std::string SentenceOf(const Answer& answer) {
  const Evidence& evidence = answer.evidence;
  std::string text;
  if (evidence.located.has_value() && answer.state != Answer::State::kUnknown) {
    const Teller teller(answer);
    if (!evidence.located->culprits.empty()) {
      text = teller.Culprits();
    } else if (evidence.judged_all) {
      text = teller.NoCulprit();
    }
  } else if (!answer.culprits.empty()) {
    text = Told(answer.culprits[0], evidence);
    const size_t more = answer.culprits.size() - 1;
    if (more > 0) text += fmt::format("; and {} more", more);
    text += ".";
  }
  return text;
}

}  // namespace nodewise
