#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/compare/compare.h"
#include "nodewise/diagnose/question.h"
#include "nodewise/diagnose/repro_folders.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/origin.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/dump_difference.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/locate/series.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/model_changes.h"
#include "nodewise/session/session.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// What Diagnose() has found out. Whichever search it was, `state`, `culprits`,
// `verdicts` and `doubts` say the same; what else a search has to tell is in
// `evidence`. nodewise/report/answer_report.h makes text and a document of it.

// A node that is to blame.
struct NamedCulprit {
  // Its kind is of verdict_kinds, its place the node; `found` is the reason.
  Finding finding;
  std::string kind;  // "broken", "plan fault", ...; "differs" from a build.
  // The operations of the model that it stands for, and the changes of one of
  // them that explain what it makes: "pool: AveragePool instead of MaxPool".
  std::vector<std::string> operations;
  std::vector<std::string> explanations;
  // Where these operations are from, as far as the model's exporter says it.
  std::vector<OperationSource> source = {};
};

// What is known of a function node.
struct NodeAnswer {
  std::string node;  // GraphIndex::KeyOf().
  NodeId id{};
  std::string kind;  // "healthy", "inherits", "broken", ...
  std::string reason;
  bool is_culprit = false;
};

// What matching values with a model, or another build, has shown.
struct ValueEvidence {
  // The index of the graph whose nodes were judged; it keeps that graph alive.
  std::shared_ptr<const GraphIndex> index;
  std::shared_ptr<const Network> network;  // Beside them.
  ValueLocateResult result;
  std::string model;   // What the network is called: a path.
  std::string called;  // And in sentences: "the model", or a path.
  // Between builds: which of them the nodes are of, "target" or "reference",
  // and what is said of that behind a culprit's name.
  std::string side;
  std::string owner;
  std::vector<std::string> kinds;  // By culprit; empty: all are broken.
  std::vector<std::string> sets;   // What each set of inputs is, in words.
  size_t most_shown = SIZE_MAX;    // How many culprits a text need show.
};

// What comparing two dumps has shown.
struct DumpEvidence {
  Comparison comparison;
  DumpDifference where;
};

// What comparing two models has shown.
struct ModelsEvidence {
  std::string name;  // What the reference is called: its path.
  std::shared_ptr<const Network> reference;
  std::shared_ptr<const Network> target;
  ModelComparison compared;
};

// What nodes, layers, builds and samples have shown. What a search did not look
// for is empty.
struct Evidence {
  std::optional<OpaqueReport> opaque;  // On the model beside the target.
  std::string reference;               // The name of a program or a model.
  // How both sides differ before anything runs; none if they were not compared.
  std::optional<std::vector<SideDifference>> differences;
  // What each function node was found to be. Only some nodes are in it if
  // `judged_all` is false.
  std::optional<LocateResult> located;
  bool judged_all = true;
  // The index of the graph that has these nodes, and the owner of that graph;
  // null if ValueEvidence has them.
  std::shared_ptr<const GraphIndex> index;
  std::shared_ptr<const void> graph;
  // A model beside a target whose nodes say what they compute; may be null.
  std::shared_ptr<const Network> model_beside;
  std::optional<ValueEvidence> by_value;
  std::optional<DumpEvidence> dumps;
  std::optional<ModelsEvidence> models;
  std::optional<BisectResult> bisected;  // Without its `located`.
  std::optional<MixResult> mixed;        // Without its `located`.
  std::optional<LayerCost> cost;
  std::optional<SeriesResult> series;
  std::vector<std::string> builds;  // The names of those of the series.
  std::optional<SamplesResult> samples;
  std::vector<std::string> sample_names;
  std::optional<std::string> shown_sample;  // The one that `located` is of.
  // If a program was examined: what could not be observed, and whether the
  // fault only shows with less observed.
  std::optional<std::vector<std::string>> unobserved;
  bool vanishes = false;
  // How much being observed changes the outputs, and which most.
  std::optional<double> change;
  std::string most_changed;
  // What the program ran for the search, and how long that took in all.
  std::optional<ProgramRuns> program_runs;
  int64_t search_ns = 0;
  // The name of the referee that was asked about culprits, and its opinion of
  // each, by key.
  std::string referee;
  std::vector<std::pair<std::string, RefereeOpinion>> opinions;
};

struct Answer {
  enum class State : uint8_t {
    kRight,    // Nothing is wrong.
    kWrong,    // Something is: a culprit, a difference, a bad build.
    kUnknown,  // Nothing can be said; `doubts` has the reasons.
  };

  State state = State::kRight;
  Search search = Search::kNone;
  std::string did;  // In one sentence: what was done, and why that.
  Session target;
  std::vector<NamedCulprit> culprits;  // In the order of the nodes.
  std::vector<NodeAnswer> verdicts;
  std::vector<Finding> doubts;
  std::vector<std::string> notes;
  std::optional<WrittenRepros> repros;  // If they were asked for.
  Evidence evidence;

  bool is_wrong() const { return state == State::kWrong; }
  // Adds a doubt, with which nothing can be said.
  void AddDoubt(const absl::Status& status);
  // Makes doubts of all that was found where there is an error among it.
  // Returns whether there is.
  bool AddDoubts(const DiagnosticList& faults);
};

// Kinds of findings that name a culprit.
namespace verdict_kinds {
inline constexpr FindingKind kPlanFault = {
    "plan-fault", "diagnose", Severity::kError,
    "a node writes over a tensor that another still has to read"};
inline constexpr FindingKind kNotDeterministic = {
    "not-deterministic", "diagnose", Severity::kError,
    "a node makes different bits of the same inputs"};
inline constexpr FindingKind kChangesFloats = {
    "changes-floats", "diagnose", Severity::kError,
    "a node changes how floats are calculated after it"};
inline constexpr FindingKind kBroken = {
    "broken", "diagnose", Severity::kError,
    "a node makes something else than it should of what it reads"};
inline constexpr FindingKind kSideEffect = {
    "side-effect", "diagnose", Severity::kError,
    "a node leaves changed what all code of a process shares"};
inline constexpr FindingKind kOverrun = {
    "node-overruns", "diagnose", Severity::kError,
    "a node writes to memory that is not its own"};
inline constexpr FindingKind kHangs = {
    "node-hangs", "diagnose", Severity::kError, "a node does not return"};
inline constexpr FindingKind kCrashes = {
    "node-crashes", "diagnose", Severity::kError,
    "a node ends the process, or the run with an error"};
inline constexpr FindingKind kDiffers = {
    "differs", "diagnose", Severity::kError,
    "a node differs between builds, and nothing says which one is right"};
inline constexpr FindingKind kCostsAccuracy = {
    "costs-accuracy", "diagnose", Severity::kError,
    "a layer whose lower precision changes the outputs"};
inline constexpr FindingKind kAll[] = {
    kPlanFault,  kNotDeterministic, kChangesFloats, kBroken,
    kSideEffect, kOverrun,          kHangs,         kCrashes,
    kDiffers,    kCostsAccuracy};
}  // namespace verdict_kinds

// What a culprit is if nothing else is said of it.
inline constexpr std::string_view kBrokenKind = "broken";
// Return what a culprit is that was found by its values, and what is wrong with
// it, in words.
std::string KindOf(const ValueEvidence& evidence, size_t number);
std::string ReasonFor(const ValueEvidence& evidence, size_t number);

// Return the names of operations and of values of a network, in their order.
std::vector<std::string> OperationNames(
    const Network& network, absl::Span<const OperationId> operations);
std::vector<std::string> ValueNames(const Network& network,
                                    absl::Span<const ValueId> values);

// Returns the RelativeError() of the output that is furthest off; 0 without
// any.
double LargestOutputError(const LocateResult& located);

// Returns the name of what is known of an entry: "healthy", "on the way", ...
std::string_view NameOf(EntryState state);

// Returns what a colleague would say of an answer: who is wrong, why, and
// whether that is all. In one sentence; empty where the search says it better.
std::string SentenceOf(const Answer& answer);

}  // namespace nodewise
