#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "nodewise/diagnose/question.h"

namespace nodewise {

// Which search answers which question: one table, from which help, pages and
// tests are made.

// What a question may be about.
enum class Subject : uint8_t {
  kSpeaking,      // A model, or an artefact whose nodes say what they compute.
  kSilent,        // An artefact of another compiler, whose nodes say nothing.
  kSpeakingDump,  // A dump of a run of the first.
  kSilentDump,    // A dump of a run of the second.
  kProgram,       // A model that something else runs.
};

// What may be taken for right beside it.
enum class Beside : uint8_t {
  kDefinitions,
  kModel,
  kBuild,
  kThirdBuild,  // A build, and a third one that decides.
  kBuilds,
  kProgram,
  kDump,
};

// The ways to answer.
enum class Search : uint8_t {
  kNone,
  kNodes,         // LocateInTarget()
  kBisect,        // Bisect()
  kLayers,        // RecursiveLayerComparator
  kMix,           // MixBuilds()
  kValues,        // LocateByValue() beside a model
  kBuilds,        // LocateByValue() beside another build
  kSeries,        // FindFirstBad()
  kReplay,        // ReplayDump()
  kDumpValues,    // LocateByValue() of a dump
  kDumps,         // WhereDumpsDiffer()
  kProgramNodes,  // LocateInNetwork()
  kOutside,       // LocateByOutsideReference()
  kModels,        // CompareModels()
};

// A cell of the table.
struct SearchRow {
  Subject subject;
  Beside beside;
  Search search;
  // What the search does, as in "<words>."; for kNone what would make an answer
  // possible.
  std::string_view words;
};

// What kModels does, also where it takes the place of a cell's search since two
// models differ.
inline constexpr std::string_view kTwoModelsWords =
    "the models differ, so their values were paired by their names and "
    "numbers, and each layer of one was run in the place of the other's";

// Returns all cells, by subject and then by what is beside it.
absl::Span<const SearchRow> SearchTable();

// Returns the table as lines for a help text.
std::string SearchTableText();

// Returns the search of a cell for a method; kNone if it has none by it.
Search SearchBy(const SearchRow& row, Method method);

// Return what reports and pages call them: "a model, or an artefact of
// nodewise", "another build".
std::string_view TitleOf(Subject subject);
std::string_view TitleOf(Beside beside);
// "nodes", "by-value", ...
std::string_view NameOf(Search search);

// Returns the subject of a session, and what the question has beside it.
absl::StatusOr<Subject> SubjectOf(const Session& session);
Beside BesideOf(const Question& question);

// Returns whether no node of the target says what it computes, as those of
// other compilers do not.
bool SaysNothing(const Session& session);

}  // namespace nodewise
