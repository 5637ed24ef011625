#pragma once

#include "contrib/locate/node_report.h"
#include "contrib/locate/run_hashes.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/node_check.h"

namespace nodewise {

// What bisecting says of nodes, beside what the questions say.

// Adds the reports of the nodes that were checked, and of the nodes that wrote
// over what these read, unless a node has one already. `first` is the node that
// was found: it is not healthy, even if the check says so. Returns the new
// culprits' nodes, which are added to the result in the order of their nodes.
std::vector<NodeId> AddVerdicts(const GraphIndex& index,
                                const NodeChecks& checks,
                                const RunHashes& hashes, NodeId first,
                                BisectResult* result);

// Adds a report and a culprit for a node that is not deterministic.
void AddUnsteady(const GraphIndex& index, NodeId node, BisectResult* result);

// Adds the nodes that ended runs, which are culprits, and those that the
// reference computed because it was asked to: nothing else is said of them.
void AddStandIns(const GraphIndex& index, const StandIns& stand_ins,
                 BisectResult* result);

// Returns whether an error before the node may be masked, by the reports. Nodes
// that the reference computes mask nothing.
Masking MaskingBefore(NodeId first, const LocateResult& located);

// Returns the place of a node's report; their number if it has none.
size_t ReportOn(NodeId node, const LocateResult& located);

}  // namespace nodewise
