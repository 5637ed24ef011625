#include "nodewise/diagnose/diagnose.h"

#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/locate/replay.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

const SearchRow& CellOf(Subject subject, Beside beside) {
  for (const SearchRow& row : SearchTable()) {
    if (row.subject == subject && row.beside == beside) return row;
  }
  return SearchTable().front();  // The table has all cells, as its test says.
}

// A setting, and the searches that it means something for.
struct SettingRow {
  Way way;
  bool (*is_given)(const Question& question);
  std::vector<Search> searches;
  bool needs_auto = false;  // And no other method than that.
  const char* expected;     // What the setting is for.
};

bool IsIn(Search search, const std::vector<Search>& searches) {
  for (const Search one : searches) {
    if (one == search) return true;
  }
  return false;
}

constexpr const char* kWantOfSets =
    "a model that differs from the target's own, or another build of a target "
    "whose nodes do not say what they compute";

const std::vector<SettingRow>& Settings() {
  static const auto* const settings = new std::vector<SettingRow>{
      {Way::kRepeats,
       [](const Question& q) { return q.repeats.has_value(); },
       {Search::kNodes, Search::kProgramNodes},
       true,
       "a search of every node by the definitions, by no other method"},
      {Way::kExactInputs,
       [](const Question& q) { return q.uses_exact_inputs; },
       {Search::kNodes},
       true,
       "a search of every node by the definitions, by no other method"},
      {Way::kStrict,
       [](const Question& q) { return q.is_strict; },
       {Search::kNodes, Search::kProgramNodes},
       false,
       "a search of every node by the definitions"},
      {Way::kKnownFile,
       [](const Question& q) { return !q.known_file.empty(); },
       {Search::kProgramNodes},
       false,
       "a model that another program runs"},
      {Way::kMoreTime,
       [](const Question& q) { return q.node_limit_ms.has_value(); },
       {Search::kNodes, Search::kBisect, Search::kLayers, Search::kMix,
        Search::kOutside},
       false,
       "a search that runs each node by itself"},
      {Way::kReferee,
       [](const Question& q) { return q.referee != nullptr; },
       {Search::kNodes, Search::kProgramNodes},
       false,
       "a search of every node by the definitions"},
      {Way::kReproFolder,
       [](const Question& q) { return !q.repro_folder.empty(); },
       {Search::kNodes, Search::kLayers, Search::kValues},
       false,
       "a search that cuts nodes out: by the definitions, or beside a model"},
      // Beside a model it is known once both are read, see RefuseSets().
      {Way::kInputSets,
       [](const Question& q) {
         return q.input_sets.has_value() &&
                q.reference.kind != Reference::Kind::kModel;
       },
       {Search::kValues, Search::kBuilds, Search::kModels},
       false,
       kWantOfSets},
      {Way::kInputSets,
       [](const Question& q) {
         return q.input_sets.has_value() &&
                q.reference.kind == Reference::Kind::kModel;
       },
       {Search::kValues, Search::kBuilds, Search::kModels, Search::kNodes,
        Search::kMix, Search::kLayers, Search::kProgramNodes},
       true,
       kWantOfSets},
      {Way::kSpecialInputs,
       [](const Question& q) { return q.has_special_inputs; },
       {Search::kValues},
       false,
       "a model for right, and a target whose nodes do not say what they "
       "compute"},
      {Way::kTrust,
       [](const Question& q) { return q.trust != Trust::kNeither; },
       {Search::kBuilds},
       true,
       "two builds whose nodes do not say what they compute"},
      {Way::kThird,
       [](const Question& q) { return q.third.has_value(); },
       {Search::kBuilds},
       true,
       "two builds whose nodes do not say what they compute"},
      {Way::kSamples,
       [](const Question& q) { return !q.target.samples.empty(); },
       {Search::kNodes},
       false,
       "a search of every node by the definitions"},
      {Way::kMostSamples,
       [](const Question& q) { return q.most_samples.has_value(); },
       {Search::kNodes},
       false,
       "many samples of inputs"},
  };
  return *settings;
}

absl::Status CheckSettings(const Question& question, const SearchRow& row,
                           Search search) {
  for (const SettingRow& setting : Settings()) {
    if (!setting.is_given(question)) continue;
    const bool has_method =
        setting.needs_auto && question.method != Method::kAuto;
    if (IsIn(search, setting.searches) && !has_method) continue;
    const std::string where =
        question.method != Method::kAuto
            ? fmt::format("with {} {}", NameOf(Way::kMethod),
                          NameOf(question.method))
            : fmt::format("for {}, judged by {}", TitleOf(row.subject),
                          TitleOf(row.beside));
    return absl::InvalidArgumentError(
        fmt::format("{}: means nothing {}, expected {}", NameOf(setting.way),
                    where, setting.expected));
  }
  if (question.is_anonymous && question.repro_folder.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: means nothing without {}", NameOf(Way::kAnonymous),
                    NameOf(Way::kReproFolder)));
  }
  const bool has_samples = !question.target.samples.empty();
  if (question.most_samples.has_value() && !has_samples) {
    return absl::InvalidArgumentError(
        fmt::format("{}: means nothing without {}", NameOf(Way::kMostSamples),
                    NameOf(Way::kSamples)));
  }
  if (question.trust != Trust::kNeither && question.third.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is given with {}, expected one of the two",
                    NameOf(Way::kThird), NameOf(Way::kTrust)));
  }
  if (!has_samples) return absl::OkStatus();
  const std::pair<bool, Way> refused[] = {
      {question.referee != nullptr, Way::kReferee},
      {!question.repro_folder.empty(), Way::kReproFolder},
      {question.reference.kind != Reference::Kind::kDefinitions,
       Way::kReference}};
  for (const auto& [is_given, way] : refused) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: means nothing with {}", NameOf(way), NameOf(Way::kSamples)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Search> SearchFor(const Question& question,
                                 const SearchRow& row) {
  if (row.search == Search::kNone) {
    const bool needs_model = row.beside == Beside::kDefinitions;
    return absl::FailedPreconditionError(fmt::format(
        "{}: is {}, which no search judges by {} ({}{})", question.target.name,
        TitleOf(row.subject), TitleOf(row.beside), row.words,
        needs_model ? fmt::format(": {} MODEL.onnx", NameOf(Way::kReference))
                    : ""));
  }
  const Search search = SearchBy(row, question.method);
  if (search != Search::kNone) return search;
  return absl::InvalidArgumentError(fmt::format(
      "{} {}: does not judge {} by {}, expected {} auto", NameOf(Way::kMethod),
      NameOf(question.method), TitleOf(row.subject), TitleOf(row.beside),
      NameOf(Way::kMethod)));
}

// Several sets are for two models that differ; nodes are judged on one.
absl::Status RefuseSets(const Question& question) {
  if (!question.input_sets.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: means nothing for a target beside its own model, "
                  "expected {}",
                  NameOf(Way::kInputSets), kWantOfSets));
}

// Beside a build, or a model that becomes one, both sides are compared first:
// as long as they say the same, what they say is right.
absl::Status SearchBesideBuild(const Question& question, Answer* answer) {
  TargetSpec spec = question.reference.spec;
  if (question.reference.kind == Reference::Kind::kModel &&
      question.target.network != nullptr && question.method == Method::kAuto &&
      !IsOwnFile(question)) {
    NODEWISE_ASSIGN_OR_RETURN(spec.network,
                              NetworkOfReference(question, answer));
    if (spec.network == nullptr) return absl::OkStatus();
    if (!AreOneModel(*spec.network, *question.target.network)) {
      return SearchTwoModels(question, spec.network, answer);
    }
  }
  if (question.reference.kind == Reference::Kind::kModel) {
    NODEWISE_RETURN_IF_ERROR(RefuseSets(question));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::optional<Session> reference,
      OpenBuild(question, spec, NameOf(Way::kReference), answer));
  if (!reference.has_value()) return absl::OkStatus();
  answer->notes.insert(answer->notes.end(), reference->notes.begin(),
                       reference->notes.end());
  answer->evidence.model_beside = reference->network;
  if (!AreSidesAlike(*question.target.target, *reference->target, answer)) {
    return absl::OkStatus();
  }
  switch (answer->search) {
    case Search::kMix:
      return SearchByMixing(question, *reference, answer);
    case Search::kLayers:
      return SearchLayers(question, answer);
    default:
      return SearchNodes(question, answer);
  }
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
    return absl::FailedPreconditionError(
        "both programs run one model: take the model itself for the target and "
        "one of the programs for right");
  }
  answer->search = Search::kProgramNodes;
  answer->did = CellOf(Subject::kProgram, Beside::kDefinitions).words;
  return SearchInProgram(question, answer);
}

// Says where the culprits' operations are from, in the models that have them.
void NameSources(Answer* answer) {
  const Evidence& evidence = answer->evidence;
  std::vector<std::shared_ptr<const Network>> networks = {
      answer->target.network, evidence.model_beside};
  if (evidence.by_value.has_value()) {
    networks.insert(networks.begin(), evidence.by_value->network);
  }
  if (evidence.models.has_value()) {
    networks.insert(networks.begin(),
                    {evidence.models->reference, evidence.models->target});
  }
  for (NamedCulprit& culprit : answer->culprits) {
    culprit.source = SourcesOf(culprit.operations, networks);
  }
}

absl::Status Run(const Question& question, Answer* answer) {
  const Reference::Kind right = question.reference.kind;
  if (!question.target.samples.empty()) return SearchSamples(question, answer);
  switch (answer->search) {
    case Search::kNone:
      return absl::InternalError("no search");
    case Search::kNodes:
    case Search::kLayers:
    case Search::kMix:
      if (right == Reference::Kind::kModel ||
          right == Reference::Kind::kBuild) {
        return SearchBesideBuild(question, answer);
      }
      return answer->search == Search::kLayers ? SearchLayers(question, answer)
                                               : SearchNodes(question, answer);
    case Search::kBisect:
      return SearchByBisecting(question, answer);
    case Search::kValues:
      return SearchBesideModel(question, answer);
    case Search::kBuilds:
      return SearchBetweenBuilds(question, answer);
    case Search::kSeries:
      return SearchInSeries(question, answer);
    case Search::kReplay:
      return SearchDump(question, answer);
    case Search::kDumpValues: {
      NODEWISE_ASSIGN_OR_RETURN(const PathKind kind,
                                KindOfPath(question.target.dump));
      return kind == PathKind::kFile
                 ? SearchTensorsBesideModel(question, answer)
                 : SearchDumpBesideModel(question, answer);
    }
    case Search::kDumps:
      return SearchBetweenDumps(question, answer);
    case Search::kProgramNodes:
      return SearchInProgram(question, answer);
    case Search::kOutside:
      return SearchByProgram(question, answer);
    case Search::kModels:
      return SearchBesideProgram(question, answer);
  }
  return absl::OkStatus();
}

// The words of the table are about the usual method.
std::string WhatWasDone(const SearchRow& row, Search search, bool has_samples) {
  std::string did(row.words);
  if (has_samples) {
    did = "all samples were run, and for those with the largest errors " + did;
  } else if (search == Search::kBisect) {
    did =
        "the network was halved, with the definitions of its operators in the "
        "place of the rest, until the first wrong node was left";
  } else if (search == Search::kMix) {
    did =
        "what both sides say that they compute was compared, and then their "
        "functions were mixed until the guilty ones were left";
  } else if (search == Search::kLayers) {
    did =
        "for each node what leads to it was run, in little memory, and "
        "compared with the definitions of its operators";
  }
  return did;
}

}  // namespace

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
      WhatWasDone(row, answer.search, !question.target.samples.empty());
  if (question.referee != nullptr) {
    answer.evidence.referee = question.referee->name;
  }
  NODEWISE_RETURN_IF_ERROR(Run(question, &answer));
  NameSources(&answer);
  return answer;
}

}  // namespace nodewise
