// Which search it is for a question, and whether its settings mean something
// for that.
//
// The table gives a search for the subject and what is beside it. Some cells
// need both sides to be read before it is clear which search they need: two
// models that are not one are compared as models in any case.

#include "nodewise/diagnose/diagnose.h"

#include <algorithm>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/locate/replay.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// The cells are few enough to look through.
const SearchRow& CellOf(Subject subject, Beside beside) {
  for (const SearchRow& row : SearchTable()) {
    if (row.subject == subject && row.beside == beside) return row;
  }
  return SearchTable().front();  // The table has all cells, as its test says.
}

struct SettingRow {
  Way way;
  bool is_given;
  std::vector<Search> searches;
  bool needs_auto;       // Not with a method that was named.
  const char* expected;  // What the setting is for.
};

SettingRow Setting(Way way, bool is_given, std::vector<Search> searches,
                   bool needs_auto, const char* expected) {
  return {way, is_given, std::move(searches), needs_auto, expected};
}

constexpr const char* kWantOfSets =
    "a model that differs from the target's own, or another build of a target "
    "whose nodes do not say what they compute";

// One setting has two rows: it means something for more searches beside a
// model, where the search may still turn out to be another one.
std::vector<SettingRow> SettingsOf(const Question& q) {
  using enum Search;
  constexpr const char* kEveryNode =
      "a search of every node by the definitions";
  constexpr const char* kEveryNodeAlone =
      "a search of every node by the definitions, by no other method";
  constexpr const char* kTwoBuilds =
      "two builds whose nodes do not say what they compute";
  const bool has_model = q.reference.kind == Reference::Kind::kModel;
  const bool has_sets = q.input_sets.has_value();
  return {
      Setting(Way::kRepeats, q.repeats.has_value(), {kNodes, kProgramNodes},
              true, kEveryNodeAlone),
      Setting(Way::kExactInputs, q.uses_exact_inputs, {kNodes}, true,
              kEveryNodeAlone),
      Setting(Way::kStrict, q.is_strict, {kNodes, kProgramNodes}, false,
              kEveryNode),
      Setting(Way::kKnownFile, !q.known_file.empty(), {kProgramNodes}, false,
              "a model that another program runs"),
      Setting(Way::kMoreTime, q.node_limit_ms.has_value(),
              {kNodes, kBisect, kLayers, kMix, kOutside}, false,
              "a search that runs each node by itself"),
      Setting(Way::kReferee, q.referee != nullptr, {kNodes, kProgramNodes},
              false, kEveryNode),
      Setting(Way::kReproFolder, !q.repro_folder.empty(),
              {kNodes, kLayers, kValues}, false,
              "a search that cuts nodes out: by the definitions, or beside a "
              "model"),
      // Beside a model it is known once both are read, see RefuseSets().
      Setting(Way::kInputSets, has_sets && !has_model,
              {kValues, kBuilds, kModels}, false, kWantOfSets),
      Setting(Way::kInputSets, has_sets && has_model,
              {kValues, kBuilds, kModels, kNodes, kMix, kLayers, kProgramNodes},
              true, kWantOfSets),
      Setting(
          Way::kSpecialInputs, q.has_special_inputs, {kValues}, false,
          "a model for right, and a target whose nodes do not say what they "
          "compute"),
      Setting(Way::kTrust, q.trust != Trust::kNeither, {kBuilds}, true,
              kTwoBuilds),
      Setting(Way::kThird, q.third.has_value(), {kBuilds}, true, kTwoBuilds),
      Setting(Way::kSamples, !q.target.samples.empty(), {kNodes}, false,
              kEveryNode),
      Setting(Way::kMostSamples, q.most_samples.has_value(), {kNodes}, false,
              "many samples of inputs"),
  };
}

// A setting that means nothing is refused and not passed over: who gives it
// expects something of it.
absl::Status CheckSettings(const Question& question, const SearchRow& row,
                           Search search) {
  const bool is_auto = question.method == Method::kAuto;
  for (const SettingRow& setting : SettingsOf(question)) {
    if (!setting.is_given) continue;
    const auto& searches = setting.searches;
    if (std::ranges::count(searches, search) > 0 &&
        (is_auto || !setting.needs_auto)) {
      continue;
    }
    const std::string where =
        is_auto ? fmt::format("for {}, judged by {}", TitleOf(row.subject),
                              TitleOf(row.beside))
                : fmt::format("with {} {}", NameOf(Way::kMethod),
                              NameOf(question.method));
    return InvalidArgument("{}: means nothing {}, expected {}",
                           NameOf(setting.way), where, setting.expected);
  }
  // Settings that need or forbid one another do so for any search.
  const bool has_samples = !question.target.samples.empty();
  constexpr const char* kWith = "means nothing with";
  constexpr const char* kWithout = "means nothing without";
  const struct {
    bool is_wrong;
    Way way;
    const char* words;
    Way other;
    const char* expected = "";
  } pairs[] = {
      {question.is_anonymous && question.repro_folder.empty(), Way::kAnonymous,
       kWithout, Way::kReproFolder},
      {question.most_samples.has_value() && !has_samples, Way::kMostSamples,
       kWithout, Way::kSamples},
      {question.trust != Trust::kNeither && question.third.has_value(),
       Way::kThird, "is given with", Way::kTrust, ", expected one of the two"},
      {has_samples && question.referee != nullptr, Way::kReferee, kWith,
       Way::kSamples},
      {has_samples && !question.repro_folder.empty(), Way::kReproFolder, kWith,
       Way::kSamples},
      {has_samples && question.reference.kind != Reference::Kind::kDefinitions,
       Way::kReference, kWith, Way::kSamples}};
  for (const auto& pair : pairs) {
    if (!pair.is_wrong) continue;
    return InvalidArgument("{}: {} {}{}", NameOf(pair.way), pair.words,
                           NameOf(pair.other), pair.expected);
  }
  return absl::OkStatus();
}

// Without a search the message says what would make one possible, and with one
// that the method rules out it names the way back.
absl::StatusOr<Search> SearchFor(const Question& question,
                                 const SearchRow& row) {
  if (row.search == Search::kNone) {
    const bool needs_model = row.beside == Beside::kDefinitions;
    return FailedPrecondition(
        "{}: is {}, which no search judges by {} ({}{})", question.target.name,
        TitleOf(row.subject), TitleOf(row.beside), row.words,
        needs_model ? fmt::format(": {} MODEL.onnx", NameOf(Way::kReference))
                    : "");
  }
  const Search search = SearchBy(row, question.method);
  if (search != Search::kNone) return search;
  return InvalidArgument("{} {}: does not judge {} by {}, expected {} auto",
                         NameOf(Way::kMethod), NameOf(question.method),
                         TitleOf(row.subject), TitleOf(row.beside),
                         NameOf(Way::kMethod));
}

// Several sets are for two models that differ; nodes are judged on one.
absl::Status RefuseSets(const Question& question) {
  if (!question.input_sets.has_value()) return absl::OkStatus();
  return InvalidArgument(
      "{}: means nothing for a target beside its own model, expected {}",
      NameOf(Way::kInputSets), kWantOfSets);
}

absl::Status SearchByDefinitions(const Question& question, Answer* answer) {
  return answer->search == Search::kLayers ? SearchLayers(question, answer)
                                           : SearchNodes(question, answer);
}

// Beside a build, or a model that becomes one, both sides are compared first:
// as long as they say the same, what they say is right.
absl::Status SearchBesideBuild(const Question& question, Answer* answer) {
  TargetSpec spec = question.reference.spec;
  const bool is_model = question.reference.kind == Reference::Kind::kModel;
  if (is_model && question.target.network != nullptr &&
      question.method == Method::kAuto && !IsOwnFile(question)) {
    NODEWISE_ASSIGN_OR_RETURN(spec.network,
                              NetworkOfReference(question, answer));
    if (spec.network == nullptr) return absl::OkStatus();
    if (!AreOneModel(*spec.network, *question.target.network)) {
      return SearchTwoModels(question, spec.network, answer);
    }
  }
  if (is_model) NODEWISE_RETURN_IF_ERROR(RefuseSets(question));
  NODEWISE_ASSIGN_OR_RETURN(
      const std::optional<Session> reference,
      OpenBuild(question, spec, NameOf(Way::kReference), answer));
  if (!reference.has_value()) return absl::OkStatus();
  AddNotes(reference->notes, answer);
  answer->evidence.model_beside = reference->network;
  if (!AreSidesAlike(*question.target.target, *reference->target, answer)) {
    return absl::OkStatus();
  }
  return answer->search == Search::kMix
             ? SearchByMixing(question, *reference, answer)
             : SearchByDefinitions(question, answer);
}

// A program runs the target. Beside its own model that is what it should
// compute.
absl::Status SearchBesideProgram(const Question& question, Answer* answer) {
  if (!IsOwnFile(question)) {
    NODEWISE_ASSIGN_OR_RETURN(auto reference,
                              NetworkOfReference(question, answer));
    if (reference == nullptr) return absl::OkStatus();
    if (!AreOneModel(*reference, *question.target.network)) {
      return SearchTwoModels(question, std::move(reference), answer);
    }
  }
  NODEWISE_RETURN_IF_ERROR(RefuseSets(question));
  if (question.reference.kind == Reference::Kind::kProgram) {
    return FailedPrecondition(
        "both programs run one model: take the model itself for the target and "
        "one of the programs for right");
  }
  answer->search = Search::kProgramNodes;
  answer->did = CellOf(Subject::kProgram, Beside::kDefinitions).words;
  return SearchInProgram(question, answer);
}

// Says where the culprits' operations are from, in the models that have them.
// Networks are asked in this order: the one that culprits were named by knows
// their operations best.
void NameSources(Answer* answer) {
  const Evidence& evidence = answer->evidence;
  std::vector<std::shared_ptr<const Network>> networks;
  if (evidence.models.has_value()) {
    networks = {evidence.models->reference, evidence.models->target};
  }
  if (evidence.by_value.has_value()) {
    networks.push_back(evidence.by_value->network);
  }
  networks.insert(networks.end(),
                  {answer->target.network, evidence.model_beside});
  for (NamedCulprit& culprit : answer->culprits) {
    culprit.source = SourcesOf(culprit.operations, networks);
  }
}

// A dump may be a file of tensors, without a graph.
absl::Status SearchDumpValues(const Question& question, Answer* answer) {
  NODEWISE_ASSIGN_OR_RETURN(const auto kind, KindOfPath(question.target.dump));
  return kind == PathKind::kFile ? SearchTensorsBesideModel(question, answer)
                                 : SearchDumpBesideModel(question, answer);
}

// A search may hand over to another once both sides are read, which is known
// only here: whether two models are one decides between their nodes and their
// layers.
absl::Status Run(const Question& question, Answer* answer) {
  using enum Search;
  static constexpr std::pair<Search, absl::Status (*)(const Question&, Answer*)>
      kSearches[] = {
          {kNodes, &SearchByDefinitions},    {kLayers, &SearchByDefinitions},
          {kMix, &SearchByDefinitions},      {kBisect, &SearchByBisecting},
          {kValues, &SearchBesideModel},     {kBuilds, &SearchBetweenBuilds},
          {kSeries, &SearchInSeries},        {kReplay, &SearchDump},
          {kDumpValues, &SearchDumpValues},  {kDumps, &SearchBetweenDumps},
          {kProgramNodes, &SearchInProgram}, {kOutside, &SearchByProgram},
          {kModels, &SearchBesideProgram}};
  const Search asked = answer->search;
  const Reference::Kind right = question.reference.kind;
  if (!question.target.samples.empty()) return SearchSamples(question, answer);
  const bool is_of_nodes = asked == kNodes || asked == kLayers || asked == kMix;
  if (is_of_nodes &&
      (right == Reference::Kind::kModel || right == Reference::Kind::kBuild)) {
    return SearchBesideBuild(question, answer);
  }
  for (const auto& [search, run] : kSearches) {
    if (search == asked) return run(question, answer);
  }
  return Internal("no search");
}

// The words of the table are about the usual method.
std::string SearchDescription(const SearchRow& row, Search search,
                              bool has_samples) {
  if (has_samples) {
    return fmt::format(
        "all samples were run, and for those with the largest errors {}",
        row.words);
  }
  switch (search) {
    case Search::kBisect:
      return "the network was halved, with the definitions of its operators in "
             "the place of the rest, until the first wrong node was left";
    case Search::kMix:
      return "what both sides say that they compute was compared, and then "
             "their functions were mixed until the guilty ones were left";
    case Search::kLayers:
      return "for each node what leads to it was run, in little memory, and "
             "compared with the definitions of its operators";
    default:
      return std::string(row.words);
  }
}

}  // namespace

// All that can be refused is refused before anything runs, and a folder for
// repros is checked as well, since a search may take minutes.
absl::StatusOr<Answer> Diagnose(const Question& question) {
  NODEWISE_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(question.target));
  const SearchRow& row = CellOf(subject, BesideOf(question));
  Answer answer;
  NODEWISE_ASSIGN_OR_RETURN(answer.search, SearchFor(question, row));
  NODEWISE_RETURN_IF_ERROR(CheckSettings(question, row, answer.search));
  answer.target = question.target;
  if (!question.repro_folder.empty()) {
    NODEWISE_RETURN_IF_ERROR(CheckReproFolder(question.repro_folder));
  }
  answer.did =
      SearchDescription(row, answer.search, !question.target.samples.empty());
  if (question.referee != nullptr) {
    answer.evidence.referee = question.referee->name;
  }
  NODEWISE_RETURN_IF_ERROR(Run(question, &answer));
  NameSources(&answer);
  return answer;
}

}  // namespace nodewise
