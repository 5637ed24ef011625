#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "contrib/locate/run_hashes.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/locate/locate.h"
#include "nodewise/runner/node_failure.h"

namespace nodewise {

// Makes the report of a node that was checked, or was not. Evidence that other
// runs give is added afterwards.
NodeReport ReportOf(const GraphIndex& index, const NodeCheck& check);
NodeReport ReportOf(const GraphIndex& index, const SkippedNode& skipped);

using NodeFailures = std::vector<NodeFailure>;

// The nodes that the reference computed, and why.
struct StandIns {
  absl::Span<const std::string> asked_for;  // Keys.
  const NodeFailures& failures;
  // The last failure ended the run, and the reference did not stand in.
  bool is_cut = false;
};

// Puts that a node left the floating-point environment changed into its report.
void NoteFloats(const FloatChange& change, NodeReport* report);

// Puts a failure into its node's report.
void NoteFailure(const NodeFailure& failure, NodeReport* report);

// Puts that into the reports and LocateResult::stand_ins: what was seen of such
// nodes says nothing about them.
void NoteFailures(const StandIns& stand_ins, LocateResult* result);

// Returns the status of a run that a node has ended although the reference
// stands in for it: why no node is to blame for that.
absl::Status WithWhatItMeans(const absl::Status& status,
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

}  // namespace nodewise
