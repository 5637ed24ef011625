#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/cause.h"
#include "nodewise/locate/known_deviation.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {

// What several runs together say about one node (docs/locate.md has the truth
// table). All functions are pure; any thread may call them.

enum class NodeVerdict : uint8_t {
  kHealthy,
  kIntendedInfinity,  // It makes infinities or NaN, and so does the reference.
  kInherits,          // It is right, and what it read is not.
  kDeviates,          // Beyond its bound, by too little to matter anywhere.
  kInconclusive,      // It is unknown whether it is right.
  kBadInput,          // It is right, and was given NaN from outside.
  kNotDeterministic,  // It makes different bits of the same bits.
  kPlanFault,         // It writes over what is still needed.
  kChangesFloats,     // It changes how floats are calculated after it.
  kBroken,            // It makes something else than it should.
  kSideEffect,        // It leaves changed what all code of a process shares.
  kOverrun,           // It writes to memory that is not its own.
  kHangs,             // It does not return.
  kCrashes,           // It ends the process, or the run with an error.
};
// Returns "healthy", "plan fault", ...
std::string_view NameOf(NodeVerdict verdict);

// Returns whether a node with this verdict is a culprit.
bool IsCulpritVerdict(NodeVerdict verdict);

// Returns whether a node with this verdict keeps a run from coming to its end:
// kCrashes and kHangs.
bool EndsRuns(NodeVerdict verdict);

// What the runs showed of one node.
struct NodeEvidence {
  // It crashed, ended the process or failed, or did not return in time; so the
  // reference stood in for it wherever the rest could be judged.
  bool crashed = false;
  bool hung = false;
  // It wrote to memory that is not its own; so the reference stood in for it.
  bool wrote_astray = false;
  // It left the working folder, descriptors, limits, signals or other things
  // changed that all code shares; so the reference stood in for it.
  bool has_side_effect = false;
  // The reference stood in for it because it was asked to.
  bool is_stand_in = false;
  // What was handed out for it is not what those that read it have computed
  // with; so nothing is known of what it made.
  bool is_misreported = false;
  // All that reads it makes what it should of what it should have made.
  bool has_no_consequence = false;
  // On what it read in the run, by the reference's bounds.
  Verdict isolated = Verdict::kPass;
  // That in a run in which every tensor has memory of its own; none if there
  // was no such run.
  std::optional<Verdict> isolated_privately = std::nullopt;
  // What it makes wrong is beyond the tolerance of its type, too.
  bool is_large = false;
  // On inputs with which it must be right bit for bit; none if that was not
  // tried, or cannot be.
  std::optional<Verdict> exact = std::nullopt;
  // Against the reference's run of the whole network.
  Verdict accumulated = Verdict::kPass;
  // Something it read had been written over since it was made.
  bool read_overwritten = false;
  // It wrote to memory that a later node, or the caller, still had to read.
  bool wrote_over = false;
  // It made the same bits of the same bits whenever it ran.
  bool is_steady = true;
  // It left the floating-point environment changed, which is put back before
  // the next node.
  bool changed_floats = false;
  // It was given a NaN by the network's inputs or parameters.
  bool was_given_nan = false;
  // It made infinities of finite numbers.
  bool made_infinity = false;
  // It made NaN of finite numbers.
  bool made_nan = false;
};

// Joins them into one verdict.
NodeVerdict JoinEvidence(const NodeEvidence& evidence);

// Returns the verdict that counts for a check on equal inputs: a warning
// accuses if the differences are large enough to matter, beyond the tolerance
// of the type; else it passes.
Verdict IsolatedVerdict(absl::Span<const TensorComparison> outputs);

// Returns whether a wrong output is beyond the tolerance of its type: an
// element, or all of them together.
bool IsLarge(absl::Span<const TensorComparison> outputs);

// Names the node that makes a run of a compiled network wrong. Nodes must say
// what they compute, as those of Lower() do: that text is the reference, node
// by node on what each has read, and of the whole network.
//
// Runners whose nodes run in another process ("guarded" of MakerOf()) survive
// nodes that crash, hang or end the process: such a node is a culprit, the
// reference stands in for it, and all others are judged. With any other runner
// such a node takes this process with it.

// Which nodes also get inputs with which they must be right bit for bit
// (exact_inputs.h), each in a run of its own.
enum class ExactInputs {
  kNever,
  kForUnsettled,  // Where bounds leave it open, or are nearly reached.
  kForAll,
};

struct LocateOptions {
  // How often the candidate runs again, to find nodes that make different bits
  // of the same bits; 0: this is not looked for.
  int repeats = 12;
  // How long a node may take where runs have a process of their own
  // (RunOptions::node_limit_ms); a node that takes longer hangs.
  int64_t node_limit_ms = 60'000;
  // Runs nodes that look wrong again, with memory of its own for each tensor,
  // and looks for nodes that write to memory that is not theirs.
  bool checks_storage = true;
  ExactInputs exact_inputs = ExactInputs::kForUnsettled;
  // How many nodes get exact inputs at most because bounds leave them open.
  size_t most_unsettled = 16;
  // How many culprits are confirmed at most, each by a run.
  size_t most_confirmed = 32;
  // Accuses every node that is beyond its bound. Else a node whose error is
  // within the tolerance of its type only deviates, as long as no output is
  // beyond its own with a share of that error from this node.
  bool is_strict = false;
  // Returns what is known of the runtime that calls itself so (RowsOf()). What
  // it explains only deviates, too, as long as no output is wrong. May be null.
  std::function<std::vector<KnownDeviation>(const std::string& runtime)> known =
      nullptr;
  // What nodes read is known only as what the candidate hands out, which may be
  // something else than what it computes with (NodeEvidence::is_misreported).
  bool only_handed_out = false;
  // How long wrong nodes are examined at most for the cause (cause.h), all of
  // them together.
  int64_t most_explain_ns = 20'000'000'000;
  // Called with the nodes that the reference has computed, and their number.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// Make runners of the examined graph, with the capabilities kTensors,
// kNodeInputs, kPatches and, for exact inputs, kSteps.
struct CandidateMakers {
  RunnerMaker candidate;  // As it was compiled.
  // With memory of its own for each tensor (WithPrivateStorage()). May be null:
  // then there is no such run.
  RunnerMaker with_private_storage = nullptr;
  // With tensors at other addresses, for the runs that are repeated. May be
  // null: then `candidate` makes those, too.
  RunnerMaker elsewhere = nullptr;
};

// Makes the makers of such runners in which the reference computes some nodes,
// by key. Fails with kUnimplemented for nodes that do not say what they
// compute.
using StandInMaker = std::function<absl::StatusOr<CandidateMakers>(
    const std::vector<std::string>& nodes)>;

// The request for a search. Everything must outlive the call.
struct LocateRequest {
  const GraphIndex& index;  // The candidate's graph, with its plan.
  const OpSet& operators;
  RunnerMaker candidate;  // As in CandidateMakers.
  RunnerMaker with_private_storage;
  std::vector<NamedTensor> inputs;
  RunnerMaker elsewhere = nullptr;
  // Is asked for nodes that crash or hang. May be null. Where there are no such
  // runners, nodes are judged up to the first one that ends the run.
  StandInMaker with_stand_ins = nullptr;
  // Returns the nodes that write to memory that is not their own, as kinds
  // NodeFailure::Kind::kStrayWrite; called before any node is judged, if
  // LocateOptions::checks_storage is set. The reference stands in for them, so
  // that no other node is accused for what they spoil. May be null.
  std::function<absl::StatusOr<std::vector<NodeFailure>>()> find_stray_writes =
      nullptr;
  // Whether runs that have processes of their own may go on at the same time,
  // each with the memory that a run takes.
  bool runs_at_once = false;
  // The nodes, by key, that the reference computes in all these runners anyway.
  std::vector<std::string> stand_ins = {};
};

// What was found out about a function node.
struct NodeReport {
  NodeId node{};
  std::string key;                  // GraphIndex::KeyOf().
  std::vector<std::string> covers;  // The network's operations in it.
  std::string operators = {};       // What these compute: "Conv+Relu".
  NodeEvidence evidence;
  NodeVerdict verdict = NodeVerdict::kHealthy;
  std::string reason;  // In words.
  // What it made else of subnormal numbers, in words; empty if nothing.
  std::string remark = {};
  // How it left the floating-point environment changed, if it did.
  std::optional<FloatChange> floats = std::nullopt;
  // How it ended a run, or where it wrote astray, if it did.
  std::optional<NodeFailure> failure;
  // Why it makes other numbers, if it was looked for and found.
  std::optional<Cause> cause = std::nullopt;
  // If it is off, and something is known of its operator in this runtime.
  std::optional<KnownUse> known = std::nullopt;
  // What exact inputs showed, or why there are none for it, in words; empty if
  // they were not tried.
  std::string on_exact_inputs;
  // The output that decides, on what the node read; none for a node that could
  // not be checked.
  std::optional<TensorComparison> worst;
  // The ledger, as RelativeError(): what it received of the nodes before it,
  // what it made itself of what it read, and what it passed on.
  double received = 0;
  double made = 0;
  double passed_on = 0;

  // Returns how many times larger it made the error that it received; 0 if it
  // received none.
  double gain() const;
  // Returns whether what it makes was not looked at, since it ends runs or the
  // reference computed it.
  bool was_replaced() const {
    return failure.has_value() || evidence.is_stand_in;
  }
};

// A tensor that a node has written over, and who still had to read it: the
// number of nodes for the caller.
struct WrittenOver {
  EntryId victim{};
  NodeId reader{};
};

// A node that is to blame.
struct Culprit {
  size_t report = 0;  // In LocateResult::nodes.
  // The share of the error of the network's outputs that is gone when the rest
  // runs on what this node should have made: 1 for all of it, below 0 if that
  // makes it worse. None if the outputs do not differ, or it was not tried.
  std::optional<double> share;
  // For a plan fault: the tensors that it wrote over and their readers, in
  // words.
  std::vector<std::string> victims;
  std::vector<WrittenOver> written_over = {};  // As indices.
};

struct LocateResult {
  std::vector<NodeReport> nodes;  // All function nodes in their order.
  // Those that end runs or write astray come first, then those with the largest
  // share; those whose share is not known last. Else in the order of nodes.
  std::vector<Culprit> culprits;
  std::vector<TensorComparison> outputs;  // The network's, accumulated.
  // The share that several culprits together explain; none where one of them is
  // a plan fault.
  std::optional<double> share_of_all;
  // The node with the largest gain, as an index into `nodes`, where outputs
  // differ and no node is to blame.
  std::optional<size_t> largest_gain;
  // What one should know: tensors that something unknown has written over, say.
  std::vector<std::string> notes;
  // The keys of the nodes that the reference computed in the end, in their
  // order: those that the request names, and those that ended runs.
  std::vector<std::string> stand_ins;
  // What another program that ran the network calls itself; else empty. And
  // whether something is known of it.
  std::string runtime = {};
  bool is_runtime_known = false;
  // The outputs are beyond their tolerance by no more than correct kernels are,
  // whose roundings this network enlarges; known only where no node is to
  // blame.
  bool is_rounding = false;

  bool AreOutputsWrong() const;
  size_t CountOf(NodeVerdict verdict) const;
};

// Runs the candidate, joins what the runs show into one verdict a node, and
// confirms each culprit. Fails as the runners do, and as CheckNodes(); also
// where a node ends the run with the reference in its place, too.
absl::StatusOr<LocateResult> Locate(const LocateRequest& request,
                                    const LocateOptions& options = {});

}  // namespace nodewise
