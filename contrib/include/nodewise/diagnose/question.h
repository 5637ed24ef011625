#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/session.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// What Diagnose() is asked: about what, beside what, and how.

// What is taken for right.
struct Reference {
  enum class Kind : uint8_t {
    kDefinitions,  // What the operators are defined to compute.
    kModel,        // The model that the target was compiled from.
    kBuild,        // Another build of the network.
    kBuilds,       // Builds in their order, the first good and the last bad.
    kProgram,      // A model that something else runs.
    kDump,         // What another run has left behind.
  };

  Kind kind = Kind::kDefinitions;
  // A model, a build or a program (TargetSpec::program). Only the sizes of its
  // inputs count, and it need not have any: the target's are used.
  TargetSpec spec = {};
  std::vector<TargetSpec> builds = {};  // For kBuilds.
};

// Return such a reference. A model that is only a path is read when it is
// needed.
Reference ModelReference(std::string path);
Reference BuildReference(TargetSpec spec);

enum class Method : uint8_t {
  kAuto,
  kIntermediate,  // Each node runs once in the network and once alone.
  kBisect,        // Halves the network, or mixes functions of two builds.
  kRecursive,     // For each node what leads to it runs, in little memory.
  kReplay,        // Nothing runs: the target is a dump.
};
// Returns "auto", "intermediate", ...
std::string_view NameOf(Method method);
// Fails with kInvalidArgument, naming the nearest.
absl::StatusOr<Method> ParseMethod(const std::string& name);

// Which of two builds is right whose nodes do not say what they compute.
enum class Trust : uint8_t { kNeither, kTarget, kReference };

struct Question {
  Session target;
  Reference reference = {};
  Method method = Method::kAuto;

  // Options that are not set have their usual values; an option that means
  // nothing to the chosen search is refused.

  // How often the target runs again, to find nodes that are not deterministic.
  std::optional<int> repeats = {};
  std::optional<int64_t> node_limit_ms = {};  // A node that takes longer hangs.
  // Nodes that only move, choose, add and multiply numbers get inputs with
  // which they must be right bit for bit.
  bool uses_exact_inputs = false;
  // Accuses every node that is beyond its bound (LocateOptions::is_strict).
  bool is_strict = false;
  // What is known of runtimes beside the table of this build (LocateOptions::
  // known): a file of `nodewise adapter learn`; empty: nothing.
  std::string known_file = {};
  // Beside a model or a build, by values: how many sets of inputs both run
  // with, and whether there is one more with NaN and infinities.
  std::optional<uint64_t> input_sets = {};
  bool has_special_inputs = false;
  Trust trust = Trust::kNeither;
  std::optional<TargetSpec> third = {};  // A third build, which decides.
  // With Session::samples: how many of the worst are examined.
  std::optional<size_t> most_samples = {};
  // A second program to compute a node that the reference accuses; may be null.
  std::shared_ptr<const NetworkProgram> referee = nullptr;
  // Where each culprit becomes a folder of its own; empty: nowhere.
  std::string repro_folder = {};
  // These folders may be given to strangers (nodewise/repro/anonymous.h).
  bool is_anonymous = false;

  // Called with what is being done, how much of it is, and of how much. May be
  // null.
  std::function<void(std::string_view what, size_t done, size_t total)>
      progress = nullptr;
};

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
  kDumps,         // LocateDumpDifference()
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
bool DeclaresNoRegion(const Session& session);

}  // namespace nodewise
