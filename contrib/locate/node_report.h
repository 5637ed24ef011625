#pragma once

#include "absl/types/span.h"
#include "contrib/locate/run_hashes.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

// Makes the report of a node that was checked, or was not. Evidence that other
// runs give is added afterwards.
NodeReport ReportOf(const GraphIndex& index, const NodeCheck& check);
NodeReport ReportOf(const GraphIndex& index, const SkippedNode& skipped);

// Returns whether bounds leave open whether the node is right, or what it made
// is nearly as far off as they allow.
bool IsUnsettled(const NodeReport& report);
// Adds what exact inputs showed.
void AddExactCheck(const ExactCheck& check, NodeReport* report);

// Sets the verdict, and the reason for it. `overwritten` is all that was
// written over in the run.
void Conclude(const GraphIndex& index,
              absl::Span<const Overwriting> overwritten, NodeReport* report);

// Returns the tensors that a node has written over, each with who reads it.
std::vector<std::string> VictimsOf(const GraphIndex& index,
                                   absl::Span<const Overwriting> overwritten,
                                   NodeId writer);

}  // namespace nodewise
