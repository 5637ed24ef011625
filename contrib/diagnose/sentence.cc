// The sentence that a colleague would say of an answer. Its parts are chosen so
// that the reader need not know how it was searched: who is wrong, in the words
// of the model; what is wrong with it; and what that does to the outputs.
//
// Culprits that are wrong in one way become one group, since a compiler or a
// runtime that errs in one operation errs in all of its kind. Each group is a
// clause; the largest ones make the sentence, and a number stands for the rest.
// The end says what repairing them would bring, which is what decides whether
// anything else has to be looked for.

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A sentence with more than these is a list.
constexpr size_t kMostGroups = 3;
constexpr size_t kMostNames = 3;
// From kNearlyAll on all of an error counts as gone, and below kLeastShare none
// of it.
constexpr double kNearlyAll = 0.99;
constexpr double kLeastShare = 0.005;

// A single node has its reason told in place of these words, unless it is
// broken.
std::string_view WordsOf(NodeVerdict verdict, bool is_many) {
  using enum NodeVerdict;
  static constexpr std::pair<NodeVerdict, std::string_view> kWords[] = {
      {kBadInput, "are given NaN from outside"},
      {kNotDeterministic, "are not deterministic"},
      {kPlanFault, "write over tensors that others still read"},
      {kChangesFloats, "change how floats are calculated after them"},
      {kSideEffect, "have side effects"},
      {kOverrun, "write to memory that is not their own"},
      {kHangs, "hang"},
      {kCrashes, "crash"}};
  for (const auto& [known, words] : kWords) {
    if (known == verdict) return words;
  }
  return is_many ? "are wrong" : "is wrong";
}

struct Group {
  std::vector<const NodeReport*> nodes;  // The first has the cause.

  const NodeReport& first() const { return *nodes[0]; }
  bool Is(Cause::Kind kind) const {
    return first().cause.has_value() && first().cause->kind == kind;
  }
  // Operators of all kinds may compute in one precision.
  bool Takes(const NodeReport& node) const {
    if (first().verdict != node.verdict ||
        first().cause.has_value() != node.cause.has_value()) {
      return false;
    }
    if (Is(Cause::Kind::kPrecision)) {
      return node.cause->kind == Cause::Kind::kPrecision &&
             node.cause->type == first().cause->type;
    }
    return first().operators == node.operators &&
           (!node.cause.has_value() ||
            (node.cause->kind == first().cause->kind &&
             (node.cause->kind == Cause::Kind::kPattern ||
              node.cause->words == first().cause->words)));
  }
  // Empty where the nodes have different causes and share no precision.
  std::string Words() const {
    const bool is_one =
        std::ranges::all_of(nodes, [this](const NodeReport* node) {
          return node->cause->words == first().cause->words;
        });
    if (is_one) return first().cause->words;
    return Is(Cause::Kind::kPrecision)
               ? fmt::format("inputs, results or both are rounded to {}",
                             first().cause->type)
               : "";
  }
};

// A few numbers that are short enough for one type are so for a longer one,
// too.
bool FitsShorter(const Group& group) {
  constexpr uint64_t kFew = 8;
  return group.Is(Cause::Kind::kPrecision) &&
         std::ranges::all_of(group.nodes, [](const NodeReport* node) {
           return node->worst.has_value() &&
                  node->worst->metrics.elements < kFew;
         });
}

// A node with few numbers fits any short type, so it is taken for one of the
// many that are known to be rounded.
void JoinPrecisions(std::vector<Group>* groups) {
  const auto largest =
      std::ranges::max_element(*groups, {}, [](const Group& group) {
        return std::pair(group.Is(Cause::Kind::kPrecision), group.nodes.size());
      });
  if (largest == groups->end() || FitsShorter(*largest)) return;
  const Group* const many = &*largest;
  std::vector<const NodeReport*> joined;
  for (const Group& group : *groups) {
    if (&group == many || !FitsShorter(group)) continue;
    joined.insert(joined.end(), group.nodes.begin(), group.nodes.end());
  }
  const size_t most = largest->nodes.size();
  largest->nodes.insert(largest->nodes.end(), joined.begin(), joined.end());
  std::erase_if(*groups, [most](const Group& group) {
    return group.nodes.size() <= most && FitsShorter(group);
  });
}

// A compiler makes one mistake in every operation of a kind, so that a group is
// worth one clause and not one for each node.
std::vector<Group> GroupsOf(const LocateResult& located) {
  std::vector<Group> groups;
  for (const Culprit& culprit : located.culprits) {
    const NodeReport& node = located.nodes[culprit.report];
    const auto group = std::ranges::find_if(
        groups, [&](const Group& one) { return one.Takes(node); });
    if (group == groups.end()) {
      groups.push_back({{&node}});
    } else {
      group->nodes.push_back(&node);
    }
  }
  JoinPrecisions(&groups);
  return groups;
}

// How many of a group compute what, in the order of the group.
// Found by looking through them all: a group has few kinds.
std::vector<std::pair<std::string, size_t>> KindsOf(const Group& group) {
  std::vector<std::pair<std::string, size_t>> kinds;
  for (const NodeReport* const node : group.nodes) {
    const auto kind = std::ranges::find(kinds, node->operators,
                                        &std::pair<std::string, size_t>::first);
    if (kind != kinds.end()) {
      ++kind->second;
    } else {
      kinds.emplace_back(node->operators, 1);
    }
  }
  return kinds;
}

// People who know a model know its operations, and not the nodes that a
// compiler has made of them.
const std::string& NameInModel(const NodeReport& node) {
  return node.covers.size() == 1 ? node.covers[0] : node.key;
}

std::string NameOfNode(const NodeReport& node) {
  const std::string name = Printable(NameInModel(node));
  return node.operators.empty() ? name
                                : fmt::format("{} ({})", name, node.operators);
}

// The worst element stands for all of them, since a sentence has room for one.
std::string FoundText(const std::optional<TensorComparison>& compared) {
  if (!compared.has_value() || compared->is_equal()) return "";
  const ElementDifference& worst = compared->Worst();
  const auto [found, expected] = FormatDistinct(worst.actual, worst.expected);
  return fmt::format(" (found {}, expected {})", found, expected);
}

std::string_view DeviateVerb(size_t count) {
  return count == 1 ? "deviates" : "deviate";
}

class NodesSentence {
 public:
  explicit NodesSentence(const Answer& answer)
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

  // A run without a culprit is told as carefully as one with one: whether all
  // was judged, how near the outputs are, and what deviates without mattering.
  std::string NoCulpritText() const {
    std::string text = "No operation is to blame: ";
    text += located_.CountOf(NodeVerdict::kInconclusive) > 0
                ? "all that could be judged are right on what they read"
                : "all are right on what they read";
    const double error = LargestOutputError(located_);
    if (located_.AreOutputsWrong()) {
      text += fmt::format(
          ", and yet the outputs are off by {:.2g} of their size{}", error,
          located_.is_rounding ? AmplificationText() : std::string());
    } else if (!located_.outputs.empty()) {
      text += error == 0 ? ", and the outputs are equal to the reference's"
                         : ", and the outputs are within their tolerance";
    }
    return text + FirstNonFinite() + Deviations() + ".";
  }

 private:
  // The order of the clauses: who, what is wrong, whether that is known, and
  // for a single node the numbers that show it.
  std::string TextOf(const Group& group, bool is_first) const {
    const bool is_many = group.nodes.size() > 1;
    const std::string names = NamesOf(group, is_first);
    const NodeVerdict verdict = group.first().verdict;
    if (verdict != NodeVerdict::kBroken && !is_many) {
      return names + ": " + Printable(group.first().reason);
    }
    if (IsPrecision(group)) {
      return fmt::format("{} {} in {}: this is {}", names,
                         is_many ? "compute" : "computes",
                         Printable(group.first().cause->type),
                         answer_.search == Search::kProgramNodes
                             ? "the runtime's precision, not a fault"
                             : "the precision that it was compiled for");
    }
    std::string text = fmt::format("{} {}", names, WordsOf(verdict, is_many));
    if (verdict != NodeVerdict::kBroken) return text;
    const std::string words =
        group.first().cause.has_value() ? group.Words() : "";
    if (!words.empty()) {
      text +=
          fmt::format(": {} {}", is_many ? "their" : "its", Printable(words));
    }
    text += KnownDeviationText(group);
    return is_many ? text : text + FoundText(group.first().worst);
  }

  // What is known of the runtime may explain why a group is off.
  std::string KnownDeviationText(const Group& group) const {
    const bool are_known =
        std::ranges::all_of(group.nodes, [](const NodeReport* node) {
          return node->known.has_value() && node->known->is_within();
        });
    if (!are_known) return "";
    const KnownDeviation& row = group.first().known->row;
    return fmt::format(", which is known of {} ({})",
                       Printable(std::string(KnownOf(row, located_.runtime))),
                       WordsOf(row));
  }

  std::string NamesOf(const Group& group, bool is_first) const {
    if (group.nodes.size() == 1) return NameOfNode(group.first());
    const auto kinds = KindsOf(group);
    std::vector<std::string> parts;
    for (const auto& [operators, count] : kinds) {
      const bool has_names = kinds.size() == 1;
      parts.push_back(PartOf(group, operators, count, has_names));
    }
    std::string text = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      text += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
    }
    if (is_first && text.starts_with("all ")) text[0] = 'A';
    if (is_first && text.starts_with("both ")) text[0] = 'B';
    return text;
  }

  // A result of NaN is a question even where the reference has it, too.
  std::string FirstNonFinite() const {
    const bool is_asked = std::ranges::any_of(
        located_.outputs, &TensorComparison::has_non_finite);
    const auto first = std::ranges::find(
        located_.nodes, NodeVerdict::kIntendedInfinity, &NodeReport::verdict);
    if (!is_asked || first == located_.nodes.end()) return "";
    return fmt::format(
        "; they hold NaN or infinities, the first of which {} makes of finite "
        "numbers, as its definition does",
        NameOfNode(*first));
  }

  std::string AmplificationText() const {
    std::string text = ", which is no more than rounding does in this model";
    if (!located_.largest_gain.has_value()) return text;
    const NodeReport& node = located_.nodes[*located_.largest_gain];
    return text + fmt::format(": {} enlarges what it receives {:.2g} times",
                              NameOfNode(node), node.gain());
  }

  // Known deviations come first; an error beyond these is named, however small
  // it is.
  std::string Deviations() const {
    std::vector<std::string> known;
    std::vector<std::string> beyond;
    std::string runtime;
    size_t unknown = 0;
    for (const NodeReport& node : located_.nodes) {
      if (node.verdict != NodeVerdict::kDeviates) continue;
      if (!node.known.has_value()) {
        ++unknown;
        continue;
      }
      runtime = KnownOf(node.known->row, located_.runtime);
      if (!node.known->is_within()) {
        beyond.push_back(NameOfNode(node));
      } else if (std::ranges::find(known, node.operators) == known.end()) {
        known.push_back(node.operators);
      }
    }
    std::string text;
    if (!known.empty()) {
      text += fmt::format(
          "; {} {} as is known of {}{}", ListOf(known, kMostNames),
          DeviateVerb(known.size()), Printable(runtime),
          located_.is_rounding ? "" : ", too little to reach the outputs");
    }
    if (!beyond.empty()) {
      text += fmt::format("; {} {} by more than is known of {}",
                          ListOf(beyond, kMostNames),
                          DeviateVerb(beyond.size()), Printable(runtime));
    }
    if (unknown > 0) {
      text += fmt::format(
          "; {} {} from the definition by more than rounding, too little to "
          "matter",
          CountOf(unknown, "node"), DeviateVerb(unknown));
    }
    return text;
  }

  size_t CountAll(const std::string& operators) const {
    return static_cast<size_t>(
        std::ranges::count(located_.nodes, operators, &NodeReport::operators));
  }

  // "all 38 Conv", "2 of 38 Conv (stem, head)"
  std::string PartOf(const Group& group, const std::string& operators,
                     size_t count, bool has_names) const {
    const size_t all = CountAll(operators);
    if (all == 1) return "the " + operators;
    if (all == 2 && count == 2) return "both " + operators;
    if (all == count && count > 1) {
      return fmt::format("all {} {}", all, operators);
    }
    const std::string part = fmt::format("{} of {} {}", count, all, operators);
    if (!has_names) return part;
    std::vector<std::string> names;
    for (const NodeReport* const node : group.nodes) {
      names.push_back(NameInModel(*node));
    }
    return fmt::format("{} ({})", part, ListOf(names, kMostNames));
  }

  // A runtime that rounds nearly everywhere does so on purpose.
  bool IsPrecision(const Group& group) const {
    constexpr double kMostly = 0.75;
    if (!group.Is(Cause::Kind::kPrecision)) return false;
    // All kinds count together: operators that only move numbers do not round
    // what is short already.
    size_t all = 0;
    for (const auto& [operators, count] : KindsOf(group)) {
      all += CountAll(operators);
    }
    return static_cast<double>(group.nodes.size()) >=
           kMostly * static_cast<double>(all);
  }

  // The share of the outputs' error decides whether a culprit is all there is
  // to find.
  std::string Consequence() const {
    const bool is_one = located_.culprits.size() == 1;
    const std::optional<double> share =
        is_one ? located_.culprits[0].share : located_.share_of_all;
    const std::string_view it = is_one ? "it" : "them";
    // The reference computed a replaced node, so that the outputs say nothing
    // of it.
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
        "; repairing {} takes away {:.0f} % of the error of the outputs", it,
        100 * *share);
  }

  const Answer& answer_;
  const LocateResult& located_;
};

// A culprit that was found by its values. What an operation was taken for says
// more than how far off the numbers are.
// There is one culprit in the sentence; the caller says how many more there
// are.
std::string ValueCulpritText(const NamedCulprit& culprit,
                             const Evidence& evidence) {
  const std::string name = culprit.operations.empty()
                               ? culprit.finding.Where()
                               : ListOf(culprit.operations, kMostNames);
  if (!culprit.explanations.empty()) {
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

std::string DumpDifferenceText(const DumpEvidence& dumps) {
  const GraphIndex& index = *dumps.where.index;
  const NodeId node = dumps.where.NodesThat(DumpedNode::kBegins)[0];
  const auto is_worst = [&](const TensorComparison& tensor) {
    const auto found = index.FindNode(tensor.key.node);
    return found.ok() && *found == node && tensor.is_wrong() &&
           tensor.key.role == TensorRole::kOutput && !tensor.is_equal();
  };
  const std::vector<TensorComparison>& tensors = dumps.comparison.tensors;
  const auto worst = std::ranges::find_if(tensors, is_worst);
  const std::string name = Printable(index.KeyOf(node));
  const bool is_function = index.graph().IsFunction(node);
  std::string text =
      name + (is_function
                  ? " is the first that differs though all that it reads is "
                    "alike"
                  : ", an input or a parameter, is not the same in both runs");
  if (worst == tensors.end()) return text;
  if (worst->details.has_value()) {
    const DifferenceDetails& details = *worst->details;
    if (!is_function) {
      text += ": " + DescribeGivenInput(details);
    } else if (!details.patterns.empty()) {
      text += ": " + details.patterns[0].words;
    }
  }
  return text + FoundText(*worst);
}

class ModelsSentence {
 public:
  explicit ModelsSentence(const ModelComparison& compared)
      : compared_(compared) {}

  std::string Text() const {
    if (compared_.outputs.empty() && compared_.missing_outputs.empty()) {
      return OnTensors();
    }
    if (!compared_.AreOutputsWrong()) {
      return fmt::format(
          "Both models agree: their outputs are {}.",
          compared_.error == 0
              ? "equal"
              : fmt::format("within their tolerance, off by {:.2g} of their "
                            "size",
                            compared_.error));
    }
    if (!compared_.missing_outputs.empty()) {
      return fmt::format("The outputs do not go together: {}.",
                         ListOf(compared_.missing_outputs, kMostNames));
    }
    if (compared_.layers.empty()) {
      return fmt::format(
          "The outputs are off by {:.2g} of their size, and no layer that has "
          "a partner makes something else.",
          compared_.error);
    }
    return compared_.lowered.empty() ? LayerDifferenceText()
                                     : PrecisionCostText();
  }

 private:
  const ModelLayer& First() const { return compared_.layers[0]; }

  // Where little went together, a layer is long, and any of it may be wrong.
  std::string NameOf(const ModelLayer& layer) const {
    constexpr size_t kLong = 4;
    if (layer.reference.size() < kLong) {
      return fmt::format("{} ({})", Printable(layer.name), layer.kind);
    }
    return fmt::format("something in the {} that make {}",
                       CountOf(layer.reference.size(), "operation"),
                       Printable(layer.value));
  }

  // Layers of half the cost of the first are worth a mention, no more than fit.
  std::vector<std::string> NextNames() const {
    constexpr double kNearly = 0.5;
    std::vector<std::string> names;
    for (size_t i = 1; i < compared_.layers.size() && i < kMostNames; ++i) {
      const ModelLayer& layer = compared_.layers[i];
      if (layer.alone < kNearly * First().alone) break;
      names.push_back(NameOf(layer));
    }
    return names;
  }

  // A file of tensors has nothing that could be run.
  std::string OnTensors() const {
    if (compared_.layers.empty()) {
      return fmt::format(
          "The tensors are those of the model: all {} that have a partner are "
          "what it makes of those before them.",
          compared_.judged);
    }
    std::string text =
        fmt::format("{} makes something else than in the model{}",
                    NameOf(First()), FoundText(First().made));
    const size_t more = compared_.layers.size() - 1;
    if (more > 0) {
      text += fmt::format("; and so {} {}", more == 1 ? "does" : "do",
                          CountOf(more, "more layer"));
    }
    return text + ".";
  }

  // The cost is not a fault here but a choice, so the words are of what to
  // keep.
  std::string PrecisionCostText() const {
    std::string text = fmt::format(
        "{} {} puts the outputs off by {:.2g} of their size; {} "
        "costs the most, {}",
        compared_.are_weights_lowered ? "Storing weights in" : "Computing in",
        compared_.lowered, compared_.error, NameOf(First()),
        // Other layers of the target may cut to size what overflows in the
        // reference.
        std::isfinite(First().alone)
            ? fmt::format("{:.2g} alone", First().alone)
            : "and alone it makes outputs that are not finite");
    const std::vector<std::string> next = NextNames();
    if (!next.empty()) text += ", then " + ListOf(next, kMostNames);
    const Sensitivity& found = compared_.sensitivity;
    if (found.suggested > 0) {
      text += fmt::format("; with {} as in the reference up to {:.2g} is left",
                          found.suggested == 1
                              ? "it"
                              : fmt::format("the first {}", found.suggested),
                          found.suggested_error);
    }
    return text + "." + ClippedRangesText();
  }

  // No layer is at fault for a range that was measured with other inputs.
  std::string ClippedRangesText() const {
    const std::vector<NarrowRange>& narrow = compared_.narrow_ranges;
    if (narrow.empty()) return "";
    return fmt::format(
        " {} {} too narrow for these inputs: {:.2g} % of the numbers of {} are "
        "cut off (calibrate with inputs like these).",
        CountOf(narrow.size(), "range"), narrow.size() == 1 ? "is" : "are",
        100 * narrow[0].share, Printable(narrow[0].value));
  }

  std::string LayerDifferenceText() const {
    std::string text = fmt::format(
        "{} makes something else than in the reference{}; alone it puts the "
        "outputs off by {:.2g} of their size",
        NameOf(First()), FoundText(First().made), First().alone);
    if (First().left.has_value()) {
      text += fmt::format(
          ", and with it as in the reference {:.2g} of {:.2g} is left",
          *First().left, compared_.error);
    }
    const std::vector<std::string> next = NextNames();
    if (!next.empty()) text += "; so do " + ListOf(next, kMostNames);
    return text + ".";
  }

  const ModelComparison& compared_;
};

}  // namespace

std::string SentenceOf(const Answer& answer) {
  const Evidence& evidence = answer.evidence;
  if (evidence.located.has_value() && answer.state != Answer::State::kUnknown) {
    const NodesSentence teller(answer);
    if (!evidence.located->culprits.empty()) return teller.Culprits();
    return evidence.judged_all ? teller.NoCulpritText() : "";
  }
  if (evidence.models.has_value()) {
    return ModelsSentence(evidence.models->compared).Text();
  }
  if (answer.culprits.empty()) return "";
  std::string text = evidence.dumps.has_value()
                         ? DumpDifferenceText(*evidence.dumps)
                         : ValueCulpritText(answer.culprits[0], evidence);
  const size_t more = answer.culprits.size() - 1;
  if (more > 0) text += fmt::format("; and {} more", more);
  return text + ".";
}

}  // namespace nodewise
