// The question, and which search answers it: one table, of which the choice of
// a search, the help and the pages are made.

#include "nodewise/diagnose/question.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "nodewise/lower/region.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

constexpr std::string_view kMethodNames[] = {"auto", "intermediate", "bisect",
                                             "recursive", "replay"};
static_assert(static_cast<size_t>(Method::kReplay) + 1 ==
              std::size(kMethodNames));

constexpr std::string_view kCompareDumps =
    "record a dump of the other side, too, and compare the two dumps";
constexpr std::string_view kDumpsInOrder =
    "nothing was run: the tensors of both dumps were compared, and the graph "
    "says which node differs though what it reads is alike";
constexpr std::string_view kThirdDecides =
    "leave out the third build: the nodes say what is right";
constexpr std::string_view kSeriesIsHalved =
    "the builds were halved until the first bad one was left, and then its "
    "functions were mixed with those of the last good one";
constexpr std::string_view kTakeBuilds =
    "take the builds themselves: a dump is of one run of one of them";
constexpr std::string_view kTakeModel =
    "take the model itself for right: it says what the program should "
    "compute, which the nodes do not";
constexpr std::string_view kTakeBuild =
    "take the build for the target and the program for right";

// Every subject has every cell, also those without a search: then the words say
// what to do instead, and a test counts the cells.
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
    {Subject::kSpeaking, Beside::kBuilds, Search::kSeries, kSeriesIsHalved},
    {Subject::kSpeaking, Beside::kProgram, Search::kOutside,
     "the program was taken for right, and the definitions of the operators "
     "were asked about each node that it accuses"},
    {Subject::kSpeaking, Beside::kDump, Search::kNone, kCompareDumps},

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
    {Subject::kSilent, Beside::kBuilds, Search::kSeries, kSeriesIsHalved},
    {Subject::kSilent, Beside::kProgram, Search::kNone, kTakeModel},
    {Subject::kSilent, Beside::kDump, Search::kNone, kCompareDumps},

    {Subject::kSpeakingDump, Beside::kDefinitions, Search::kReplay,
     "nothing was run: each node was computed again, from what the dump says "
     "that it had read, by the definitions of its operators"},
    {Subject::kSpeakingDump, Beside::kModel, Search::kDumpValues,
     "nothing of the target was run: the tensors of the dump were paired with "
     "those of the model by their values"},
    {Subject::kSpeakingDump, Beside::kBuild, Search::kNone, kCompareDumps},
    {Subject::kSpeakingDump, Beside::kThirdBuild, Search::kNone, kThirdDecides},
    {Subject::kSpeakingDump, Beside::kBuilds, Search::kNone, kTakeBuilds},
    {Subject::kSpeakingDump, Beside::kProgram, Search::kNone, kCompareDumps},
    {Subject::kSpeakingDump, Beside::kDump, Search::kDumps, kDumpsInOrder},

    {Subject::kSilentDump, Beside::kDefinitions, Search::kNone,
     "the nodes do not say what they compute, so take the model for right that "
     "it was compiled from"},
    {Subject::kSilentDump, Beside::kModel, Search::kDumpValues,
     "nothing of the target was run: the nodes do not say what they compute, "
     "so the tensors of the dump were paired with those of the model by their "
     "values"},
    {Subject::kSilentDump, Beside::kBuild, Search::kNone, kCompareDumps},
    {Subject::kSilentDump, Beside::kThirdBuild, Search::kNone, kTakeBuilds},
    {Subject::kSilentDump, Beside::kBuilds, Search::kNone, kTakeBuilds},
    {Subject::kSilentDump, Beside::kProgram, Search::kNone, kTakeModel},
    {Subject::kSilentDump, Beside::kDump, Search::kDumps, kDumpsInOrder},

    {Subject::kProgram, Beside::kDefinitions, Search::kProgramNodes,
     "the program ran the model, and each operation was computed again, from "
     "what the program had made for it, by its definition"},
    {Subject::kProgram, Beside::kModel, Search::kModels, kTwoModelsWords},
    {Subject::kProgram, Beside::kBuild, Search::kNone, kTakeBuild},
    {Subject::kProgram, Beside::kThirdBuild, Search::kNone, kTakeBuild},
    {Subject::kProgram, Beside::kBuilds, Search::kNone,
     "take the first build for the target"},
    {Subject::kProgram, Beside::kProgram, Search::kModels, kTwoModelsWords},
    {Subject::kProgram, Beside::kDump, Search::kNone, kCompareDumps},
};

// A method other than kAuto replaces the usual search of a cell by another.
struct MethodRow {
  Search usual;
  Method method;
  Search search;
};
// Methods that a search is not listed with do not apply to it: a dump cannot be
// halved, since nothing of it runs.
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

// One node that says what it computes is enough: compilers other than
// nodewise's own write no such attribute at all.
bool DeclaresAnyRegion(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, &DeclaresRegion);
}

}  // namespace

Reference ModelReference(std::string path) {
  return {Reference::Kind::kModel, {.path = std::move(path)}};
}

Reference BuildReference(TargetSpec spec) {
  return {Reference::Kind::kBuild, std::move(spec)};
}

std::string_view NameOf(Method method) {
  return kMethodNames[static_cast<size_t>(method)];
}

// Both lists are short, so that the message can have all names.
absl::StatusOr<Method> ParseMethod(const std::string& name) {
  const std::vector<std::string> names(std::begin(kMethodNames),
                                       std::end(kMethodNames));
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return Method(found - names.begin());
  return InvalidArgument("found \"{}\", expected one of {}{}", Printable(name),
                         ListOf(names), DidYouMean(name, names));
}

absl::Span<const SearchRow> SearchTable() { return kTable; }

// Cells without a search are left out of the help; the message that refuses one
// has their words.
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

// A method that a cell does not have is refused by the caller, who can name
// both.
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
  static constexpr std::string_view kTitles[] = {
      "a model, or an artefact of nodewise",
      "an artefact of another compiler",
      "a dump of a model or an artefact of nodewise",
      "a dump of a network of another compiler",
      "a model in another program",
  };
  static_assert(static_cast<size_t>(Subject::kProgram) + 1 ==
                std::size(kTitles));
  return kTitles[static_cast<size_t>(subject)];
}

std::string_view TitleOf(Beside beside) {
  static constexpr std::array<std::string_view, 7> kTitles = {
      {"the definitions of the operators", "a model", "another build",
       "another build and a third one", "a series of builds", "another program",
       "a dump"}};
  static_assert(static_cast<size_t>(Beside::kDump) + 1 == kTitles.size());
  return kTitles[static_cast<size_t>(beside)];
}

// These names stand in documents.
std::string_view NameOf(Search search) {
  static constexpr std::array<std::string_view, 14> kNames = {
      {"none", "nodes", "bisect", "recursive", "mix", "by-value",
       "builds-by-value", "series", "replay", "dump-by-value", "dumps",
       "program", "outside-reference", "two-models"}};
  static_assert(static_cast<size_t>(Search::kModels) + 1 == kNames.size());
  return kNames[static_cast<size_t>(search)];
}

// A network that is not a graph says all, by its operators.
bool DeclaresNoRegion(const Session& session) {
  return session.target != nullptr &&
         !DeclaresAnyRegion(session.target->graph());
}

// A program comes first: it has a model, but what runs are its own operations.
absl::StatusOr<Subject> SubjectOf(const Session& session) {
  if (session.program != nullptr) return Subject::kProgram;
  if (!session.dump.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(const PathKind kind, KindOfPath(session.dump));
    // A file of tensors has no graph that could say anything.
    if (kind == PathKind::kFile && !IsModelOrText(session.dump)) {
      return Subject::kSilentDump;
    }
    NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(session.dump));
    return DeclaresAnyRegion(run.graph) ? Subject::kSpeakingDump
                                        : Subject::kSilentDump;
  }
  return DeclaresNoRegion(session) ? Subject::kSilent : Subject::kSpeaking;
}

// A third build is a setting of the question and not a kind of reference, but
// it asks for another search.
Beside BesideOf(const Question& question) {
  using Kind = Reference::Kind;
  const Kind kind = question.reference.kind;
  if (kind == Kind::kBuild && question.third.has_value()) {
    return Beside::kThirdBuild;
  }
  // The order is that of Reference::Kind, where a third build is not a kind.
  static constexpr Beside kBeside[] = {Beside::kDefinitions, Beside::kModel,
                                       Beside::kBuild,       Beside::kBuilds,
                                       Beside::kProgram,     Beside::kDump};
  static_assert(static_cast<size_t>(Kind::kDump) + 1 == std::size(kBeside));
  return kBeside[static_cast<size_t>(kind)];
}

}  // namespace nodewise
