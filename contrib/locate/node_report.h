#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/locate/observed_run.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/locate/locate.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// The reports of searches about nodes, and how they go on where one ends its
// run.

// Makes the report of a node that was checked, or was not. Evidence that other
// runs give is added afterwards.
NodeReport ReportOf(const GraphIndex& index, const NodeCheck& check);
NodeReport ReportUnchecked(const GraphIndex& index, NodeId node,
                           std::string_view why);

// Adds a report, and a culprit for it.
void AddCulprit(NodeReport report, std::vector<std::string> victims,
                LocateResult* result);

// Returns null for what is not a function node. REQUIRES: the reports are in
// the order of their nodes.
NodeReport* FindReport(NodeId node, LocateResult* result);

// Adds what the reference makes of the outputs of a node, so that a run goes on
// with that: one of NodeCheck::expected and NodeCheck::reference.
void AddPatches(const NodeCheck& check, const std::vector<NDArray>& right,
                std::vector<TensorPatch>* patches);

using NodeFailures = std::vector<NodeFailure>;

// The nodes that the reference computed, and why.
struct StandIns {
  absl::Span<const std::string> asked_for;  // Keys.
  const NodeFailures& failures;
  // The last failure ended the run, and the reference did not stand in.
  bool is_cut = false;
};

// Puts that a node left the floating-point environment changed into its report;
// null: of a node that has none.
void NoteFloats(const FloatChange& change, NodeReport* report);

// Puts a failure into its node's report.
void NoteFailure(const NodeFailure& failure, NodeReport* report);

// Puts that into the reports and LocateResult::stand_ins: what was seen of such
// nodes says nothing about them.
void NoteFailures(const StandIns& stand_ins, LocateResult* result);

// Puts what was written over into the reports of those that read it and of
// those that may have written, and into a note where no node may have. `hint`
// goes behind the note. REQUIRES: as FindReport().
void NoteOverwritten(const GraphIndex& index,
                     absl::Span<const Overwriting> overwritten,
                     std::string_view hint, LocateResult* result);

// Returns the status of a run that a node has ended although the reference
// stands in for it: why no node is to blame for that.
absl::Status WithFailureHint(const absl::Status& status,
                             const NodeFailure& failure);

// Returns whether bounds leave open whether the node is right, or what it made
// is nearly as far off as they allow.
bool IsUnsettled(const NodeReport& report);
// Adds what exact inputs showed.
void AddExactCheck(const ExactCheck& check, NodeReport* report);

// Sets the verdict, and the reason for it. `overwritten` is all that was
// written over in the run.
void Conclude(const GraphIndex& index,
              absl::Span<const Overwriting> overwritten, NodeReport* report);

// Sets LocateResult::largest_gain if outputs are wrong and no node is to blame.
void FindGain(LocateResult* result);

// Returns the tensors that a node has written over, each with who reads it.
std::vector<std::string> VictimsOf(const GraphIndex& index,
                                   absl::Span<const Overwriting> overwritten,
                                   NodeId writer);

// Has a search begin again whenever a node ends a run: then the reference
// stands in for all nodes that have done so. Each turn finds one more of them,
// so there are at most as many turns as nodes. What the first two refer to must
// outlive it.
struct StandInSearch {
  absl::Span<const std::string> asked_for;  // LocateRequest::stand_ins.
  const StandInMaker& with_stand_ins;       // May be null.
  CandidateMakers makers;                   // For the runners of this turn.
  NodeFailures failures = {};
  // The last failure ends every run: the reference cannot stand in for it, and
  // why_cut says why in words, which may be none.
  bool is_cut = false;
  std::string why_cut = {};

  StandIns stand_ins() const { return {asked_for, failures, is_cut}; }

  // Has the reference stand in for nodes from the beginning, which are known to
  // fail. Returns false if it cannot, and adds the reason to `why_not`.
  absl::StatusOr<bool> Replace(const NodeFailures& known, std::string* why_not);

  // A turn failed with `status`, after the candidate had come to the end of
  // `runs` runs. Returns OK if a node has ended a run and the search is to
  // begin again; else what the search fails with.
  absl::Status ContinueAfter(const absl::Status& status, size_t runs);
};

}  // namespace nodewise
