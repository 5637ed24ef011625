#include "nodewise/diagnose/question.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/lower/region.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/path_kind.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

constexpr Method kMethods[] = {Method::kAuto, Method::kIntermediate,
                               Method::kBisect, Method::kRecursive,
                               Method::kReplay};

}  // namespace

Reference ModelReference(std::string path) {
  Reference reference;
  reference.kind = Reference::Kind::kModel;
  reference.spec.path = std::move(path);
  return reference;
}

Reference BuildReference(TargetSpec spec) {
  Reference reference;
  reference.kind = Reference::Kind::kBuild;
  reference.spec = std::move(spec);
  return reference;
}

std::string_view NameOf(Method method) {
  switch (method) {
    case Method::kAuto:
      return "auto";
    case Method::kIntermediate:
      return "intermediate";
    case Method::kBisect:
      return "bisect";
    case Method::kRecursive:
      return "recursive";
    case Method::kReplay:
      return "replay";
  }
  return "";
}

absl::StatusOr<Method> ParseMethod(const std::string& name) {
  std::vector<std::string> names;
  for (const Method method : kMethods) {
    if (name == NameOf(method)) return method;
    names.emplace_back(NameOf(method));
  }
  return absl::InvalidArgumentError(
      fmt::format("found \"{}\", expected one of {}{}", Printable(name),
                  ListOf(names), DidYouMean(name, names)));
}

namespace {

constexpr std::string_view kDumpsAreCompared =
    "record a dump of the other side, too, and compare the two dumps";
constexpr std::string_view kDumpsInOrder =
    "nothing was run: the tensors of both dumps were compared, and the graph "
    "says which node differs though what it reads is alike";
constexpr std::string_view kThirdDecides =
    "leave out the third build: the nodes say what is right";

constexpr SearchRow kTable[] = {
    {Subject::kSpeaking, Beside::kDefinitions, Search::kNodes,
     "each node was computed again, from what it had read, by the definitions "
     "of its operators"},
    {Subject::kSpeaking, Beside::kModel, Search::kNodes,
     "what both sides say that they compute was compared; then each node was "
     "computed again by that, from what it had read"},
    {Subject::kSpeaking, Beside::kBuild, Search::kNodes,
     "what both builds say that they compute was compared; then each node was "
     "computed again by that, from what it had read"},
    {Subject::kSpeaking, Beside::kThirdBuild, Search::kNone, kThirdDecides},
    {Subject::kSpeaking, Beside::kBuilds, Search::kSeries,
     "the builds were halved until the first bad one was left, and then its "
     "functions were mixed with those of the last good one"},
    {Subject::kSpeaking, Beside::kProgram, Search::kOutside,
     "the program was taken for right, and the definitions of the operators "
     "were asked about each node that it accuses"},
    {Subject::kSpeaking, Beside::kDump, Search::kNone, kDumpsAreCompared},

    {Subject::kSilent, Beside::kDefinitions, Search::kNodes,
     "the nodes do not say what they compute, so only those could be found "
     "that crash, hang or write where they must not"},
    {Subject::kSilent, Beside::kModel, Search::kValues,
     "the nodes do not say what they compute, so both ran on the same inputs, "
     "and their tensors were paired by their values"},
    {Subject::kSilent, Beside::kBuild, Search::kBuilds,
     "the nodes of both builds do not say what they compute, so both ran on "
     "the same inputs, and their tensors were paired by their values"},
    {Subject::kSilent, Beside::kThirdBuild, Search::kBuilds,
     "the nodes of the builds do not say what they compute, so all three ran "
     "on the same inputs, their tensors were paired by their values, and two "
     "were right against one"},
    {Subject::kSilent, Beside::kBuilds, Search::kSeries,
     "the builds were halved until the first bad one was left, and then its "
     "functions were mixed with those of the last good one"},
    {Subject::kSilent, Beside::kProgram, Search::kNone,
     "take the model itself for right: it says what the program should "
     "compute, which the nodes do not"},
    {Subject::kSilent, Beside::kDump, Search::kNone, kDumpsAreCompared},

    {Subject::kSpeakingDump, Beside::kDefinitions, Search::kReplay,
     "nothing was run: each node was computed again, from what the dump says "
     "that it had read, by the definitions of its operators"},
    {Subject::kSpeakingDump, Beside::kModel, Search::kDumpValues,
     "nothing of the target was run: the tensors of the dump were paired with "
     "those of the model by their values"},
    {Subject::kSpeakingDump, Beside::kBuild, Search::kNone, kDumpsAreCompared},
    {Subject::kSpeakingDump, Beside::kThirdBuild, Search::kNone, kThirdDecides},
    {Subject::kSpeakingDump, Beside::kBuilds, Search::kNone,
     "take the builds themselves: a dump is of one run of one of them"},
    {Subject::kSpeakingDump, Beside::kProgram, Search::kNone,
     kDumpsAreCompared},
    {Subject::kSpeakingDump, Beside::kDump, Search::kDumps, kDumpsInOrder},

    {Subject::kSilentDump, Beside::kDefinitions, Search::kNone,
     "the nodes do not say what they compute, so take the model for right that "
     "it was compiled from"},
    {Subject::kSilentDump, Beside::kModel, Search::kDumpValues,
     "nothing of the target was run: the nodes do not say what they compute, "
     "so the tensors of the dump were paired with those of the model by their "
     "values"},
    {Subject::kSilentDump, Beside::kBuild, Search::kNone, kDumpsAreCompared},
    {Subject::kSilentDump, Beside::kThirdBuild, Search::kNone,
     "take the builds themselves: a dump is of one run of one of them"},
    {Subject::kSilentDump, Beside::kBuilds, Search::kNone,
     "take the builds themselves: a dump is of one run of one of them"},
    {Subject::kSilentDump, Beside::kProgram, Search::kNone,
     "take the model itself for right: it says what the program should "
     "compute, which the nodes do not"},
    {Subject::kSilentDump, Beside::kDump, Search::kDumps, kDumpsInOrder},

    {Subject::kProgram, Beside::kDefinitions, Search::kProgramNodes,
     "the program ran the model, and each operation was computed again, from "
     "what the program had made for it, by its definition"},
    {Subject::kProgram, Beside::kModel, Search::kModels, kTwoModelsWords},
    {Subject::kProgram, Beside::kBuild, Search::kNone,
     "take the build for the target and the program for right"},
    {Subject::kProgram, Beside::kThirdBuild, Search::kNone,
     "take the build for the target and the program for right"},
    {Subject::kProgram, Beside::kBuilds, Search::kNone,
     "take the first build for the target"},
    {Subject::kProgram, Beside::kProgram, Search::kModels, kTwoModelsWords},
    {Subject::kProgram, Beside::kDump, Search::kNone, kDumpsAreCompared},
};

// What other methods than kAuto make of the search that a cell has.
struct MethodRow {
  Search usual;
  Method method;
  Search search;
};
constexpr MethodRow kSearchesByMethod[] = {
    {Search::kNodes, Method::kIntermediate, Search::kNodes},
    {Search::kNodes, Method::kBisect, Search::kBisect},
    {Search::kNodes, Method::kRecursive, Search::kLayers},
    {Search::kBuilds, Method::kBisect, Search::kMix},
    {Search::kSeries, Method::kBisect, Search::kSeries},
    {Search::kReplay, Method::kReplay, Search::kReplay},
    {Search::kDumpValues, Method::kReplay, Search::kDumpValues},
    {Search::kDumps, Method::kReplay, Search::kDumps},
    {Search::kProgramNodes, Method::kIntermediate, Search::kProgramNodes},
    {Search::kOutside, Method::kIntermediate, Search::kOutside},
};

bool AnySays(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), &SaysItsRegion);
}

}  // namespace

absl::Span<const SearchRow> SearchTable() { return kTable; }

std::string SearchTableText() {
  std::string text = "what is done, by TARGET and what is taken for right:\n";
  const SearchRow* before = nullptr;
  for (const SearchRow& row : SearchTable()) {
    if (before == nullptr || row.subject != before->subject) {
      text += fmt::format("  {}\n", TitleOf(row.subject));
    }
    before = &row;
    if (row.search == Search::kNone) continue;
    text +=
        fmt::format("    {:<34}{}\n", TitleOf(row.beside), NameOf(row.search));
  }
  return text;
}

Search SearchBy(const SearchRow& row, Method method) {
  if (method == Method::kAuto) return row.search;
  for (const MethodRow& by : kSearchesByMethod) {
    if (by.usual != row.search || by.method != method) continue;
    // Halving nodes asks about definitions, halving builds about functions.
    const bool mixes = method == Method::kBisect &&
                       row.search == Search::kNodes &&
                       row.beside != Beside::kDefinitions;
    return mixes ? Search::kMix : by.search;
  }
  return Search::kNone;
}

std::string_view TitleOf(Subject subject) {
  switch (subject) {
    case Subject::kSpeaking:
      return "a model, or an artefact of nodewise";
    case Subject::kSilent:
      return "an artefact of another compiler";
    case Subject::kSpeakingDump:
      return "a dump of a model or an artefact of nodewise";
    case Subject::kSilentDump:
      return "a dump of a network of another compiler";
    case Subject::kProgram:
      return "a model in another program";
  }
  return "";
}

std::string_view TitleOf(Beside beside) {
  switch (beside) {
    case Beside::kDefinitions:
      return "the definitions of the operators";
    case Beside::kModel:
      return "a model";
    case Beside::kBuild:
      return "another build";
    case Beside::kThirdBuild:
      return "another build and a third one";
    case Beside::kBuilds:
      return "a series of builds";
    case Beside::kProgram:
      return "another program";
    case Beside::kDump:
      return "a dump";
  }
  return "";
}

std::string_view NameOf(Search search) {
  switch (search) {
    case Search::kNone:
      return "none";
    case Search::kNodes:
      return "nodes";
    case Search::kBisect:
      return "bisect";
    case Search::kLayers:
      return "recursive";
    case Search::kMix:
      return "mix";
    case Search::kValues:
      return "by-value";
    case Search::kBuilds:
      return "builds-by-value";
    case Search::kSeries:
      return "series";
    case Search::kDumps:
      return "dumps";
    case Search::kReplay:
      return "replay";
    case Search::kDumpValues:
      return "dump-by-value";
    case Search::kProgramNodes:
      return "program";
    case Search::kOutside:
      return "outside-reference";
    case Search::kModels:
      return "two-models";
  }
  return "";
}

bool SaysNothing(const Session& session) {
  return session.target != nullptr && !AnySays(session.target->graph());
}

absl::StatusOr<Subject> SubjectOf(const Session& session) {
  if (session.program != nullptr) return Subject::kProgram;
  if (!session.dump.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(session.dump));
    // A file of tensors has no graph that could say anything.
    if (kind == PathKind::kFile && !IsModelOrText(session.dump)) {
      return Subject::kSilentDump;
    }
    NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(session.dump));
    return AnySays(run.graph) ? Subject::kSpeakingDump : Subject::kSilentDump;
  }
  return SaysNothing(session) ? Subject::kSilent : Subject::kSpeaking;
}

Beside BesideOf(const Question& question) {
  switch (question.reference.kind) {
    case Reference::Kind::kDefinitions:
      return Beside::kDefinitions;
    case Reference::Kind::kModel:
      return Beside::kModel;
    case Reference::Kind::kBuild:
      return question.third.has_value() ? Beside::kThirdBuild : Beside::kBuild;
    case Reference::Kind::kBuilds:
      return Beside::kBuilds;
    case Reference::Kind::kProgram:
      return Beside::kProgram;
    case Reference::Kind::kDump:
      return Beside::kDump;
  }
  return Beside::kDefinitions;
}

}  // namespace nodewise
