#include "apps/nodewise/differing_builds.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/locate_builds.h"
#include "apps/nodewise/value_report.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kDiffers = "differs";
constexpr std::string_view kTarget = "target";
constexpr std::string_view kReference = "reference";

// The keys of all nodes of a build that may be wrong.
std::vector<std::string> KeysOf(const ValueCulprit& culprit,
                                const Session& loaded) {
  const GraphIndex& index = loaded.target->index();
  std::vector<std::string> keys = {index.KeyOf(culprit.node)};
  for (const NodeId node : culprit.parts) keys.push_back(index.KeyOf(node));
  return keys;
}

// The keys of the nodes of a build that differ from another one's.
absl::StatusOr<std::set<std::string>> DifferingNodes(const Session& loaded,
                                                     const Session& other,
                                                     const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            BuildAsModel(loaded, other));
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(loaded, source, sets));
  std::set<std::string> nodes;
  for (const ValueCulprit& culprit : result.culprits) {
    for (const std::string& key : KeysOf(culprit, loaded)) nodes.insert(key);
  }
  return nodes;
}

// What a third build says of each difference.
absl::StatusOr<std::vector<std::string>> KindsByThird(
    const Session& loaded, const Session& reference, const Session& third,
    const Network& reference_network, const ValueLocateResult& result,
    const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const auto in_target,
                            DifferingNodes(loaded, third, sets));
  NODEWISE_ASSIGN_OR_RETURN(const auto in_reference,
                            DifferingNodes(reference, third, sets));
  std::vector<std::string> kinds;
  for (const ValueCulprit& culprit : result.culprits) {
    const std::vector<std::string> keys = KeysOf(culprit, loaded);
    bool is_target = std::any_of(
        keys.begin(), keys.end(),
        [&](const std::string& key) { return in_target.count(key) > 0; });
    bool is_reference = std::any_of(
        culprit.operations.begin(), culprit.operations.end(),
        [&](OperationId id) {
          return in_reference.count(reference_network.operation(id).name) > 0;
        });
    // The third one may name another node of a pair, where the nodes of builds
    // do not go together one by one.
    if (!is_target && !is_reference) {
      is_target = !in_target.empty();
      is_reference = !in_reference.empty();
    }
    if (is_target == is_reference) {
      kinds.push_back(
          fmt::format("{}{}", kDiffers,
                      is_target ? ", and both from the third build" : ""));
    } else {
      kinds.push_back(is_target ? std::string(kBroken)
                                : "right, and the reference broken");
    }
  }
  return kinds;
}

}  // namespace

void AddBuildChoice(OptionList* options, BuildChoice* choice) {
  options->AddText("--trust", "SIDE",
                   "target or reference: which of two builds is right whose "
                   "nodes do not say what they compute (neither: only where "
                   "they differ is said)",
                   &choice->trust);
  options->AddText("--third", "BUILD",
                   "a third build of that network, which decides which of the "
                   "two is right",
                   &choice->third);
}

absl::Status BuildChoice::WhereItMeansNothing() const {
  return absl::InvalidArgumentError(fmt::format(
      "{}: means nothing but with two builds whose nodes do not say what they "
      "compute, TARGET and that of --reference, and no --method but auto",
      trust.empty() ? "--third" : "--trust"));
}

absl::Status BuildChoice::Check(bool are_two_builds) const {
  if (!any()) return absl::OkStatus();
  if (!are_two_builds) return WhereItMeansNothing();
  if (!trust.empty() && trust != kTarget && trust != kReference) {
    return absl::InvalidArgumentError(
        fmt::format("--trust: found \"{}\", expected {} or {}",
                    Printable(trust), kTarget, kReference));
  }
  if (trust.empty() || third.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--third: is given with --trust, expected one of the two");
}

absl::Status LocateBetweenBuilds(const Session& loaded,
                                 const Session& reference,
                                 const BuildChoice& choice,
                                 const LoadOptions& options,
                                 const InputOptions& inputs, Outcome* outcome) {
  std::optional<Session> third;
  if (!choice.third.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(
        third, LoadBuild("--third", choice.third, options, inputs, outcome));
    if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  }
  KeepFreedMemory();
  const SetsOfInputs sets{choice.sets, inputs.seed.value_or(1)};
  const bool is_swapped = choice.trust == kTarget;
  const Session& judged = is_swapped ? reference : loaded;
  NODEWISE_ASSIGN_OR_RETURN(
      const ModelOfTarget source,
      BuildAsModel(judged, is_swapped ? loaded : reference));
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(judged, source, sets));
  ShowPairs(source, outcome);
  ReportWords words;
  words.model = source.path;
  words.side = is_swapped ? kReference : kTarget;
  if (is_swapped) words.owner = " of " + judged.target->name();
  if (third.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        words.kinds,
        KindsByThird(loaded, reference, *third, *source.network, result, sets));
  } else if (choice.trust.empty()) {
    words.kinds.assign(result.culprits.size(), std::string(kDiffers));
    if (!result.culprits.empty()) {
      outcome->notes.push_back(
          "nobody says which of the two is right (--trust SIDE does, or "
          "--third BUILD, or a model)");
    }
  }
  outcome->json.Add("model", source.path);
  ShowValueResult(judged.target->index(), *source.network, result, words,
                  outcome);
  return absl::OkStatus();
}

}  // namespace nodewise
